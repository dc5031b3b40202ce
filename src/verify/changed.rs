//! Tables that differ from proved ones in some destinations: only these are looked at.
//!
//! What is proved climbs an order of buffers ([`Certificate`]). If all that packets to the other destinations may do
//! climbs the same order, with the old tables, the new ones and any mixture of both, nothing that may be in flight has a
//! cycle. Whatever is not seen that way is judged in full.

use std::sync::Arc;

use rayon::prelude::*;

use super::certificate::Certificate;
use super::cycles::{Buffer, Graph, Turns};
use super::lanes::{Lanes, Together, each};
use super::{Case, Verified};
use crate::model::{DestId, Fabric, LayerBudget, Promise, Tables};

/// Tables that this process has accepted, with what showed it. Only [`Verified`] makes one.
#[derive(Debug, Clone)]
pub struct Proved {
    tables: Arc<Tables>,
    budget: LayerBudget,
    promise: Promise,
    shown: Shown,
}

/// How it was shown that there is no cycle.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) certificate: Arc<Certificate>,
    /// Whether with all VLs taken together that can be.
    pub(super) is_together: bool,
    /// By terminal, whether it is a host: no fingerprint has that.
    pub(super) hosts: Vec<bool>,
}

impl<T: AsRef<Tables> + AsRef<Arc<Tables>>> Verified<T> {
    /// What is proved of its tables, to judge later ones by; `None` where no order showed it.
    pub fn proved(&self) -> Option<Proved> {
        let (judged, tables): (&Tables, &Arc<Tables>) = (self.value.as_ref(), self.value.as_ref());
        let shown = self.shown.clone().filter(|_| std::ptr::eq(judged, &**tables))?;
        let (budget, promise) = (self.budget, self.promise);
        Some(Proved { tables: Arc::clone(tables), budget, promise, shown })
    }
}

impl Proved {
    /// What shows that there is no cycle.
    pub(super) fn shown(&self) -> &Shown {
        &self.shown
    }

    /// Whether a case is one of these tables and others that differ in some destinations, judged alike.
    fn is_like(&self, case: &Case<'_>) -> bool {
        let Case { fabric, tables, budget, checks, beside } = *case;
        let [new] = tables else { return false };
        let is_same = |t: &Tables| std::ptr::eq(t, &*self.tables) || *t == *self.tables;
        // What was shown of each VL by itself says nothing of all together, by which the rest is judged here.
        self.shown.is_together
            && self.tables.fabric() == fabric.fingerprint()
            && fabric.terminal_ids().map(|t| fabric.is_host(t)).eq(self.shown.hosts.iter().copied())
            && new.fabric() == self.tables.fabric()
            && new.lanes() == self.tables.lanes()
            && budget.get() >= self.budget.get()
            && self.promise.covers(&checks.promise)
            // Answers travel on SLs of other destinations.
            && (!checks.promise.reply || checks.promise.any)
            && !checks.hosts_only
            && beside.since.is_empty()
            && beside.apart.is_empty()
            && !beside.answers_later
            && !beside.lost_later
            && beside.mixed.len() <= 1
            && beside.mixed.iter().all(is_same)
    }

    /// Whether a case is sure to be accepted. If not, it may be all the same. O(entries), and for each destination to
    /// which routes differ, what the full check costs.
    pub(super) fn shows(&self, case: &Case<'_>) -> bool {
        if !self.is_like(case) {
            return false;
        }
        let (fabric, new) = (case.fabric, &case.tables[0]);
        let differs = |d: &DestId| {
            new.ports_to(*d) != self.tables.ports_to(*d) || new.layers_to(*d) != self.tables.layers_to(*d)
        };
        let changed: Vec<DestId> = fabric.dest_ids().filter(differs).collect();
        let turns = Turns::new(fabric);
        let (lanes, as_one) = match Lanes::together(&turns, &case.maps()) {
            Some((lanes, as_one)) => (lanes, Some(as_one)),
            None => (Lanes::new(&turns, &case.maps()), None),
        };
        case.examine_on((&turns, &lanes), (&fabric.parts(), &changed), |_, graph, findings| {
            findings.finish().1 == 0 && all_climb(&self.shown.certificate, graph, as_one.as_ref())
        })
    }
}

/// An order that all climb.
pub(super) enum Order {
    /// The order of before.
    Kept(Arc<Certificate>),
    /// One that was searched.
    Found(Vec<Buffer>),
}

impl Order {
    /// As a certificate. O(buffers).
    pub(super) fn certificate(self, fabric: &Fabric) -> Option<Arc<Certificate>> {
        match self {
            Self::Kept(certificate) => Some(certificate),
            Self::Found(order) => Certificate::of(fabric, &order).map(Arc::new),
        }
    }
}

/// Whether all packets of a graph climb an order, on each of the VLs that are taken together. O(turns).
pub(super) fn all_climb(order: &Certificate, graph: &Graph<'_>, as_one: Option<&Together>) -> bool {
    let fabric = graph.turns.fabric;
    if !order.is_of(fabric) {
        return false;
    }
    let count = fabric.channels().len();
    let climbs = |b1: Buffer, b2: Buffer| {
        order.climbs(count, (b1.channel.0, b1.vl.into()), (b2.channel.0, b2.vl.into()))
    };
    let climb = |b1: Buffer, b2: Buffer| {
        if as_one.is_none() {
            return climbs(b1, b2);
        }
        let mut ways = each(as_one, b1.vl).flat_map(|vl1| each(as_one, b2.vl).map(move |vl2| (vl1, vl2)));
        ways.all(|(vl1, vl2)| climbs(Buffer { vl: vl1, ..b1 }, Buffer { vl: vl2, ..b2 }))
    };
    let channels: Vec<_> = fabric.channel_ids().collect();
    channels.par_chunks(CHANNELS).all(|channels| {
        let buffers = channels.iter().flat_map(|c| (0..u16::BITS as u8).map(|vl| Buffer { channel: *c, vl }));
        buffers.into_iter().all(|b1| graph.buffers_after(b1).all(|b2| climb(b1, b2)))
    })
}

/// Channels that one task looks at.
const CHANNELS: usize = 1024;

#[cfg(test)]
mod tests;

//! Certificates: an order of buffers that every route climbs. Whoever has one need not search for cycles: a route
//! that only goes from earlier buffers to later ones is in none (Dally and Seitz 1987). Whether it does is seen at
//! each of its hops.

use std::sync::Arc;

use super::cycles::{Buffer, Turns};
use super::finding::{Finding, Findings, Kind, destination_name};
use super::lanes::Lanes;
use super::reach::{self, Later};
use super::senders::Senders;
use super::trees::{LOST, NO_CHANNEL, Tree, Trees};
use super::{Beside, Case, Checks, Verdict, tasks, verdict};
use crate::model::{ChannelId, DestId, Fabric, Fingerprint, LayerBudget, Tables, Vl};

/// Place of a buffer that the order does not have.
const NOWHERE: u32 = u32::MAX;

/// An order of the buffers of a fabric: a buffer is a virtual lane of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    fabric: Fingerprint,
    order: Vec<(ChannelId, Vl)>,
    /// `place[vl * channels + channel]`.
    place: Vec<u32>,
}

impl Certificate {
    /// Of an order, first to last; what no packet waits for may be left out. O(buffers).
    ///
    /// # Errors
    /// The place in the order, from 0, of a buffer that came before or that the fabric does not have.
    pub fn new(fabric: &Fabric, order: Vec<(ChannelId, Vl)>) -> Result<Self, usize> {
        let channels = fabric.channels().len();
        let mut place = vec![NOWHERE; channels * usize::from(u16::BITS as u8)];
        for (i, (c, vl)) in order.iter().enumerate() {
            // A channel that the fabric does not have would be found among those of another VL.
            let own =
                place[usize::from(vl.get()) * channels..].get_mut(c.index()).filter(|_| c.index() < channels);
            if own.is_none_or(|own| std::mem::replace(own, i as u32) != NOWHERE) {
                return Err(i);
            }
        }
        Ok(Self { fabric: fabric.fingerprint(), order, place })
    }

    /// Of what a search has found. No buffer comes twice there.
    pub(super) fn of(fabric: &Fabric, order: &[Buffer]) -> Option<Self> {
        let named = |b: &Buffer| Vl::new(u64::from(b.vl)).ok().map(|vl| (b.channel, vl));
        Self::new(fabric, order.iter().map(named).collect::<Option<_>>()?).ok()
    }

    /// The buffers, first to last.
    pub fn order(&self) -> &[(ChannelId, Vl)] {
        &self.order
    }

    /// Whether it is of this fabric.
    pub(super) fn is_of(&self, fabric: &Fabric) -> bool {
        self.fabric == fabric.fingerprint()
    }

    /// Whether a packet may hold the first buffer while it waits for the second.
    #[inline]
    pub(super) fn climbs(&self, channels: usize, (c1, vl1): (u32, u32), (c2, vl2): (u32, u32)) -> bool {
        let at = |c: u32, vl: u32| self.place[vl as usize * channels + c as usize];
        at(c1, vl1) < at(c2, vl2) && at(c2, vl2) != NOWHERE
    }
}

/// A certificate of tables for a promise, with what else may be in flight; `None` if they have a cycle or are
/// of another fabric. It is one for any part of that traffic as well. Costs what [`super::judge_beside`] does.
pub fn certify(
    fabric: &Fabric,
    tables: &Tables,
    budget: LayerBudget,
    checks: Checks,
    beside: Beside<'_>,
) -> Option<Certificate> {
    let (_, order) = Case { fabric, tables: std::slice::from_ref(tables), budget, checks, beside }.judge();
    let certificate = order?.0.certificate(fabric)?;
    Some(Arc::unwrap_or_clone(certificate))
}

/// Judges tables as [`super::judge_with`] does, but for cycles by a certificate alone: no graph is built, each entry
/// is looked at once. `since` are tables of earlier epochs, see [`Beside::since`].
///
/// O(destinations × switches × VLs in use).
pub fn judge_certified(
    fabric: &Fabric,
    tables: &Tables,
    budget: LayerBudget,
    checks: Checks,
    since: &[Tables],
    certificate: &Certificate,
) -> Verdict {
    let mut findings = Findings::default();
    let of = [tables.fabric(), certificate.fabric].into_iter().chain(since.iter().map(Tables::fabric));
    let mut of = of.chain(tables.lanes().map(|map| map.fabric()));
    if let Some(other) = of.find(|f| *f != fabric.fingerprint()) {
        let (fabric, tables) = (fabric.fingerprint().to_string(), other.to_string());
        findings.add(Kind::WrongFabric, || Finding::WrongFabric { fabric, tables });
        return verdict(findings, 0, checks.promise);
    }
    let parts = fabric.parts();
    let turns = Turns::new(fabric);
    let map = tables.lanes().map(AsRef::as_ref);
    let lanes = Lanes::new(&turns, &[map]);
    let senders = Senders::new(fabric, tables, since.iter(), checks.promise);
    let trees = Trees::new(fabric, tables);
    let reader = Reader { trees: &trees, turns: &turns, lanes: &lanes, senders: &senders, certificate };
    let dests: Vec<DestId> =
        fabric.dest_ids().filter(|d| !checks.hosts_only || fabric.is_host_dest(*d)).collect();
    use rayon::prelude::*;
    let partial = tasks(&dests).map(|dests| {
        let (mut findings, mut tree) = (Findings::default(), trees.room());
        let mut on = vec![0u16; fabric.switches().len() * lanes.columns()];
        for d in dests {
            trees.trace(*d, &mut tree);
            reach::check(&trees, *d, &tree, (&parts, Later::default()), &mut findings);
            senders.check(tables, *d, &tree, budget.get(), &mut findings);
            reader.climb(*d, &tree, &mut on, &mut findings);
        }
        findings
    });
    let mut findings = partial.reduce(Findings::default, Findings::then);
    let case = Case { fabric, tables: &[], budget, checks, beside: Beside::default() };
    map.into_iter().for_each(|map| case.check_lanes(map, senders.sls(), &mut findings));
    verdict(findings, reach::unreachable_pairs(fabric, &parts), checks.promise)
}

/// What a certificate is read with.
struct Reader<'a> {
    trees: &'a Trees<'a>,
    turns: &'a Turns<'a>,
    lanes: &'a Lanes,
    senders: &'a Senders<'a>,
    certificate: &'a Certificate,
}

impl Reader<'_> {
    /// Whether all packets to a destination climb: from the farthest switches to its home, each hop once.
    /// `on[switch * columns + column]`: VLs on which packets leave a switch, as bits.
    fn climb(&self, d: DestId, tree: &Tree, on: &mut [u16], findings: &mut Findings) {
        let columns = self.lanes.columns();
        on.fill(0);
        // Packets that end nowhere hold buffers too, but in no order that a tree gives.
        let stray = (0..tree.next.len()).find(|s| tree.next[*s] != NO_CHANNEL && tree.depth[*s] == LOST);
        if let Some(s) = stray {
            self.refuse(d, (tree.next[s], 0), None, findings);
        }
        for s in tree.order[1..].iter().rev().map(|s| *s as usize) {
            let (c, parent) = (tree.next[s], tree.parent(self.trees, s));
            let starting = self.senders.start(d, tree.home, s);
            for column in 0..columns {
                let vls = on[s * columns + column] | self.lanes.enter(c, column, starting);
                if parent == tree.home || vls == 0 {
                    continue;
                }
                let next = tree.next[parent];
                let behind = self.lanes.pass(self.turns.of(c, next) * columns + column, vls);
                on[parent * columns + column] |= behind;
                self.hop(d, (c, vls), (next, behind), findings);
            }
        }
    }

    /// Whether packets on some VLs of a channel climb to those of the next.
    fn hop(&self, d: DestId, (c, vls): (u32, u16), (next, behind): (u32, u16), findings: &mut Findings) {
        let channels = self.trees.wiring.to.len();
        for vl in bits(vls) {
            let onto = if self.lanes.are_layers() { 1 << vl } else { behind };
            for vl_next in bits(onto) {
                if !self.certificate.climbs(channels, (c, vl), (next, vl_next)) {
                    self.refuse(d, (c, vl), Some((next, vl_next)), findings);
                }
            }
        }
    }

    fn refuse(&self, d: DestId, from: (u32, u32), to: Option<(u32, u32)>, findings: &mut Findings) {
        let fabric = self.trees.fabric;
        let name = |(c, vl): (u32, u32)| format!("{} VL {vl}", fabric.channel_name(ChannelId(c)));
        findings.add(Kind::NotCertified, || Finding::NotCertified {
            buffer: name(from),
            next: to.map(name),
            destination: destination_name(fabric, d),
        });
    }
}

/// Numbers of the bits that are set.
fn bits(mut mask: u16) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros())?;
        mask &= mask - 1;
        Some(bit)
    })
}

//! Starts from tables that are in force, so that only what must change does.

use super::net::{NONE, Net};
use super::routing::{Routing, covers};
use super::traffic::{Class, Traffic};
use crate::model::{Demand, Fabric, Tables, TerminalId};

/// What was taken over from tables in force.
pub(super) struct InForce {
    /// Load of the fullest channel with the routes between all hosts, as far as they were taken over; `None`
    /// if no tables are in force.
    pub(super) fullest: Option<u32>,
    /// By terminal: its routes stay, as they serve all jobs that it is in.
    pub(super) settled: Vec<bool>,
    /// Routes that were taken over but are to be found anew, by terminal.
    pub(super) before: Vec<(usize, Vec<u8>)>,
}

/// Slot of each port of each switch.
struct Slots(Vec<[u8; 256]>);

impl Slots {
    fn new(net: &Net) -> Self {
        let mut slot_of = vec![[NONE; 256]; net.switches()];
        for (s, slots) in slot_of.iter_mut().enumerate() {
            for (slot, c) in net.out(s).enumerate() {
                slots[usize::from(net.port(c))] = slot as u8;
            }
        }
        Self(slot_of)
    }

    /// The routes to a terminal. O(switches).
    fn read(&self, fabric: &Fabric, tables: &Tables, terminal: usize, row: &mut [u8]) {
        let d = fabric.dest_of_terminal(TerminalId::at(terminal));
        let ports = tables.ports_to(d);
        row.iter_mut().zip(&self.0).zip(ports).for_each(|((slot, of), port)| *slot = of[usize::from(*port)]);
        row[fabric.home(d).index()] = NONE;
    }
}

impl<'a> Routing<'a> {
    /// Starts from tables in force, if there are some: `served` is the demand that they serve, and `everyone`
    /// the traffic between all hosts. O(terminals × switches).
    pub(super) fn start_from(
        &mut self,
        fabric: &Fabric,
        previous: Option<&Tables>,
        served: Option<&Demand>,
        everyone: &'a Traffic<'a>,
    ) -> InForce {
        let own = std::mem::replace(&mut self.traffic, everyone);
        self.clear_load();
        let kept = match previous {
            Some(previous) => self.keep(fabric, previous),
            None => vec![false; self.home.len()],
        };
        self.traffic = own;
        let fullest = previous.map(|_| self.fullest());
        let settled = self.traffic.settled(served);
        let settled: Vec<bool> = kept.iter().zip(settled).map(|(k, s)| *k && s).collect();
        let before = self.rows_of(&kept, &settled);
        InForce { fullest, settled, before }
    }

    /// Takes over the routes to each terminal if some layer allows each of them, and adds their load. The orders
    /// of the layers depend on the fabric, the budget and whether there are jobs, so tables of this engine stay
    /// as they are until the first job starts or the last one ends.
    /// Says which were taken over. O(terminals × switches).
    fn keep(&mut self, fabric: &Fabric, previous: &Tables) -> Vec<bool> {
        let slots = Slots::new(self.net);
        (0..self.home.len()).map(|t| self.keep_one(fabric, previous, &slots, t)).collect()
    }

    fn keep_one(&mut self, fabric: &Fabric, previous: &Tables, slots: &Slots, terminal: usize) -> bool {
        let (net, home) = (self.net, self.home[terminal] as usize);
        let span = terminal * net.switches()..(terminal + 1) * net.switches();
        let row = &mut self.rows[span.clone()];
        slots.read(fabric, previous, terminal, row);
        let is_counted = self.traffic.class(terminal) == Class::Job;
        if is_counted && self.weigh_climb(terminal, u32::wrapping_add) {
            return true;
        }
        let row = &mut self.rows[span.clone()];
        self.search.follow(net, &self.layers.fit, self.layers.all, home, row);
        if !covers(net, &self.search, home) {
            return false;
        }
        if is_counted {
            self.gather(terminal);
            self.count(terminal, u32::wrapping_add);
        }
        // Broken routes are left only where nothing starts: any way there will do.
        let row = &mut self.rows[span];
        for s in (0..net.switches()).filter(|s| self.search.hops[*s] == u16::MAX) {
            row[s] = NONE;
        }
        self.search.attach_rest(net, row);
        true
    }

    /// Takes over all routes to terminals, whatever they are. O(terminals × switches).
    pub(super) fn read(&mut self, fabric: &Fabric, tables: &Tables) {
        let slots = Slots::new(self.net);
        let rows = self.rows.chunks_mut(self.net.switches()).enumerate();
        rows.for_each(|(t, row)| slots.read(fabric, tables, t, row));
    }

    /// The routes to terminals that were taken over but are to be found anew.
    pub(super) fn rows_of(&self, kept: &[bool], settled: &[bool]) -> Vec<(usize, Vec<u8>)> {
        let again = (0..kept.len()).filter(|t| kept[*t] && !settled[*t]);
        again.map(|t| (t, self.row(t).to_vec())).collect()
    }

    /// Gives switches that no job's routes pass the slots they had, so that less must be programmed.
    /// From there each route goes on as before, until it meets one of a job. O(terminals × switches).
    pub(super) fn restore(&mut self, before: &[(usize, Vec<u8>)]) {
        let switches = self.net.switches();
        for (t, before) in before {
            self.follow(*t);
            self.gather(*t);
            let span = t * switches..(t + 1) * switches;
            let found = self.rows[span.clone()].to_vec();
            let rest = (0..switches).filter(|s| self.flow[*s] == 0 && before[*s] != NONE);
            rest.for_each(|s| self.rows[span.start + s] = before[s]);
            self.follow(*t);
            if !covers(self.net, &self.search, self.home[*t] as usize) {
                self.rows[span].copy_from_slice(&found);
            }
        }
    }
}

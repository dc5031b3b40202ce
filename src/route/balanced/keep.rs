//! Starts from tables that are in force, so that only what must change does.

use rayon::prelude::*;

use super::FEWEST_ROWS;
use super::bound::sum;
use super::net::{NONE, Net};
use super::once::climbing_loads;
use super::routing::{Routing, covers};
use super::traffic::{Class, Traffic};
use crate::model::{Demand, DestId, Fabric, Tables, TerminalId};

/// What was taken over from tables in force.
pub(super) struct InForce {
    /// Load of the fullest channel with the routes between all hosts, as far as they were taken over; `None`
    /// if no tables are in force.
    pub(super) fullest: Option<u32>,
    /// By terminal: its routes stay, as they serve all jobs that it is in.
    pub(super) settled: Vec<bool>,
    /// Routes between all hosts on each channel, as far as they were taken over; none if no tables are in force.
    pub(super) load: Vec<u32>,
    /// Routes that were taken over but are to be found anew, by terminal.
    pub(super) before: Vec<(usize, Vec<u8>)>,
    /// Whether all routes to hosts that were taken over are known to climb and then descend.
    pub(super) is_climbing: bool,
}

/// Slots of ports, and ports of slots.
pub(super) struct Slots {
    /// Slot of each port of each switch: `of[switch * stride + port]`.
    of: Vec<u8>,
    stride: usize,
    /// By switch, the port of slot 0 and the number of slots, where the ports of each switch to others follow each other:
    /// many at once are read then.
    in_turn: Option<(Vec<u8>, Vec<u8>)>,
}

impl Slots {
    pub(super) fn new(net: &Net) -> Self {
        let most = (0..net.channels()).map(|c| usize::from(net.port(c))).max().unwrap_or(0);
        let stride = most + 1;
        let mut of = vec![NONE; net.switches() * stride];
        for (s, slots) in of.chunks_mut(stride).enumerate() {
            for (slot, c) in net.out(s).enumerate() {
                slots[usize::from(net.port(c))] = slot as u8;
            }
        }
        let first = |s| net.out(s).next().map_or(0, |c| net.port(c));
        let follow =
            |s| net.out(s).zip(u32::from(first(s))..).all(|(c, port)| u32::from(net.port(c)) == port);
        let all = 0..net.switches();
        let in_turn = all
            .clone()
            .all(follow)
            .then(|| (all.clone().map(first).collect(), all.map(|s| net.degree(s) as u8).collect()));
        Self { of, stride, in_turn }
    }

    /// The routes to a destination. O(switches).
    pub(super) fn read(&self, fabric: &Fabric, tables: &Tables, d: DestId, row: &mut [u8]) {
        let ports = tables.ports_to(d);
        if let Some((first, count)) = &self.in_turn {
            for (((slot, port), first), count) in row.iter_mut().zip(ports).zip(first).zip(count) {
                let at = port.wrapping_sub(*first);
                *slot = if at < *count { at } else { NONE };
            }
        } else {
            for ((slot, of), port) in row.iter_mut().zip(self.of.chunks(self.stride)).zip(ports) {
                *slot = of.get(usize::from(*port)).copied().unwrap_or(NONE);
            }
        }
        row[fabric.home(d).index()] = NONE;
    }

    /// Ports in the place of slots. O(switches).
    pub(super) fn write(&self, net: &Net, row: &mut [u8]) {
        if let Some((first, _)) = &self.in_turn {
            for (slot, first) in row.iter_mut().zip(first) {
                *slot = if *slot == NONE { NONE } else { *slot + first };
            }
            return;
        }
        for (s, slot) in row.iter_mut().enumerate().filter(|(_, slot)| **slot != NONE) {
            *slot = net.port(net.channel(s, *slot));
        }
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
        let (kept, is_climbing) = match previous {
            Some(previous) => self.keep(fabric, previous),
            None => (vec![false; self.home.len()], true),
        };
        self.traffic = own;
        let fullest = previous.map(|_| self.fullest());
        let settled = self.traffic.settled(served);
        let settled: Vec<bool> = kept.iter().zip(settled).map(|(k, s)| *k && s).collect();
        let before = self.rows_of(&kept, &settled);
        let load = previous.map_or_else(Vec::new, |_| self.load.clone());
        InForce { fullest, settled, load, before, is_climbing }
    }

    /// Takes over the routes to each terminal if some layer allows each of them, and adds their load. The orders
    /// of the layers depend on the fabric, the budget and whether there are jobs, so tables of this engine stay
    /// as they are until the first job starts or the last one ends.
    /// Says which were taken over, and whether those to hosts are all known to climb and then descend.
    /// O(terminals × switches).
    pub(super) fn keep(&mut self, fabric: &Fabric, previous: &Tables) -> (Vec<bool>, bool) {
        let slots = Slots::new(self.net);
        let mut kept = self.keep_climbing(fabric, previous, &slots);
        let is_climbing = (0..kept.len()).all(|t| kept[t] || self.traffic.class(t) != Class::Job);
        for t in (0..kept.len()).filter(|t| !kept[*t]).collect::<Vec<_>>() {
            kept[t] = self.keep_one(fabric, previous, &slots, t);
        }
        (kept, is_climbing)
    }

    /// The same in a tree, of those routes that climb and then descend: they need no look at layers. What tables that were
    /// made here put on the channels is known. Uses all threads.
    fn keep_climbing(&mut self, fabric: &Fabric, previous: &Tables, slots: &Slots) -> Vec<bool> {
        let mut kept = vec![false; self.home.len()];
        let Some(climb) = &self.climb else { return kept };
        let (net, home, traffic) = (self.net, &self.home, self.traffic);
        let known = climbing_loads(fabric, previous);
        let start = || (vec![0u32; net.switches()], vec![0u32; net.channels()]);
        let rows = self.rows.par_chunks_mut(net.switches()).zip(&mut kept).enumerate();
        let loads = rows.with_min_len(FEWEST_ROWS).fold(start, |(mut flow, mut load), (t, (row, kept))| {
            if traffic.class(t) == Class::Job {
                slots.read(fabric, previous, fabric.dest_of_terminal(TerminalId::at(t)), row);
                let at = (net, home[t] as usize, &*row);
                *kept = known.is_some()
                    || climb.weigh(at, (&mut flow, &mut load), u32::wrapping_add, true).is_some();
            }
            (flow, load)
        });
        let load = loads.map(|(_, load)| load).reduce(|| vec![0; net.channels()], sum);
        let load = known.as_deref().unwrap_or(&load);
        self.load.iter_mut().zip(load).for_each(|(all, own)| *all += own);
        kept
    }

    fn keep_one(&mut self, fabric: &Fabric, previous: &Tables, slots: &Slots, terminal: usize) -> bool {
        let (net, home) = (self.net, self.home[terminal] as usize);
        let span = terminal * net.switches()..(terminal + 1) * net.switches();
        let row = &mut self.rows[span.clone()];
        slots.read(fabric, previous, fabric.dest_of_terminal(TerminalId::at(terminal)), row);
        let is_counted = self.traffic.class(terminal) == Class::Job;
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
        let dest = |t| fabric.dest_of_terminal(TerminalId::at(t));
        rows.for_each(|(t, row)| slots.read(fabric, tables, dest(t), row));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;
    use crate::model::LayerBudget;
    use crate::route::{EngineOptions, engine};

    /// Ports that follow each other are read and written as any others; a damaged fabric has gaps.
    #[test]
    fn rows_are_read_and_written_whatever_the_ports() {
        for (spec, follow) in [("kary:4,3", true), ("kary:4,3,faults=10%,seed=3", false)] {
            let fabric = generate(spec).unwrap();
            let net = Net::new(&fabric);
            let (slots, budget) = (Slots::new(&net), LayerBudget::MOST);
            assert_eq!(slots.in_turn.is_some(), follow, "{spec}");
            let tables = engine("updown", &EngineOptions::default()).unwrap();
            let tables = tables.route(&fabric, &Demand::oblivious(), budget).unwrap();
            let plain = Slots { in_turn: None, ..Slots::new(&net) };
            for d in fabric.dest_ids() {
                let mut rows = [vec![0; net.switches()], vec![0; net.switches()]];
                slots.read(&fabric, &tables, d, &mut rows[0]);
                plain.read(&fabric, &tables, d, &mut rows[1]);
                assert_eq!(rows[0], rows[1], "{spec}");
                slots.write(&net, &mut rows[0]);
                let home = fabric.home(d).index();
                let others = (0..net.switches()).filter(|s| *s != home);
                others.for_each(|s| assert_eq!(rows[0][s], tables.ports_to(d)[s], "{spec}"));
                assert_eq!(rows[0][home], NONE);
            }
        }
    }
}

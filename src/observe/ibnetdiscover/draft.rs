//! Devices and listings of cables as a file gives them, put together to a fabric.
//!
//! A cable may be listed at one of its ends or at both. Both devices must be described, and two
//! listings of a cable must agree; so a file that was cut short is refused or lacks nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::lines::{Kind, PortLine};
use super::{Discovered, Problem, Unrouted};
use crate::model::{FabricBuilder, FabricError, Guid, Lid, NewTerminal, PortNum, Role, SwitchId, shown};
use crate::observe::grid;

/// A line number and what is wrong there.
pub(super) type Fault = (usize, Problem);

/// A device of the file.
pub(super) struct Block<'a> {
    pub(super) line: usize,
    pub(super) kind: Kind,
    pub(super) ports: u8,
    /// How cables name it. Only switches of a system with one node GUID share a name.
    pub(super) id: &'a str,
    pub(super) guid: Guid,
    /// The GUID of a switch's port 0, where the file says it.
    pub(super) port_guid: Option<Guid>,
    pub(super) description: &'a str,
    pub(super) lid: Option<Lid>,
    pub(super) aggregation: bool,
    /// Listings with their lines, sorted by port.
    pub(super) cables: Vec<(usize, PortLine<'a>)>,
}

impl<'a> Block<'a> {
    fn cable(&self, port: PortNum) -> Option<&(usize, PortLine<'a>)> {
        self.cables.binary_search_by_key(&port, |(_, c)| c.port).ok().map(|i| &self.cables[i])
    }

    /// Adds the listing of a cable.
    pub(super) fn list(&mut self, at: usize, port: PortLine<'a>) -> Result<(), Fault> {
        let number = port.port;
        self.has(number).map_err(|problem| (at, problem))?;
        match self.cables.binary_search_by_key(&number, |(_, c)| c.port) {
            Ok(i) => {
                let (id, first) = (self.id.to_string(), self.cables[i].0);
                Err((at, Problem::PortTwice { port: number, id, first }))
            }
            Err(i) => {
                self.cables.insert(i, (at, port));
                Ok(())
            }
        }
    }

    fn has(&self, port: PortNum) -> Result<(), Problem> {
        let (id, ports) = (self.id.to_string(), self.ports);
        if port.get() > ports { Err(Problem::NoSuchPort { port, id, ports }) } else { Ok(()) }
    }

    fn unrouted(&self, line: usize, cabled_to: Option<&str>) -> Unrouted {
        let (description, cabled_to) =
            (shown(self.description).into_owned(), cabled_to.map(|to| shown(to).into_owned()));
        Unrouted { node_guid: self.guid, description, cabled_to, line }
    }
}

/// One end of a cable.
#[derive(Debug, Clone, Copy)]
struct End {
    block: usize,
    port: PortNum,
    lid: Option<Lid>,
    guid: Option<u64>,
    /// Where the device lists the cable; else the line of the other end.
    line: usize,
}

/// A cable, by the line that lists it first.
struct Cable {
    line: usize,
    near: End,
    far: End,
}

/// The file, taken apart.
#[derive(Default)]
pub(super) struct Draft<'a> {
    pub(super) blocks: Vec<Block<'a>>,
    by_id: BTreeMap<&'a str, Vec<usize>>,
    /// Number of lines.
    pub(super) lines: usize,
    /// The file said that it has an end, and has it: it may be without adapters.
    pub(super) ended: bool,
}

impl<'a> Draft<'a> {
    /// Adds a device. Two switches may have one name if their ports 0 have different GUIDs.
    pub(super) fn add(&mut self, block: Block<'a>) -> Result<(), Fault> {
        let same = self.by_id.entry(block.id).or_default();
        let other = |i: &usize| {
            let first = &self.blocks[*i];
            let switches = (first.kind, block.kind) == (Kind::Switch, Kind::Switch);
            switches && block.port_guid.is_some() && first.port_guid != block.port_guid
        };
        if let Some(first) = same.iter().find(|i| !other(i)) {
            let (id, first) = (block.id.to_string(), self.blocks[*first].line);
            return Err((block.line, Problem::NodeTwice { id, first }));
        }
        same.push(self.blocks.len());
        self.blocks.push(block);
        Ok(())
    }

    /// The device to which a listing of `here` leads. Of switches with one name it is the one with
    /// the LID that the listing says, else the one that lists a cable back.
    fn far_end(&self, here: &Block<'_>, listing: &PortLine<'_>) -> Result<usize, Problem> {
        let peer = || listing.peer.to_string();
        let same = self.by_id.get(listing.peer).ok_or_else(|| Problem::UnknownPeer { peer: peer() })?;
        if let [one] = same.as_slice() {
            return Ok(*one);
        }
        let by_lid = |i: &&usize| listing.peer_lid.is_some() && self.blocks[**i].lid == listing.peer_lid;
        let leads_back = |i: &&usize| {
            let back = self.blocks[**i].cable(listing.peer_port);
            back.is_some_and(|(_, back)| (back.peer, back.peer_port) == (here.id, listing.port))
        };
        let only = |mut found: Vec<&usize>| found.pop().filter(|_| found.is_empty()).copied();
        only(same.iter().filter(by_lid).collect())
            .or_else(|| only(same.iter().filter(leads_back).collect()))
            .ok_or_else(|| Problem::AmbiguousPeer { peer: peer() })
    }

    /// All cables, each once, in the order of the file.
    fn cables(&self) -> Result<Vec<Cable>, Fault> {
        let mut cables = Vec::new();
        // Ports with a cable that only its other end lists, and the line of that.
        let mut unlisted: BTreeMap<(usize, PortNum), usize> = BTreeMap::new();
        for (at, block) in self.blocks.iter().enumerate() {
            for (line, here) in &block.cables {
                let fail = |problem| (*line, problem);
                let far_at = self.far_end(block, here).map_err(fail)?;
                // A plug that leads a port back to itself leads nowhere.
                if (far_at, here.peer_port) == (at, here.port) {
                    continue;
                }
                let far = &self.blocks[far_at];
                far.has(here.peer_port).map_err(fail)?;
                let mut cable = Cable {
                    line: *line,
                    near: End { block: at, port: here.port, lid: here.lid, guid: here.guid, line: *line },
                    far: End {
                        block: far_at,
                        port: here.peer_port,
                        lid: here.peer_lid,
                        guid: here.peer_guid,
                        line: *line,
                    },
                };
                if let Some((other, there)) = far.cable(here.peer_port) {
                    let back = self.far_end(far, there).map_err(|problem| (*other, problem))?;
                    if (back, there.peer_port) != (at, here.port) {
                        let peer = here.peer.to_string();
                        let problem = Problem::OtherEnd { peer, port: here.peer_port, other: *other };
                        return Err((*line, problem));
                    }
                    self.agree(&mut cable, *other, there).map_err(fail)?;
                    if (far_at, here.peer_port) < (at, here.port) {
                        continue;
                    }
                } else if let Some(other) = unlisted.insert((far_at, here.peer_port), *line) {
                    let peer = here.peer.to_string();
                    return Err(fail(Problem::OtherEnd { peer, port: here.peer_port, other }));
                }
                cables.push(cable);
            }
        }
        Ok(cables)
    }

    /// Holds a listing against that of the other end, and takes from there what it leaves out.
    fn agree(&self, cable: &mut Cable, other: usize, there: &PortLine<'_>) -> Result<(), Problem> {
        let far = &self.blocks[cable.far.block];
        let own_line = |kind| if kind == Kind::Switch { far.line } else { other };
        let wrong = |what, line| {
            let peer = far.id.to_string();
            Problem::OtherIdentity { what, peer, other: line }
        };
        let far_lid = if far.kind == Kind::Switch { far.lid } else { there.lid };
        if cable.far.lid.zip(far_lid).is_some_and(|(a, b)| a != b) {
            return Err(wrong("the LID", own_line(far.kind)));
        }
        // Directors write the number of a switch's port where adapters have a GUID.
        let guids = cable.far.guid.zip(there.guid).filter(|_| far.kind != Kind::Switch);
        if guids.is_some_and(|(a, b)| a != b) {
            return Err(wrong("the port GUID", other));
        }
        cable.far.lid = far_lid.or(cable.far.lid);
        cable.far.guid = there.guid.or(cable.far.guid);
        cable.far.line = other;
        cable.near.lid = cable.near.lid.or(there.peer_lid);
        cable.near.guid = cable.near.guid.or(there.peer_guid);
        Ok(())
    }

    /// Refuses cables that are listed at one end only.
    pub(super) fn listed_twice(&self) -> Result<(), Fault> {
        for (line, listing) in self.blocks.iter().flat_map(|block| &block.cables) {
            let far = self.by_id.get(listing.peer).and_then(|same| same.first());
            if far.and_then(|far| self.blocks[*far].cable(listing.peer_port)).is_none() {
                let (peer, port) = (listing.peer.to_string(), listing.peer_port);
                return Err((*line, Problem::OneEnd { peer, port }));
            }
        }
        Ok(())
    }

    /// The fabric that all of this is.
    pub(super) fn build(mut self) -> Result<Discovered, Fault> {
        self.tell_apart();
        let cables = self.cables()?;
        let mut claims = self.lids(&cables)?;
        let mut builder = FabricBuilder::default();
        let mut switches: Vec<Option<SwitchId>> = Vec::with_capacity(self.blocks.len());
        for b in &self.blocks {
            let added =
                (b.kind == Kind::Switch).then(|| builder.switch(b.guid, b.ports, b.lid, b.description));
            switches.push(added.transpose().map_err(|e| (b.line, e.into()))?);
        }
        let mut guids = PortGuids::new(&self.blocks, &cables);
        let mut cabled = vec![false; self.blocks.len()];
        let (mut unrouted, mut terminals) = (Vec::new(), Vec::new());
        for cable in &cables {
            let (near, far) = (cable.near, cable.far);
            (cabled[near.block], cabled[far.block]) = (true, true);
            match (switches[near.block], switches[far.block]) {
                (Some(a), Some(b)) => {
                    builder.cable(a, near.port, b, far.port).map_err(|e| (cable.line, e.into()))?;
                }
                (Some(switch), None) => terminals.push((far, switch, near.port)),
                (None, Some(switch)) => terminals.push((near, switch, far.port)),
                (None, None) => {
                    for (end, other) in [(near, far), (far, near)] {
                        let other = self.blocks[other.block].description;
                        unrouted.push(self.blocks[end.block].unrouted(end.line, Some(other)));
                    }
                }
            }
        }
        // In the order of the adapters: free LIDs are given in that order.
        terminals.sort_by_key(|(end, ..)| (end.block, end.port));
        for (end, switch, port) in &terminals {
            claims.extend(end.lid.map(|lid| (lid, end.line)));
            let new = self.terminal(*end, *switch, *port, &mut guids).map_err(|p| (end.line, p))?;
            builder.terminal(new).map_err(|e| (end.line, e.into()))?;
        }
        for (block, _) in self.blocks.iter().zip(cabled).filter(|(_, cabled)| !cabled) {
            if block.kind != Kind::Switch {
                unrouted.push(block.unrouted(block.line, None));
            }
        }
        unrouted.sort_by_key(|u| u.line);
        if terminals.is_empty() && !self.ended {
            return Err((self.lines, Problem::NoTerminal));
        }
        let fabric = builder.build().map_err(|e| (self.line_of(&e, &claims), e.into()))?;
        Ok(Discovered { fabric: grid::shaped(fabric), unrouted })
    }

    /// Gives switches of one name, which is the node GUID of their whole system, the GUIDs of
    /// their ports 0.
    fn tell_apart(&mut self) {
        for same in self.by_id.values().filter(|same| same.len() > 1) {
            for &i in same {
                let block = &mut self.blocks[i];
                block.guid = block.port_guid.unwrap_or(block.guid);
            }
        }
    }

    /// Gives switches the LIDs that only cables to them say. Returns all that is said of LIDs of
    /// switches, with lines.
    fn lids(&mut self, cables: &[Cable]) -> Result<Vec<(Lid, usize)>, Fault> {
        let mut claims: BTreeMap<usize, (Lid, usize)> = BTreeMap::new();
        for (i, block) in self.blocks.iter().enumerate() {
            claims.extend(block.lid.map(|lid| (i, (lid, block.line))));
        }
        for (end, line) in cables.iter().flat_map(|c| [(c.near, c.line), (c.far, c.line)]) {
            let block = &mut self.blocks[end.block];
            let Some(lid) = end.lid.filter(|_| block.kind == Kind::Switch) else { continue };
            let (said, other) = *claims.entry(end.block).or_insert((lid, line));
            if said != lid {
                let peer = block.id.to_string();
                return Err((line, Problem::OtherIdentity { what: "the LID", peer, other }));
            }
            block.lid = Some(lid);
        }
        Ok(claims.into_values().collect())
    }

    fn terminal(
        &self,
        end: End,
        switch: SwitchId,
        port: PortNum,
        guids: &mut PortGuids,
    ) -> Result<NewTerminal, Problem> {
        let block = &self.blocks[end.block];
        let guid = guids.of(block, end);
        Ok(NewTerminal {
            node_guid: block.guid,
            port_guid: Guid::new(guid).map_err(|_| Problem::WrongGuid { id: block.id.to_string(), guid })?,
            adapter_port: end.port,
            lid: end.lid,
            description: block.description.to_string(),
            role: if block.aggregation { Role::Aggregation } else { Role::Host },
            switch,
            port,
        })
    }

    /// The line of the second claim of a LID, or the last line.
    fn line_of(&self, error: &FabricError, lids: &[(Lid, usize)]) -> usize {
        let FabricError::DuplicateLid(twice) = error else { return self.lines };
        lids.iter().filter(|(lid, _)| lid == twice).map(|(_, line)| *line).max().unwrap_or(self.lines)
    }
}

/// GUIDs of adapters' ports.
struct PortGuids {
    taken: BTreeSet<u64>,
}

impl PortGuids {
    fn new(blocks: &[Block<'_>], cables: &[Cable]) -> Self {
        let switches = blocks.iter().filter(|b| b.kind == Kind::Switch).map(|b| b.guid.get());
        let ends = cables.iter().flat_map(|c| [c.near, c.far]);
        let said = ends.filter(|e| blocks[e.block].kind != Kind::Switch).filter_map(|e| e.guid);
        Self { taken: switches.chain(said).collect() }
    }

    /// What the file says; else what ibsim gives, or the next one that is free: the GUIDs of two
    /// adapters may be neighbours.
    fn of(&mut self, block: &Block<'_>, end: End) -> u64 {
        end.guid.unwrap_or_else(|| {
            let mut guid = block.guid.get().wrapping_add(end.port.get().into());
            while !self.taken.insert(guid) {
                guid = guid.wrapping_add(1);
            }
            guid
        })
    }
}

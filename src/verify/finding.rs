//! Reasons to reject, in an administrator's words, and how many of each are kept.

use schemars::JsonSchema;
use std::fmt;

use serde::Serialize;

use crate::model::{ChannelId, DestId, Fabric, Guid, Lid, SwitchId};

/// A switch as an administrator knows it.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct SwitchName {
    /// Node GUID.
    pub guid: Guid,
    /// Node description.
    pub description: String,
}

/// A destination as an administrator knows it.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct DestinationName {
    /// Local id.
    pub lid: Lid,
    /// Node description of the host or switch.
    pub description: String,
}

/// One channel of a cycle and a route that goes from it to the next.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct CycleStep {
    /// Sending switch.
    pub switch: SwitchName,
    /// Its egress port.
    pub port: u8,
    /// `description[port] -> description[port]`.
    pub channel: String,
    /// The virtual lane on it.
    pub vl: u8,
    /// The service level of the route's packets.
    pub sl: u8,
    /// A route that uses this channel and then the next of the cycle starts at hosts of this switch ..
    pub route_from: SwitchName,
    /// .. and goes to this destination.
    pub route_to: DestinationName,
}

/// One reason to reject. Names devices as an administrator knows them.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Finding {
    /// Tables are for another fabric.
    WrongFabric {
        /// Fingerprint of the fabric.
        fabric: String,
        /// Fingerprint the tables name.
        tables: String,
    },
    /// A switch has no port for a destination that the fabric connects to it.
    Hole {
        /// The switch at which it was found.
        switch: SwitchName,
        /// To whom.
        destination: DestinationName,
    },
    /// A port that the switch does not have.
    NoSuchPort {
        /// The switch at which it was found.
        switch: SwitchName,
        /// To whom.
        destination: DestinationName,
        /// The port in the table.
        port: u8,
    },
    /// A port without a cable, or with a cable back to the same switch.
    DeadPort {
        /// The switch at which it was found.
        switch: SwitchName,
        /// To whom.
        destination: DestinationName,
        /// The port in the table.
        port: u8,
    },
    /// A port that leads to another host, or port 0 at a switch that is not the destination.
    WrongTerminal {
        /// The switch at which it was found.
        switch: SwitchName,
        /// To whom.
        destination: DestinationName,
        /// The port in the table.
        port: u8,
        /// Who would get the packets.
        leads_to: String,
    },
    /// The destination's own switch forwards elsewhere.
    WrongHomePort {
        /// The switch at which it was found.
        switch: SwitchName,
        /// To whom.
        destination: DestinationName,
        /// The port in the table; 255 for a hole.
        port: u8,
        /// The port of the destination.
        expected: u8,
    },
    /// Packets go round.
    Loop {
        /// To whom.
        destination: DestinationName,
        /// The switches in order; the last forwards to the first.
        switches: Vec<SwitchName>,
    },
    /// Hosts of this switch have a route but no layer for it.
    MissingLayer {
        /// Source.
        switch: SwitchName,
        /// To whom.
        destination: DestinationName,
    },
    /// A layer beyond the budget.
    OverBudget {
        /// Source.
        switch: SwitchName,
        /// To whom.
        destination: DestinationName,
        /// The layer in the table.
        layer: u8,
        /// How many are allowed: layers are numbered from 0.
        budget: u8,
    },
    /// The lane map names a virtual lane beyond the budget.
    LaneOverBudget {
        /// The switch at which it was found.
        switch: SwitchName,
        /// In port.
        from: u8,
        /// Out port.
        to: u8,
        /// The virtual lane.
        vl: u8,
        /// How many are allowed: lanes are numbered from 0.
        budget: u8,
    },
    /// The routes inside a job are on several layers, though one per job was wanted.
    JobOnSeveralLayers {
        /// How many hosts the job has.
        hosts: usize,
        /// Description of the first.
        first: String,
        /// Description of the last.
        last: String,
        /// The layers.
        layers: Vec<u8>,
    },
    /// The channel dependency graph has a cycle: this can deadlock.
    Cycle {
        /// The layer; with a lane map the virtual lane on the first channel.
        layer: u8,
        /// The channels in order; a route goes from each to the next and from the last to the first.
        channels: Vec<CycleStep>,
    },
    /// A certificate does not put the buffer that a packet waits for behind the one that it holds.
    NotCertified {
        /// What it holds: `description[port] -> description[port] VL n`.
        buffer: String,
        /// What it waits for; `None` if it never arrives.
        next: Option<String>,
        /// To whom it goes.
        destination: DestinationName,
    },
}

impl Finding {
    /// Position in the fixed order of a verdict: one number per kind.
    fn rank(&self) -> Kind {
        match self {
            Self::WrongFabric { .. } => Kind::WrongFabric,
            Self::Hole { .. } => Kind::Hole,
            Self::NoSuchPort { .. } => Kind::NoSuchPort,
            Self::DeadPort { .. } => Kind::DeadPort,
            Self::WrongTerminal { .. } => Kind::WrongTerminal,
            Self::WrongHomePort { .. } => Kind::WrongHomePort,
            Self::Loop { .. } => Kind::Loop,
            Self::MissingLayer { .. } => Kind::MissingLayer,
            Self::OverBudget { .. } => Kind::OverBudget,
            Self::LaneOverBudget { .. } => Kind::LaneOverBudget,
            Self::JobOnSeveralLayers { .. } => Kind::JobOnSeveralLayers,
            Self::Cycle { .. } => Kind::Cycle,
            Self::NotCertified { .. } => Kind::NotCertified,
        }
    }
}

impl fmt::Display for SwitchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.description, self.guid)
    }
}

impl fmt::Display for DestinationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (LID {})", self.description, self.lid)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongFabric { fabric, tables } => {
                write!(f, "tables are for fabric {tables}, this one is {fabric}")
            }
            Self::Hole { switch, destination } => write!(f, "hole: {switch} has no port for {destination}"),
            Self::NoSuchPort { switch, destination, port } => {
                write!(f, "no such port: {switch} sends {destination} to port {port}")
            }
            Self::DeadPort { switch, destination, port } => {
                write!(f, "dead port: {switch} sends {destination} to port {port}, which leads nowhere")
            }
            Self::WrongTerminal { switch, destination, port, leads_to } => {
                write!(
                    f,
                    "wrong port: {switch} sends {destination} to port {port}, which leads to {leads_to}"
                )
            }
            Self::WrongHomePort { switch, destination, port, expected } => {
                write!(f, "wrong port: {switch} sends {destination} to port {port}, it is on port {expected}")
            }
            Self::Loop { destination, switches } => {
                write!(f, "loop to {destination}:")?;
                switches.iter().try_for_each(|s| write!(f, " {s} ->"))?;
                switches.first().map_or(Ok(()), |s| write!(f, " {s}"))
            }
            Self::MissingLayer { switch, destination } => {
                write!(f, "no layer: hosts of {switch} have a route to {destination} without a layer")
            }
            Self::OverBudget { switch, destination, layer, budget } => write!(
                f,
                "over budget: layer {layer} from {switch} to {destination}, allowed are 0 to {}",
                budget - 1
            ),
            Self::LaneOverBudget { switch, from, to, vl, budget } => write!(
                f,
                "over budget: VL {vl} at {switch} from port {from} to port {to}, allowed are 0 to {}",
                budget - 1
            ),
            Self::JobOnSeveralLayers { hosts, first, last, layers } => {
                write!(
                    f,
                    "several layers: the {hosts} hosts of a job, {first} to {last}, use layers {layers:?}"
                )
            }
            Self::NotCertified { buffer, next: Some(next), destination } => {
                write!(
                    f,
                    "not certified: the route to {destination} goes from {buffer} to {next}, which is not later"
                )
            }
            Self::NotCertified { buffer, next: None, destination } => {
                write!(f, "not certified: the route to {destination} by {buffer} ends nowhere")
            }
            Self::Cycle { layer, channels } => show_cycle(f, *layer, channels),
        }
    }
}

/// Who waits for whom in a circle.
fn show_cycle(f: &mut fmt::Formatter<'_>, layer: u8, channels: &[CycleStep]) -> fmt::Result {
    let is_layer = channels.iter().all(|step| step.vl == layer && step.sl == layer);
    match is_layer {
        true => write!(f, "deadlock: {} channels of layer {layer} wait", channels.len())?,
        false => write!(f, "deadlock: {} channels and lanes wait", channels.len())?,
    }
    f.write_str(" for each other")?;
    channels.iter().try_for_each(|step| {
        let CycleStep { channel, route_from, route_to, vl, sl, .. } = step;
        let lane = if is_layer { String::new() } else { format!(" VL {vl}") };
        let level = if is_layer { String::new() } else { format!(" on SL {sl}") };
        write!(f, "\n    {channel}{lane}   then the next, by the route {route_from} -> {route_to}{level}")
    })
}

/// Kinds of findings in the order of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    WrongFabric,
    Hole,
    NoSuchPort,
    DeadPort,
    WrongTerminal,
    WrongHomePort,
    Loop,
    MissingLayer,
    OverBudget,
    LaneOverBudget,
    JobOnSeveralLayers,
    Cycle,
    NotCertified,
}

/// Findings, the first [`Findings::PER_KIND`] of each kind.
#[derive(Debug, Default)]
pub(super) struct Findings {
    kept: Vec<Finding>,
    counts: [u64; Kind::NotCertified as usize + 1],
}

impl Findings {
    /// How many of each kind a verdict lists.
    pub(super) const PER_KIND: u64 = 10;

    /// Counts a finding, and builds and keeps it while there is room for its kind.
    pub(super) fn add(&mut self, kind: Kind, build: impl FnOnce() -> Finding) {
        self.counts[kind as usize] += 1;
        if self.counts[kind as usize] <= Self::PER_KIND {
            self.kept.push(build());
        }
    }

    /// Findings of earlier destinations and then those of later ones. Associative, so that the
    /// result does not depend on how destinations were split among threads.
    pub(super) fn then(mut self, later: Self) -> Self {
        let mut room = self.counts.map(|n| Self::PER_KIND.saturating_sub(n));
        for finding in later.kept {
            let left = &mut room[finding.rank() as usize];
            if *left > 0 {
                *left -= 1;
                self.kept.push(finding);
            }
        }
        self.counts.iter_mut().zip(later.counts).for_each(|(a, b)| *a += b);
        self
    }

    /// The kept findings by kind, and how many there were in all.
    pub(super) fn finish(mut self) -> (Vec<Finding>, u64) {
        self.kept.sort_by_key(Finding::rank);
        (self.kept, self.counts.iter().sum())
    }
}

/// As a finding has it.
pub(super) fn switch_name(fabric: &Fabric, s: usize) -> SwitchName {
    let switch = fabric.switch(SwitchId::at(s));
    SwitchName { guid: switch.guid, description: switch.description.clone() }
}

/// As a finding has it.
pub(super) fn destination_name(fabric: &Fabric, d: DestId) -> DestinationName {
    DestinationName { lid: fabric.lid(d), description: fabric.description(d).to_string() }
}

/// A channel of a cycle with the route that goes on to the next.
pub(super) fn cycle_step(
    fabric: &Fabric,
    c: ChannelId,
    vl: u8,
    sl: u8,
    (from, to): (usize, DestId),
) -> CycleStep {
    let channel = fabric.channel(c);
    CycleStep {
        switch: switch_name(fabric, channel.from.index()),
        port: channel.from_port.get(),
        channel: fabric.channel_name(c),
        vl,
        sl,
        route_from: switch_name(fabric, from),
        route_to: destination_name(fabric, to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(number: usize) -> Finding {
        let (fabric, tables) = (number.to_string(), String::new());
        Finding::WrongFabric { fabric, tables }
    }

    fn many(from: usize, to: usize) -> Findings {
        let mut findings = Findings::default();
        (from..to).for_each(|number| findings.add(Kind::WrongFabric, || fault(number)));
        findings
    }

    #[test]
    fn the_first_of_a_kind_are_kept_and_all_counted_however_they_were_split() {
        let most = Findings::PER_KIND as usize;
        let first: Vec<Finding> = (0..most).map(fault).collect();
        for split in [0, 3, most - 1, most, most + 1, most + 5] {
            let (kept, count) = many(0, split).then(many(split, most + 5)).finish();
            assert_eq!((kept.as_slice(), count), (first.as_slice(), most as u64 + 5), "{split}");
        }
        let (kept, count) = many(0, 4).then(many(4, 7)).finish();
        assert_eq!((kept.len(), count), (7, 7));
    }

    #[test]
    fn a_circle_names_lanes_where_they_are_no_layer() {
        let switch = || SwitchName { guid: "0x1".parse().unwrap(), description: "s".into() };
        let step = |vl, sl| CycleStep {
            switch: switch(),
            port: 1,
            channel: "s[1] -> t[2]".into(),
            vl,
            sl,
            route_from: switch(),
            route_to: DestinationName { lid: Lid::new(7).unwrap(), description: "n".into() },
        };
        let text = |steps: Vec<CycleStep>| Finding::Cycle { layer: 2, channels: steps }.to_string();
        let of_layer = text(vec![step(2, 2), step(2, 2)]);
        assert!(of_layer.starts_with("deadlock: 2 channels of layer 2 wait for each other\n"), "{of_layer}");
        assert!(!of_layer.contains(" VL ") && !of_layer.contains(" on SL "), "{of_layer}");
        for other in [step(1, 2), step(2, 1)] {
            let of_lanes = text(vec![step(2, 2), other.clone()]);
            assert!(
                of_lanes.starts_with("deadlock: 2 channels and lanes wait for each other\n"),
                "{of_lanes}"
            );
            let lane = format!("s[1] -> t[2] VL {}   then", other.vl);
            assert!(
                of_lanes.contains(&lane) && of_lanes.contains(&format!(" on SL {}", other.sl)),
                "{of_lanes}"
            );
        }
    }
}

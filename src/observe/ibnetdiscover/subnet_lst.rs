//! `opensm-subnet.lst`, which OpenSM writes after a sweep: one line per end of a cable,
//! `{ one end } { other end } PHY=… LOG=… SPD=…`. Numbers are hexadecimal.
//!
//! Nothing ends such a file, and a device is in it only where a cable is. But OpenSM lists each cable at
//! both ends, so a file with one that is listed at one end was cut short.

use std::collections::BTreeMap;

use super::draft::{Block, Draft, Fault};
use super::lines::{Kind, PortLine, given_lid};
use super::{Problem, is_aggregation};
use crate::model::{Guid, Lid, PortNum};

/// Whether the first line that says something is one of this format.
pub(super) fn recognises(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|l| !l.is_empty() && !l.starts_with('#'));
    first.is_some_and(|l| l.starts_with("{ ") && l.contains("NodeGUID:"))
}

/// One end of a cable.
struct End<'a> {
    kind: Kind,
    ports: u8,
    /// GUID of the device, as written.
    id: &'a str,
    guid: Guid,
    port_guid: u64,
    device: Option<u64>,
    description: &'a str,
    lid: Option<Lid>,
    port: PortNum,
}

/// Takes a file apart.
pub(super) fn read(text: &str) -> Result<Draft<'_>, Fault> {
    let mut draft = Draft::default();
    let mut devices: BTreeMap<Guid, usize> = BTreeMap::new();
    for (i, line) in text.lines().enumerate() {
        let (at, line) = (i + 1, line.trim());
        draft.lines = at;
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (near, far) = ends(line).map_err(|problem| (at, problem))?;
        for end in [&near, &far] {
            if let std::collections::btree_map::Entry::Vacant(free) = devices.entry(end.guid) {
                free.insert(draft.blocks.len());
                draft.add(end.block(at))?;
            }
        }
        // Both ends may write the GUID of one device in different ways.
        let (here, there) = (devices[&near.guid], devices[&far.guid]);
        let peer = draft.blocks[there].id;
        draft.blocks[here].list(at, near.cable_to(&far, peer))?;
    }
    draft.listed_twice()?;
    Ok(draft)
}

impl<'a> End<'a> {
    fn block(&self, at: usize) -> Block<'a> {
        Block {
            line: at,
            kind: self.kind,
            ports: self.ports,
            id: self.id,
            guid: self.guid,
            port_guid: None,
            description: self.description,
            lid: if self.kind == Kind::Switch { self.lid } else { None },
            aggregation: self.kind == Kind::Router || is_aggregation(self.device, self.description),
            cables: Vec::new(),
        }
    }

    fn cable_to(&self, far: &Self, peer: &'a str) -> PortLine<'a> {
        let is_switch = self.kind == Kind::Switch;
        PortLine {
            port: self.port,
            guid: (!is_switch).then_some(self.port_guid),
            lid: if is_switch { None } else { self.lid },
            peer,
            peer_port: far.port,
            peer_guid: (far.kind != Kind::Switch).then_some(far.port_guid),
            peer_lid: far.lid,
        }
    }
}

/// Both ends on a line. A description may contain braces, but hardly `} LID:`.
fn ends(line: &str) -> Result<(End<'_>, End<'_>), Problem> {
    let (near, rest) = end(line)?;
    let (far, rest) = end(rest)?;
    // What is left says how fast the cable is; its first word shows that the line is whole.
    if rest.starts_with("PHY=") { Ok((near, far)) } else { Err(Problem::NotUnderstood) }
}

/// `{ SW Ports:24 SystemGUID:… NodeGUID:… PortGUID:… VenID:… DevID:… Rev:… {name} LID:0001 PN:01 } rest`.
fn end(text: &str) -> Result<(End<'_>, &str), Problem> {
    let wrong = || Problem::NotUnderstood;
    let text = text.strip_prefix("{ ").ok_or_else(wrong)?;
    let (head, rest) = text.split_once('{').ok_or_else(wrong)?;
    let (description, rest) = rest.split_once("} LID:").ok_or_else(wrong)?;
    let (place, rest) = rest.split_once('}').ok_or_else(wrong)?;
    let (lid, port) = place.split_once(" PN:").ok_or_else(wrong)?;
    let mut words = head.split_whitespace();
    // `CA-SM` is an adapter with a subnet manager.
    let kind = match words.next().ok_or_else(wrong)?.split('-').next() {
        Some("SW") => Kind::Switch,
        Some("CA") => Kind::Adapter,
        Some("RT" | "Rt") => Kind::Router,
        _ => return Err(wrong()),
    };
    let fields: BTreeMap<&str, &str> = words.filter_map(|word| word.split_once(':')).collect();
    let field = |name: &str| fields.get(name).copied().ok_or_else(wrong);
    let (id, ports) = (field("NodeGUID")?, field("Ports")?);
    let device = fields.get("DevID").map(|text| number(text)).transpose()?;
    Ok((
        End {
            kind,
            ports: u8::try_from(number(ports)?).map_err(|_| Problem::Number { text: ports.to_string() })?,
            id,
            guid: Guid::new(number(id)?).map_err(|_| Problem::Number { text: id.to_string() })?,
            port_guid: number(field("PortGUID")?)?,
            // The far end's has the two bytes in the upper half of a word.
            device: device.map(|d| if d > 0xffff { d >> 16 } else { d }),
            description,
            lid: given_lid(number(lid.trim())?),
            port: PortNum::new(number(port.trim())?)
                .map_err(|_| Problem::Number { text: port.trim().to_string() })?,
        },
        rest.trim_start(),
    ))
}

fn number(text: &str) -> Result<u64, Problem> {
    u64::from_str_radix(text, 16).map_err(|_| Problem::Number { text: text.to_string() })
}

//! The devices of a hand-off file as a fabric: all that tables can be judged on.

use super::sections::{Kind, Sections};
use super::{HandoffError, Header, RECORD, little_endian};
use crate::model::{Fabric, FabricBuilder, Guid, NewTerminal, PortNum, Role, SwitchId};

/// Bytes of the number of a terminal.
const NUMBER: usize = 4;

/// The fabric that a file was made for, by its records of switches, terminals and cables: the same
/// fingerprint, GUIDs in the place of descriptions, any LIDs. O(bytes).
///
/// # Errors
/// If the bytes are no hand-off file, contradict themselves, or are of another fabric than they say.
pub fn fabric(bytes: &[u8]) -> Result<Fabric, HandoffError> {
    let header = Header::parse(bytes)?;
    let content = &bytes[..bytes.len() - 8];
    let sections = match header.version {
        1 => Sections::first(content, header.counts)?,
        _ => Sections::parse(content, header.counts)?,
    };
    let fabric = build(&sections)?;
    match fabric.fingerprint() {
        found if found == header.fabric => Ok(fabric),
        found => Err(HandoffError::OtherFabric { wanted: header.fabric, found }),
    }
}

fn build(sections: &Sections<'_>) -> Result<Fabric, HandoffError> {
    let records = |kind| sections.get(kind).unwrap_or_default().chunks_exact(RECORD);
    let wrong = |kind: Kind, what| HandoffError::Section { kind: kind as u64, what };
    let mut builder = FabricBuilder::default();
    let mut switches = Vec::new();
    for record in records(Kind::Switches) {
        let guid = guid(record)?;
        let switch = builder.switch(guid, record[8], None, &guid.to_string());
        switches.push(switch.map_err(|_| wrong(Kind::Switches, "a switch contradicts another"))?);
    }
    let find = |kind, bytes: &[u8]| {
        let number = little_endian(bytes) as usize;
        switches.get(number).copied().ok_or(wrong(kind, "it names a switch that does not exist"))
    };
    let aggregation = aggregation(sections.get(Kind::Aggregation).unwrap_or_default());
    for (i, record) in records(Kind::Terminals).enumerate() {
        let guid = guid(record)?;
        let role = match aggregation.binary_search(&i) {
            Ok(_) => Role::Aggregation,
            Err(_) => Role::Host,
        };
        let new = NewTerminal {
            node_guid: guid,
            port_guid: guid,
            adapter_port: port(Kind::Terminals, record[13])?,
            lid: None,
            description: guid.to_string(),
            role,
            switch: find(Kind::Terminals, &record[8..12])?,
            port: port(Kind::Terminals, record[12])?,
        };
        builder.terminal(new).map_err(|_| wrong(Kind::Terminals, "a terminal contradicts another"))?;
    }
    for record in records(Kind::Cables) {
        let end = |at: usize, of_port: usize| -> Result<(SwitchId, PortNum), HandoffError> {
            Ok((find(Kind::Cables, &record[at..at + 4])?, port(Kind::Cables, record[of_port])?))
        };
        let ((a, a_port), (b, b_port)) = (end(0, 8)?, end(4, 9)?);
        builder
            .cable(a, a_port, b, b_port)
            .map_err(|_| wrong(Kind::Cables, "a cable contradicts another"))?;
    }
    builder.build().map_err(|_| wrong(Kind::Switches, "they make no fabric"))
}

fn guid(record: &[u8]) -> Result<Guid, HandoffError> {
    Guid::new(little_endian(&record[..8])).map_err(|_| HandoffError::Guid)
}

fn port(kind: Kind, number: u8) -> Result<PortNum, HandoffError> {
    let what = "it names a port that no device has";
    PortNum::new(number.into()).map_err(|_| HandoffError::Section { kind: kind as u64, what })
}

/// Numbers of the terminals that are aggregation nodes, ascending. Nothing if there is none: what does not
/// know of them takes them for hosts.
pub(super) fn encode_aggregation(fabric: &Fabric) -> Option<Vec<u8>> {
    let nodes = fabric.terminal_ids().filter(|t| !fabric.is_host(*t));
    let numbers: Vec<u8> = nodes.flat_map(|t| (t.index() as u32).to_le_bytes()).collect();
    (!numbers.is_empty()).then_some(numbers)
}

fn aggregation(section: &[u8]) -> Vec<usize> {
    let mut numbers: Vec<usize> =
        section.chunks_exact(NUMBER).map(|number| little_endian(number) as usize).collect();
    numbers.sort_unstable();
    numbers
}

//! Tables to text.

use std::io::{self, Write};

use crate::model::{DestId, Fabric, Layer, Tables};

/// Destination of each LID from 0; `None` where no destination has the LID.
pub(super) fn by_lid(fabric: &Fabric) -> Vec<Option<DestId>> {
    let max = fabric.dest_ids().map(|d| usize::from(fabric.lid(d).get())).max().unwrap_or(0);
    let mut by_lid = vec![None; max + 1];
    fabric.dest_ids().for_each(|d| by_lid[usize::from(fabric.lid(d).get())] = Some(d));
    by_lid
}

/// Writes `lft.txt`, switches by GUID. Holes have no line. O(destinations × switches).
///
/// # Errors
/// Those of `to`.
pub fn write_lft(fabric: &Fabric, tables: &Tables, to: &mut impl Write) -> io::Result<()> {
    let by_lid = by_lid(fabric);
    let entries: Vec<(DestId, String, String)> = by_lid
        .iter()
        .enumerate()
        .filter_map(|(lid, d)| d.map(|d| (d, format!("0x{lid:04x} "), destination(fabric, d))))
        .collect();
    for s in fabric.switch_ids() {
        let switch = fabric.switch(s);
        let (max, lid, guid) = (by_lid.len() - 1, switch.lid, switch.guid);
        writeln!(to, "Unicast lids [0-{max}] of switch Lid {lid} guid {guid} ('{}'):", switch.description)?;
        for (d, before, after) in &entries {
            let port = tables.ports_to(*d)[s.index()];
            if port != Tables::UNREACHABLE {
                let digits = [b'0' + port / 100, b'0' + port / 10 % 10, b'0' + port % 10];
                to.write_all(before.as_bytes())?;
                to.write_all(&digits)?;
                to.write_all(after.as_bytes())?;
            }
        }
        writeln!(to, "{max} lids dumped")?;
    }
    Ok(())
}

/// The part of an entry after the port.
fn destination(fabric: &Fabric, d: DestId) -> String {
    let kind = if fabric.dest_terminal(d).is_some() { "Channel Adapter" } else { "Switch" };
    let guid = fabric.dest_guid(d);
    format!(" # {kind} portguid {guid}: '{}'\n", fabric.description(d))
}

/// Writes `layers.txt`, switches by GUID. A raw layer that is none is written as `-`.
/// O(destinations × switches).
///
/// # Errors
/// Those of `to`.
pub fn write_layers(fabric: &Fabric, tables: &Tables, to: &mut impl Write) -> io::Result<()> {
    let by_lid = by_lid(fabric);
    for s in fabric.switch_ids() {
        let layer = |d: &Option<DestId>| d.and_then(|d| tables.layer(s, d)).map_or('-', Layer::to_char);
        let line: String = by_lid.iter().map(layer).collect();
        writeln!(to, "{} {line}", fabric.switch(s).guid)?;
    }
    Ok(())
}

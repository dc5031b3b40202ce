//! Tables to text.

use std::io::{self, Write};

use crate::model::{DestId, Fabric, Layer, Switch, Tables};

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
    let last = by_lid(fabric).len() - 1;
    let header = |to: &mut dyn Write, s: &Switch| {
        let Switch { lid, guid, description, .. } = s;
        writeln!(to, "Unicast lids [0-{last}] of switch Lid {lid} guid {guid} ('{description}'):")
    };
    write_blocks(fabric, tables, to, header, [" # ", "\n"], |to: &mut dyn Write, _| {
        writeln!(to, "{last} lids dumped")
    })
}

/// Writes what infiniband-diags' `dump_fts` prints of switches with these tables, switches by GUID: of a live
/// fabric it names them by their path and lists them in the order in which it finds them.
/// O(destinations × switches).
///
/// # Errors
/// Those of `to`.
pub fn write_fts(fabric: &Fabric, tables: &Tables, to: &mut impl Write) -> io::Result<()> {
    let last = by_lid(fabric).len() - 1;
    let header = |to: &mut dyn Write, s: &Switch| {
        let Switch { lid, guid, description, .. } = s;
        writeln!(to, "Unicast lids [0x0-0x{last:x}] of switch Lid {lid} guid {guid} ({description}):")?;
        writeln!(to, "  Lid  Out   Destination\n       Port     Info ")
    };
    let footer = |to: &mut dyn Write, listed: usize| writeln!(to, "{listed} valid lids dumped ");
    write_blocks(fabric, tables, to, header, [" : (", ")\n"], footer)
}

/// A block of lines for each switch: header, an entry for each LID that it has a way to, and a footer, which is
/// told how many these are. Destinations stand between the two `marks`.
fn write_blocks(
    fabric: &Fabric,
    tables: &Tables,
    to: &mut impl Write,
    header: impl Fn(&mut dyn Write, &Switch) -> io::Result<()>,
    marks: [&str; 2],
    footer: impl Fn(&mut dyn Write, usize) -> io::Result<()>,
) -> io::Result<()> {
    let entry = |(lid, d): (usize, DestId)| {
        let kind = if fabric.dest_terminal(d).is_some() { "Channel Adapter" } else { "Switch" };
        let (guid, description) = (fabric.dest_guid(d), fabric.description(d));
        let [before, after] = marks;
        (d, format!("0x{lid:04x} "), format!("{before}{kind} portguid {guid}: '{description}'{after}"))
    };
    let by_lid = by_lid(fabric);
    let known = by_lid.iter().enumerate().filter_map(|(lid, d)| Some((lid, (*d)?)));
    let entries: Vec<(DestId, String, String)> = known.map(entry).collect();
    for s in fabric.switch_ids() {
        header(to, fabric.switch(s))?;
        let mut listed = 0;
        for (d, before, after) in &entries {
            let port = tables.ports_to(*d)[s.index()];
            if port != Tables::UNREACHABLE {
                let digits = [b'0' + port / 100, b'0' + port / 10 % 10, b'0' + port % 10];
                to.write_all(before.as_bytes())?;
                to.write_all(&digits)?;
                to.write_all(after.as_bytes())?;
                listed += 1;
            }
        }
        footer(to, listed)?;
    }
    Ok(())
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

//! The lane map as text.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::path::Path;

use super::DumpError;
use super::read::Lines;
use crate::model::{Fabric, Guid, LaneMap, LaneRow, PortNum, SwitchId, Vl};

/// Different rows that a file may have: as many as a switch could want for all its turns.
const MOST_ROWS: usize = 4096;

/// Writes `lanes.txt`: switch GUID, in port, out port and the VLs of SL 0 to 15 of every turn that
/// a packet may take, in this order. O(sum over switches of ports²).
///
/// # Errors
/// Those of `to`.
pub fn write_lanes(fabric: &Fabric, map: &LaneMap, to: &mut impl Write) -> io::Result<()> {
    let rows: Vec<String> = map.rows().iter().map(|row| row.iter().map(|v| v.to_char()).collect()).collect();
    for s in fabric.switch_ids() {
        let guid = fabric.switch(s).guid.to_string();
        for (from, out) in LaneMap::turns(fabric, s) {
            writeln!(to, "{guid} {from} {out} {}", rows[usize::from(map.row_index(s, from, out))])?;
        }
    }
    Ok(())
}

/// Reads `lanes.txt`. Every turn that a packet may take must be there. `path` is for messages.
///
/// # Errors
/// With file and line.
pub fn read_lanes(fabric: &Fabric, path: &Path, from: impl BufRead) -> Result<LaneMap, DumpError> {
    let width = |s: SwitchId| usize::from(fabric.switch(s).ports) + 1;
    let mut found: Vec<Vec<u16>> = fabric.switch_ids().map(|s| vec![u16::MAX; width(s).pow(2)]).collect();
    let (mut rows, mut numbers): (Vec<LaneRow>, BTreeMap<LaneRow, u16>) = Default::default();
    let mut lines = Lines::new(path, from);
    while let Some(line) = lines.next()? {
        let turn = parse(fabric, &line).map_err(|m| lines.wrong(m))?;
        let number = *numbers.entry(turn.row).or_insert_with(|| {
            rows.push(turn.row);
            (rows.len() - 1) as u16
        });
        if rows.len() > MOST_ROWS {
            return Err(lines.wrong(format!("more than {MOST_ROWS} different rows of VLs")));
        }
        let at = usize::from(turn.from) * width(turn.switch) + usize::from(turn.to);
        if std::mem::replace(&mut found[turn.switch.index()][at], number) != u16::MAX {
            return Err(lines.wrong("the same switch, in and out port come twice"));
        }
    }
    let at = |s: SwitchId, from: PortNum, to: PortNum| {
        let at = usize::from(from.get()) * width(s) + usize::from(to.get());
        found[s.index()][at]
    };
    for s in fabric.switch_ids() {
        if let Some((from, to)) = LaneMap::turns(fabric, s).find(|(from, to)| at(s, *from, *to) == u16::MAX) {
            let switch = fabric.switch(s);
            let (guid, name) = (switch.guid, &switch.description);
            return Err(lines.truncated(format!("no VLs of {guid} ({name}) from port {from} to port {to}")));
        }
    }
    Ok(LaneMap::fill(fabric, |s, from, to| rows[usize::from(at(s, from, to))]))
}

/// One line.
struct Turn {
    switch: SwitchId,
    from: u8,
    to: u8,
    row: LaneRow,
}

fn parse(fabric: &Fabric, line: &str) -> Result<Turn, String> {
    let words: Vec<&str> = line.split(' ').collect();
    let [guid, from, to, vls] = words[..] else {
        return Err("not a GUID, an in port, an out port and 16 VLs".to_string());
    };
    let guid: Guid = guid.parse().map_err(|e| format!("{e}"))?;
    let switch = fabric.switch_by_guid(guid).ok_or_else(|| format!("the fabric has no switch {guid}"))?;
    let ports = fabric.switch(switch).ports;
    let port = |text: &str| match text.parse() {
        Ok(port) if port <= ports => Ok(port),
        _ => Err(format!("{text:?} is not a port of {guid}, which has 0 to {ports}")),
    };
    let row: Option<Vec<Vl>> = vls.chars().map(Vl::from_char).collect();
    let row = row.and_then(|row| LaneRow::try_from(row).ok());
    let row = row.ok_or_else(|| format!("{vls:?} is not 16 VLs from 0 to e"))?;
    Ok(Turn { switch, from: port(from)?, to: port(to)?, row })
}

//! Text to tables.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

use super::DumpError;
use super::write::by_lid;
use crate::model::{DestId, Fabric, FileError, Guid, Layer, SwitchId, Tables};

/// Lines of a file, numbered from 1. The last one must be closed too.
pub(super) struct Lines<'a, R> {
    path: &'a Path,
    from: R,
    number: usize,
    bytes: Vec<u8>,
}

impl<'a, R: BufRead> Lines<'a, R> {
    pub(super) fn new(path: &'a Path, from: R) -> Self {
        Self { path, from, number: 0, bytes: Vec::new() }
    }

    /// The next line without its end; `None` at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<String>, DumpError> {
        self.bytes.clear();
        let read = self.from.read_until(b'\n', &mut self.bytes);
        let read = read.map_err(FileError::io(self.path))?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.bytes.pop() != Some(b'\n') {
            return Err(self.truncated("the last line has no end".to_string()));
        }
        if self.bytes.last() == Some(&b'\r') {
            self.bytes.pop();
        }
        // Descriptions are bytes that anyone may set.
        Ok(Some(String::from_utf8_lossy(&self.bytes).into_owned()))
    }

    pub(super) fn wrong(&self, message: impl Into<String>) -> DumpError {
        FileError::line(self.path, self.number, message).into()
    }

    pub(super) fn truncated(&self, message: String) -> DumpError {
        DumpError::Truncated { path: self.path.to_path_buf(), message }
    }

    /// Fails for the first switch that was not there.
    fn all_there(&self, fabric: &Fabric, seen: &[bool]) -> Result<(), DumpError> {
        let missing = seen.iter().filter(|seen| !**seen).count();
        match fabric.switches().iter().zip(seen).find(|(_, seen)| !**seen) {
            None => Ok(()),
            Some((switch, _)) => Err(DumpError::MissingSwitch {
                path: self.path.to_path_buf(),
                switch: switch.guid,
                description: switch.description.clone(),
                missing,
            }),
        }
    }
}

/// How names in a dump become destinations and switches of the fabric.
struct Names<'a> {
    fabric: &'a Fabric,
    by_lid: Vec<Option<DestId>>,
    by_guid: BTreeMap<Guid, DestId>,
}

impl<'a> Names<'a> {
    fn new(fabric: &'a Fabric) -> Self {
        let by_guid = fabric.dest_ids().map(|d| (fabric.dest_guid(d), d)).collect();
        Self { fabric, by_lid: by_lid(fabric), by_guid }
    }

    /// By GUID where the line has one that the fabric knows: the subnet manager may have given
    /// other LIDs than the fabric file. By LID otherwise.
    fn destination(&self, lid: usize, rest: &str) -> Option<DestId> {
        let guid = rest.split_once("portguid 0x").and_then(|(_, r)| r.get(..16)?.parse::<Guid>().ok());
        let known = guid.and_then(|g| self.by_guid.get(&g)).copied();
        known.or_else(|| self.by_lid.get(lid).copied().flatten())
    }
}

/// A switch's block that is not closed yet.
struct Block {
    switch: SwitchId,
    entries: usize,
}

/// Reads a dump of linear forwarding tables: egress ports, indexed `[dest * switches + switch]`.
/// What is not listed is [`Tables::UNREACHABLE`]. `path` is for messages.
///
/// # Errors
/// With file and line.
pub fn read_lft(fabric: &Fabric, path: &Path, from: impl BufRead) -> Result<Vec<u8>, DumpError> {
    let names = Names::new(fabric);
    let n = fabric.switches().len();
    let mut ports = vec![Tables::UNREACHABLE; fabric.dest_count() * n];
    let mut seen = vec![false; n];
    let mut lines = Lines::new(path, from);
    let mut open: Option<Block> = None;
    while let Some(line) = lines.next()? {
        if line.starts_with("Unicast lids") {
            if let Some(block) = &open {
                return Err(lines.wrong(not_closed(fabric, block)));
            }
            let switch = header(&names, &line).map_err(|m| lines.wrong(m))?;
            if std::mem::replace(&mut seen[switch.index()], true) {
                return Err(lines.wrong(format!("switch {} comes twice", fabric.switch(switch).guid)));
            }
            open = Some(Block { switch, entries: 0 });
        } else if line.starts_with("0x") {
            let block = open.as_mut().ok_or_else(|| lines.wrong("an entry before any switch"))?;
            let (d, port) = entry(&names, &line).map_err(|m| lines.wrong(m))?;
            block.entries += 1;
            let at = &mut ports[d.index() * n + block.switch.index()];
            // With several LIDs per port the first, its base LID, counts.
            if *at == Tables::UNREACHABLE {
                *at = port;
            }
        } else if let Some(count) = line.trim_end().strip_suffix("lids dumped") {
            let block = open.take().ok_or_else(|| lines.wrong("the end of a block that did not begin"))?;
            closing(count, block.entries).map_err(|m| lines.wrong(m))?;
        } else if !(line.is_empty() || line.starts_with([' ', '#'])) {
            return Err(lines.wrong(format!("{line:?} is not part of a dump of forwarding tables")));
        }
    }
    if let Some(block) = &open {
        return Err(lines.truncated(not_closed(fabric, block)));
    }
    lines.all_there(fabric, &seen)?;
    Ok(ports)
}

fn not_closed(fabric: &Fabric, block: &Block) -> String {
    let switch = fabric.switch(block.switch);
    format!("no line \"… lids dumped\" after the entries of switch {} ({})", switch.guid, switch.description)
}

fn header(names: &Names<'_>, line: &str) -> Result<SwitchId, String> {
    let guid = line.split_once(" guid 0x").and_then(|(_, rest)| rest.split([' ', '\t']).next());
    let guid: Guid = guid.and_then(|g| g.parse().ok()).ok_or("no GUID of a switch")?;
    names.fabric.switch_by_guid(guid).ok_or_else(|| format!("the fabric has no switch {guid}"))
}

fn entry(names: &Names<'_>, line: &str) -> Result<(DestId, u8), String> {
    let mut words = line.splitn(3, ' ');
    let lid = words.next().and_then(|w| usize::from_str_radix(w.trim_start_matches("0x"), 16).ok());
    let port = words.next().and_then(|w| w.parse::<u8>().ok());
    let (Some(lid), Some(port)) = (lid, port) else { return Err("not a LID and a port".to_string()) };
    let destination = names.destination(lid, words.next().unwrap_or(""));
    destination.map(|d| (d, port)).ok_or_else(|| format!("the fabric has no destination of LID {lid}"))
}

/// `18` is the highest LID (OpenSM), `18 valid` the number of entries (infiniband-diags).
fn closing(count: &str, entries: usize) -> Result<(), String> {
    let mut words = count.split_whitespace();
    let number: usize = words.next().and_then(|w| w.parse().ok()).ok_or("no number of LIDs")?;
    match words.next() {
        None => Ok(()),
        Some("valid") if number == entries => Ok(()),
        _ => Err(format!("{number} entries were dumped, {entries} are here")),
    }
}

/// Reads `layers.txt`: layers, indexed `[dest * switches + switch]`. `path` is for messages.
///
/// # Errors
/// With file and line.
pub fn read_layers(fabric: &Fabric, path: &Path, from: impl BufRead) -> Result<Vec<u8>, DumpError> {
    let names = Names::new(fabric);
    let n = fabric.switches().len();
    let mut layers = vec![Tables::NO_LAYER; fabric.dest_count() * n];
    let mut seen = vec![false; n];
    let mut lines = Lines::new(path, from);
    while let Some(line) = lines.next()? {
        let (guid, row) =
            line.split_once(' ').ok_or_else(|| lines.wrong("not a GUID and a row of layers"))?;
        let guid: Guid = guid.parse().map_err(|e| lines.wrong(format!("{e}")))?;
        let switch = names
            .fabric
            .switch_by_guid(guid)
            .ok_or_else(|| lines.wrong(format!("the fabric has no switch {guid}")))?;
        if std::mem::replace(&mut seen[switch.index()], true) {
            return Err(lines.wrong(format!("switch {guid} comes twice")));
        }
        if row.len() != names.by_lid.len() {
            let wanted = names.by_lid.len();
            return Err(lines.wrong(format!("{} layers, LIDs 0 to {} want {wanted}", row.len(), wanted - 1)));
        }
        for (lid, (c, d)) in row.chars().zip(&names.by_lid).enumerate() {
            let layer = match (c, Layer::from_char(c)) {
                ('-', _) => continue,
                (_, Some(layer)) => layer.get(),
                _ => return Err(lines.wrong(format!("{c:?} at LID {lid} is not a layer from 0 to e"))),
            };
            let d = d.ok_or_else(|| lines.wrong(format!("a layer for LID {lid}, which nobody has")))?;
            layers[d.index() * n + switch.index()] = layer;
        }
    }
    lines.all_there(fabric, &seen)?;
    Ok(layers)
}

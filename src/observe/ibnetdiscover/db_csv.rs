//! `ibdiagnet2.db_csv`: sections `START_NODES` to `END_NODES` and so on, each a table with a line of
//! column names. Read are nodes, ports and links; columns are found by name, so that their order and
//! further ones do not matter.

use std::collections::BTreeMap;

use super::draft::{Block, Draft, Fault};
use super::lines::{Kind, PortLine, given_lid};
use super::{Problem, is_aggregation};
use crate::model::{Guid, Lid, PortNum};

/// Whether a text has this format's section of devices.
pub(super) fn recognises(text: &str) -> bool {
    text.lines().any(|line| line.trim() == "START_NODES")
}

/// A row of a section: column names, fields, and its line.
struct CsvRecord<'a, 'b> {
    line: usize,
    columns: &'b [&'a str],
    fields: &'b [&'a str],
}

impl<'a> CsvRecord<'a, '_> {
    fn text(&self, column: &str) -> Result<&'a str, Fault> {
        let at = self.columns.iter().position(|c| c.eq_ignore_ascii_case(column));
        let field = at.and_then(|at| self.fields.get(at)).copied();
        field.ok_or_else(|| (self.line, Problem::NoColumn { column: column.to_string() }))
    }

    /// Hexadecimal with `0x`, else decimal.
    fn number(&self, column: &str) -> Result<u64, Fault> {
        let text = self.text(column)?;
        let number = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        number.map_err(|_| (self.line, Problem::Number { text: text.to_string() }))
    }

    fn port(&self, column: &str) -> Result<PortNum, Fault> {
        let port = self.number(column)?;
        PortNum::new(port).map_err(|_| (self.line, Problem::Number { text: port.to_string() }))
    }
}

/// What the file says of a port: its GUID and LID.
type Ports = BTreeMap<(u64, u64), (u64, Option<Lid>)>;

/// Takes a file apart.
pub(super) fn read(text: &str) -> Result<Draft<'_>, Fault> {
    let mut draft = Draft::default();
    draft.lines = text.lines().count();
    let mut devices: BTreeMap<u64, usize> = BTreeMap::new();
    section(text, "NODES", &mut |row| {
        let guid = row.number("NodeGUID")?;
        devices.entry(guid).or_insert(draft.blocks.len());
        draft.add(block(row, guid)?)
    })?;
    let mut ports = Ports::new();
    section(text, "PORTS", &mut |row| {
        let (guid, lid) = (row.number("PortGuid")?, given_lid(row.number("LID")?));
        ports.insert((row.number("NodeGuid")?, row.number("PortNum")?), (guid, lid));
        Ok(())
    })?;
    for block in draft.blocks.iter_mut().filter(|b| b.kind == Kind::Switch) {
        block.lid = ports.get(&(block.guid.get(), 0)).and_then(|(_, lid)| *lid);
    }
    section(text, "LINKS", &mut |row| {
        let device = |column: &str| {
            let guid = row.number(column)?;
            let unknown = || (row.line, Problem::UnknownPeer { peer: format!("0x{guid:016x}") });
            devices.get(&guid).copied().ok_or_else(unknown)
        };
        let (here, there) = (device("NodeGuid1")?, device("NodeGuid2")?);
        let (port, peer_port) = (row.port("PortNum1")?, row.port("PortNum2")?);
        let known = |at: usize, port: PortNum| {
            let block = &draft.blocks[at];
            let said = ports.get(&(block.guid.get(), port.get().into()));
            said.filter(|_| block.kind != Kind::Switch)
        };
        let ((guid, lid), (peer_guid, peer_lid)) =
            (known(here, port).copied().unzip(), known(there, peer_port).copied().unzip());
        let peer = draft.blocks[there].id;
        let (lid, peer_lid) = (lid.flatten(), peer_lid.flatten());
        draft.blocks[here].list(row.line, PortLine { port, guid, lid, peer, peer_port, peer_guid, peer_lid })
    })?;
    Ok(draft)
}

fn block<'a>(row: &CsvRecord<'a, '_>, guid: u64) -> Result<Block<'a>, Fault> {
    let fail = |text: &str| (row.line, Problem::Number { text: text.to_string() });
    let (text, kind) = (row.text("NodeGUID")?, row.text("NodeType")?);
    let kind = match kind {
        "1" => Kind::Adapter,
        "2" => Kind::Switch,
        "3" => Kind::Router,
        other => return Err(fail(other)),
    };
    let (description, ports) = (row.text("NodeDesc")?, row.number("NumPorts")?);
    // Not all versions say it.
    let device = row.number("DeviceID").ok();
    Ok(Block {
        line: row.line,
        kind,
        ports: u8::try_from(ports).map_err(|_| fail(&ports.to_string()))?,
        id: text,
        guid: Guid::new(guid).map_err(|_| fail(text))?,
        port_guid: None,
        description,
        lid: None,
        aggregation: kind == Kind::Router || is_aggregation(device, description),
        cables: Vec::new(),
    })
}

/// Calls `take` for each row of a section, which must be there and have an end.
fn section<'a>(
    text: &'a str,
    name: &str,
    take: &mut impl FnMut(&CsvRecord<'a, '_>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.trim()));
    let mut rows = lines.skip_while(|(_, line)| line.strip_prefix("START_") != Some(name)).skip(1);
    let mut columns: Option<Vec<&str>> = None;
    let missing = || (text.lines().count(), Problem::NoSection { name: name.to_string() });
    loop {
        let (line, row) = rows.next().ok_or_else(missing)?;
        if row.strip_prefix("END_") == Some(name) {
            return Ok(());
        }
        if row.is_empty() || row.starts_with('#') {
            continue;
        }
        let fields = fields(row);
        match &columns {
            None => columns = Some(fields),
            Some(columns) => take(&CsvRecord { line, columns, fields: &fields })?,
        }
    }
}

/// Fields between commas. A quoted one ends at the quote before a comma: names may contain both.
fn fields(mut row: &str) -> Vec<&str> {
    let mut fields = Vec::new();
    loop {
        row = row.trim_start();
        let (field, rest) = match row.strip_prefix('"') {
            Some(quoted) => {
                let end = quoted.find("\",").or_else(|| quoted.rfind('"')).unwrap_or(quoted.len());
                (&quoted[..end], quoted[end..].strip_prefix('"').unwrap_or("").strip_prefix(','))
            }
            None => match row.split_once(',') {
                Some((field, rest)) => (field.trim_end(), Some(rest)),
                None => (row.trim_end(), None),
            },
        };
        fields.push(field);
        match rest {
            Some(rest) => row = rest,
            None => return fields,
        }
    }
}

//! Fabric files: the output of `ibnetdiscover` and the `.net` files of the simulator ibsim, which are one language,
//! and what OpenSM (`subnet_lst`) and ibdiagnet (`db_csv`) write of the same devices and cables.
//!
//! A file is believed only if it is whole. Every device that a cable leads to must be described, and the listings of
//! the two ends of a cable must agree. So a file that was cut short is refused, not read as a smaller fabric. What
//! surrounds the devices need not be tidy: prompts and messages before the first one, comments and messages between
//! them, no end of the last line.

mod db_csv;
mod draft;
mod lines;
mod print;
mod problem;
mod subnet_lst;

use std::path::Path;

use self::draft::{Block, Draft, Fault};
use self::lines::{Kind, Line, NodeLine};
use super::without_mark;
use crate::model::{Fabric, Guid};

pub use print::{to_ibnetdiscover, to_net};
pub use problem::{FabricFileError, Problem};

/// The comment with which our own files promise [`END`] as their last line.
pub(crate) const PROMISE: &str =
    "# Written by sarouter: a complete file ends with the line '# end of fabric'.";
/// See [`PROMISE`].
pub(crate) const END: &str = "# end of fabric";

/// Device id of the aggregation nodes inside switches (SHARP).
const AGGREGATION_DEVICE: u64 = 0xcf09;

/// What a fabric file says.
#[derive(Debug, Clone)]
pub struct Discovered {
    /// Switches, and what is attached to them.
    pub fabric: Fabric,
    /// Adapters that no switch leads to: nothing to route. In file order.
    pub unrouted: Vec<Unrouted>,
}

/// An adapter, or a port of one, that is not attached to a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unrouted {
    /// GUID of the adapter.
    pub node_guid: Guid,
    /// Node description, as found.
    pub description: String,
    /// The adapter at the other end of the cable; `None`: no cable.
    pub cabled_to: Option<String>,
    /// Where the file says so.
    pub line: usize,
}

/// Whether a text is of these formats: by its first line that says something, or because it has
/// lines of them further down.
pub fn recognises(text: &str) -> bool {
    let text = without_mark(text);
    subnet_lst::recognises(text) || db_csv::recognises(text) || lines::recognises(text)
}

/// Reads a fabric from the text of a file; `path` is for messages.
///
/// Devices without a GUID get one as ibsim would give it; those without a LID get the lowest free
/// one, switches first, in file order. An adapter is an aggregation node by its description or
/// device id; a router's ports are taken for such, too: reachable, but no node.
/// Switches that share the node GUID of their system are told apart by the GUID of port 0.
/// O(lines × log lines).
///
/// # Errors
/// [`FabricFileError`] if the file is not whole, contradicts itself, or is not of these formats.
pub fn parse(path: &Path, text: &str) -> Result<Discovered, FabricFileError> {
    let fail = |(line, problem)| FabricFileError { path: path.to_path_buf(), line, problem };
    let text = without_mark(text);
    let draft = if subnet_lst::recognises(text) {
        subnet_lst::read(text)
    } else if db_csv::recognises(text) {
        db_csv::read(text)
    } else {
        Reader::default().read(text)
    };
    draft.and_then(Draft::build).map_err(fail)
}

/// What lines before a block say about it.
#[derive(Default)]
struct Announced {
    guid: Option<u64>,
    /// In brackets behind the GUID of a switch.
    port_guid: Option<u64>,
    device: Option<u64>,
    /// Where it begins.
    line: Option<usize>,
}

/// GUIDs that ibsim gives to devices without one.
struct NextGuids {
    adapter: u64,
    switch: u64,
}

impl Default for NextGuids {
    fn default() -> Self {
        Self { adapter: 0x10_0000, switch: 0x20_0000 }
    }
}

/// What kind of line was read last.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// Nothing of the format yet.
    #[default]
    Nothing,
    /// About the next block.
    Announcement,
    Node,
    Port,
}

/// The state between two lines.
#[derive(Default)]
struct Reader<'a> {
    draft: Draft<'a>,
    announced: Announced,
    next: NextGuids,
    initiator: Option<(usize, u64)>,
    /// Other names of devices by which the discovery may have been started.
    node_guids: Vec<u64>,
    promised: bool,
    last: Last,
}

impl<'a> Reader<'a> {
    fn read(mut self, text: &'a str) -> Result<Draft<'a>, Fault> {
        let mut last_line = "";
        for (i, raw) in text.lines().enumerate() {
            self.draft.lines = i + 1;
            if !raw.trim().is_empty() {
                last_line = raw;
            }
            let line = match lines::parse(raw) {
                Ok(line) => line,
                Err(_) if self.is_noise(raw) => Line::Nothing,
                Err(problem) => return Err((i + 1, problem)),
            };
            self.line(i + 1, line)?;
        }
        self.end(text.ends_with('\n'), last_line)
    }

    /// What was on the terminal: a prompt, and anything before the first device.
    fn is_noise(&self, raw: &str) -> bool {
        (self.last == Last::Nothing && !lines::is_record(raw)) || lines::is_prompt(raw)
    }

    fn line(&mut self, at: usize, line: Line<'a>) -> Result<(), Fault> {
        if self.draft.ended && line != Line::Nothing {
            return Err((at, Problem::AfterEnd));
        }
        if matches!(line, Line::NodeGuid(..) | Line::DeviceId(_) | Line::Property) {
            self.announced.line.get_or_insert(at);
            self.last = Last::Announcement;
        }
        match line {
            Line::Nothing | Line::Property => {}
            Line::Initiator(guid) => self.initiator = Some((at, guid)),
            Line::Promise => self.promised = true,
            Line::End => self.draft.ended = self.promised,
            Line::NodeGuid(guid, port) => {
                self.announced.guid = Some(guid);
                self.announced.port_guid = port;
            }
            Line::DeviceId(device) => self.announced.device = Some(device),
            Line::Node(node) => {
                self.begin(at, node)?;
                self.last = Last::Node;
            }
            Line::Port(port) => {
                let inside = matches!(self.last, Last::Node | Last::Port);
                match self.draft.blocks.last_mut() {
                    Some(block) if inside => block.list(at, port)?,
                    _ => return Err((at, Problem::PortWithoutNode)),
                }
                self.last = Last::Port;
            }
        }
        Ok(())
    }

    /// Whether the file has all that it begins.
    fn end(self, newline: bool, last_line: &str) -> Result<Draft<'a>, Fault> {
        let is_cut = match self.last {
            // A name without a port behind it: `[1] "S-1"` may be the beginning of `[1] "S-1"[2]`.
            Last::Port => last_line.trim_end().ends_with('"') && !last_line.contains('#'),
            Last::Node => !last_line.trim_start().starts_with('#'),
            _ => false,
        };
        let known =
            |g: u64| self.node_guids.contains(&g) || self.draft.blocks.iter().any(|b| b.guid.get() == g);
        let fault = if self.promised && !self.draft.ended {
            Some((self.draft.lines, Problem::NoEnd))
        } else if let Some(line) = self.announced.line {
            Some((line, Problem::NoNode))
        } else if !newline && is_cut {
            Some((self.draft.lines, Problem::NoNewline))
        } else {
            self.initiator.filter(|(_, g)| !known(*g)).map(|(line, g)| (line, Problem::NoInitiator(g)))
        };
        fault.map_or(Ok(self.draft), Err)
    }

    fn begin(&mut self, at: usize, node: NodeLine<'a>) -> Result<(), Fault> {
        let NodeLine { kind, ports, id, description, lid } = node;
        let announced = std::mem::take(&mut self.announced);
        self.node_guids.extend(announced.guid);
        let named = guid_in_name(id);
        let (counter, step) = match kind {
            Kind::Switch => (&mut self.next.switch, 1),
            Kind::Adapter | Kind::Router => (&mut self.next.adapter, u64::from(ports) + 1),
        };
        // The node GUID of a switch may be that of its whole system: cables call the switch by
        // another one, that of its port 0 where the file says it.
        let is_its_own = announced.port_guid.is_none() || announced.port_guid == named;
        let own = named.filter(|_| kind == Kind::Switch && is_its_own);
        let raw = own.or(announced.guid).or(named).unwrap_or(*counter);
        *counter = raw.wrapping_add(step);
        let guid = Guid::new(raw).ok().filter(|_| named.is_none_or(|n| n == raw));
        let guid = guid.ok_or_else(|| (at, Problem::WrongGuid { id: id.to_string(), guid: raw }))?;
        let description = description.unwrap_or(id);
        self.draft.add(Block {
            line: at,
            kind,
            ports,
            id,
            guid,
            port_guid: announced.port_guid.and_then(|g| Guid::new(g).ok()),
            description,
            lid,
            aggregation: kind == Kind::Router || is_aggregation(announced.device, description),
            cables: Vec::new(),
        })
    }
}

/// Whether an adapter is the aggregation node of a switch: by its device id, or its description
/// (`Mellanox Technologies Aggregation Node`, `Quantum Aggregation Node`).
fn is_aggregation(device: Option<u64>, description: &str) -> bool {
    device == Some(AGGREGATION_DEVICE) || description.to_ascii_lowercase().contains("aggregation node")
}

/// `S-0008f10400410015` contains a GUID; names that people write do not.
fn guid_in_name(id: &str) -> Option<u64> {
    let digits = ["S-", "H-", "R-"].iter().find_map(|prefix| id.strip_prefix(prefix))?;
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

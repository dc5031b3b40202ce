//! Fabric files: the output of `ibnetdiscover` and the `.net` files of the simulator ibsim, which
//! are the same language (ibsim reads the former).
//!
//! A file is believed only if it is whole. Every cable must be listed at both of its ends, and
//! both listings must agree; so a file that was cut short is refused, not read as a smaller fabric.

mod lines;
mod print;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use self::lines::{Kind, Line, NodeLine, PortLine};
use super::grid;
use crate::model::{
    Fabric, FabricBuilder, FabricError, Guid, Lid, NewTerminal, PortNum, Role, SwitchId, shown,
};

pub use print::{to_ibnetdiscover, to_net};

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

/// A file that is not a whole, consistent fabric.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}: {problem}", path.display())]
pub struct FabricFileError {
    /// The file.
    pub path: PathBuf,
    /// Line number, from 1.
    pub line: usize,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Not a line of these formats.
    #[error("not a line of ibnetdiscover's or ibsim's format")]
    NotUnderstood,
    /// ibsim's `include`, `module` and `do`.
    #[error("ibsim's {word:?} is not supported")]
    Unsupported {
        /// The keyword.
        word: String,
    },
    /// Not a number, or out of range for its place.
    #[error("{text:?} is not a number that is allowed here")]
    Number {
        /// As written.
        text: String,
    },
    /// A quote without its partner.
    #[error("a quotation mark is not closed")]
    Quote,
    /// A port line before any block.
    #[error("a port that belongs to no switch or adapter")]
    PortWithoutNode,
    /// A port number above what the first line of the block says.
    #[error("port {port} of {id:?}, which has {ports}")]
    NoSuchPort {
        /// The port.
        port: PortNum,
        /// The block.
        id: String,
        /// Ports it has.
        ports: u8,
    },
    /// A port listed twice.
    #[error("port {port} of {id:?} is already listed in line {first}")]
    PortTwice {
        /// The port.
        port: PortNum,
        /// The block.
        id: String,
        /// Line of the first listing.
        first: usize,
    },
    /// A block listed twice.
    #[error("{id:?} is already described in line {first}")]
    NodeTwice {
        /// The block.
        id: String,
        /// Line of the first one.
        first: usize,
    },
    /// A GUID that is zero or contradicts the name of the block.
    #[error("{id:?} cannot have the GUID 0x{guid:016x}")]
    WrongGuid {
        /// The block.
        id: String,
        /// The GUID.
        guid: u64,
    },
    /// A cable to a device that the file does not describe.
    #[error("leads to {peer:?}, which the file does not describe; was it cut short?")]
    UnknownPeer {
        /// The missing device.
        peer: String,
    },
    /// A cable listed at one end only.
    #[error("leads to port {port} of {peer:?}, which does not list this cable; was the file cut short?")]
    OneEnd {
        /// The other device.
        peer: String,
        /// Its port.
        port: PortNum,
    },
    /// The ends of a cable disagree on where it leads.
    #[error("leads to port {port} of {peer:?}, but line {other} says that port leads elsewhere")]
    OtherEnd {
        /// The other device.
        peer: String,
        /// Its port.
        port: PortNum,
        /// Its line.
        other: usize,
    },
    /// The ends of a cable disagree on a LID or port GUID.
    #[error("{what} of {peer:?} is not what line {other} says")]
    OtherIdentity {
        /// LID or port GUID.
        what: &'static str,
        /// The other device.
        peer: String,
        /// Its line.
        other: usize,
    },
    /// See [`FabricError`].
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The last line has no end.
    #[error("the last line is not complete; was the file cut short?")]
    NoNewline,
    /// Properties that no block follows.
    #[error("the file ends before the device that these lines announce")]
    NoNode,
    /// The discovery started somewhere else.
    #[error(
        "the discovery started from node 0x{0:016x}, which the file does not describe; was it cut short?"
    )]
    NoInitiator(u64),
    /// The file says that it is complete only with the line `# end of fabric`, and has none.
    #[error("the end of the file is missing")]
    NoEnd,
    /// Text after the line `# end of fabric`.
    #[error("there is more after the end of the fabric")]
    AfterEnd,
    /// Nothing attached to any switch.
    #[error("no adapter is attached to a switch; was the file cut short?")]
    NoTerminal,
}

/// Whether a text is of these formats, by its first line that says something.
pub fn recognises(text: &str) -> bool {
    lines::recognises(text)
}

/// Reads a fabric from the text of a file; `path` is for messages.
///
/// Devices without a GUID get one as ibsim would give it; those without a LID get the lowest free
/// one, switches first, in file order. An adapter is an aggregation node by its description or
/// device id; a router's ports are taken for such, too: reachable, but nobody's node.
/// O(lines × log lines).
///
/// # Errors
/// [`FabricFileError`] if the file is not whole, contradicts itself, or is not of these formats.
pub fn parse(path: &Path, text: &str) -> Result<Discovered, FabricFileError> {
    let fail = |(line, problem)| FabricFileError { path: path.to_path_buf(), line, problem };
    let draft = Draft::read(text).map_err(fail)?;
    draft.check_cables().map_err(fail)?;
    draft.build().map_err(fail)
}

/// A line number and what is wrong there.
type Fault = (usize, Problem);

/// A block of the file.
struct Block<'a> {
    line: usize,
    kind: Kind,
    ports: u8,
    id: &'a str,
    guid: Guid,
    description: &'a str,
    lid: Option<Lid>,
    aggregation: bool,
    /// Sorted by port once the file is read.
    cables: Vec<(usize, PortLine<'a>)>,
}

impl Block<'_> {
    fn cable(&self, port: PortNum) -> Option<&(usize, PortLine<'_>)> {
        self.cables.binary_search_by_key(&port, |(_, c)| c.port).ok().map(|i| &self.cables[i])
    }
    fn port_guid(&self, cable: &PortLine<'_>) -> u64 {
        // What ibsim gives, where the file does not say it.
        cable.guid.unwrap_or(self.guid.get().wrapping_add(cable.port.get().into()))
    }
}

/// The file, taken apart.
struct Draft<'a> {
    blocks: Vec<Block<'a>>,
    by_id: BTreeMap<&'a str, usize>,
    lines: usize,
    /// The file said [`PROMISE`], and kept it.
    ended: bool,
}

/// What lines before a block say about it.
#[derive(Default)]
struct Announced {
    guid: Option<u64>,
    device: Option<u64>,
    /// Where it begins.
    line: Option<usize>,
}

/// GUIDs that ibsim gives to devices without one.
struct NextGuids {
    adapter: u64,
    switch: u64,
}

impl<'a> Draft<'a> {
    fn read(text: &'a str) -> Result<Self, Fault> {
        let mut draft = Self { blocks: Vec::new(), by_id: BTreeMap::new(), lines: 0, ended: false };
        let mut announced = Announced::default();
        let mut next = NextGuids { adapter: 0x10_0000, switch: 0x20_0000 };
        let (mut initiator, mut promised, mut inside) = (None, false, false);
        for (i, raw) in text.lines().enumerate() {
            let at = i + 1;
            draft.lines = at;
            let line = lines::parse(raw).map_err(|problem| (at, problem))?;
            if draft.ended && line != Line::Nothing {
                return Err((at, Problem::AfterEnd));
            }
            if matches!(line, Line::NodeGuid(_) | Line::DeviceId(_) | Line::Property) {
                announced.line.get_or_insert(at);
                inside = false;
            }
            match line {
                Line::Nothing | Line::Property => {}
                Line::Initiator(guid) => initiator = Some((at, guid)),
                Line::Promise => promised = true,
                Line::End => draft.ended = promised,
                Line::NodeGuid(guid) => announced.guid = Some(guid),
                Line::DeviceId(device) => announced.device = Some(device),
                Line::Node(node) => {
                    draft.begin(at, node, std::mem::take(&mut announced), &mut next)?;
                    inside = true;
                }
                Line::Port(port) => match draft.blocks.last_mut() {
                    Some(block) if inside => add_port(block, at, port)?,
                    _ => return Err((at, Problem::PortWithoutNode)),
                },
            }
        }
        let fault = if !text.ends_with('\n') {
            Some((draft.lines, Problem::NoNewline))
        } else if promised && !draft.ended {
            Some((draft.lines, Problem::NoEnd))
        } else if let Some(line) = announced.line {
            Some((line, Problem::NoNode))
        } else {
            let missing = initiator.filter(|(_, g)| !draft.blocks.iter().any(|b| b.guid.get() == *g));
            missing.map(|(line, guid)| (line, Problem::NoInitiator(guid)))
        };
        fault.map_or(Ok(draft), Err)
    }

    fn begin(
        &mut self,
        at: usize,
        node: NodeLine<'a>,
        announced: Announced,
        next: &mut NextGuids,
    ) -> Result<(), Fault> {
        let NodeLine { kind, ports, id, description, lid } = node;
        if let Some(&first) = self.by_id.get(id) {
            let first = self.blocks[first].line;
            return Err((at, Problem::NodeTwice { id: id.to_string(), first }));
        }
        let named = guid_in_name(id);
        let (counter, step) = match kind {
            Kind::Switch => (&mut next.switch, 1),
            Kind::Adapter | Kind::Router => (&mut next.adapter, u64::from(ports) + 1),
        };
        let raw = announced.guid.or(named).unwrap_or(*counter);
        *counter = raw.wrapping_add(step);
        let guid = Guid::new(raw).ok().filter(|_| named.is_none_or(|n| n == raw));
        let guid = guid.ok_or_else(|| (at, Problem::WrongGuid { id: id.to_string(), guid: raw }))?;
        let description = description.unwrap_or(id);
        let aggregation = kind == Kind::Router
            || announced.device == Some(AGGREGATION_DEVICE)
            || description.contains("Aggregation Node");
        self.by_id.insert(id, self.blocks.len());
        let cables = Vec::new();
        self.blocks.push(Block { line: at, kind, ports, id, guid, description, lid, aggregation, cables });
        Ok(())
    }

    /// Every cable is listed at both ends, and the listings agree.
    fn check_cables(&self) -> Result<(), Fault> {
        for block in &self.blocks {
            for (line, here) in &block.cables {
                let fail = |problem| Err((*line, problem));
                let peer = here.peer.to_string();
                let Some(far) = self.by_id.get(here.peer).map(|i| &self.blocks[*i]) else {
                    return fail(Problem::UnknownPeer { peer });
                };
                let Some((other, there)) = far.cable(here.peer_port) else {
                    return fail(Problem::OneEnd { peer, port: here.peer_port });
                };
                let other = *other;
                if (there.peer, there.peer_port) != (block.id, here.port) {
                    return fail(Problem::OtherEnd { peer, port: here.peer_port, other });
                }
                let (far_lid, said) = match far.kind {
                    Kind::Switch => (far.lid, far.line),
                    Kind::Adapter | Kind::Router => (there.lid, other),
                };
                if here.peer_lid.zip(far_lid).is_some_and(|(a, b)| a != b) {
                    return fail(Problem::OtherIdentity { what: "the LID", peer, other: said });
                }
                let wrong = here.peer_guid.is_some_and(|g| g != far.port_guid(there));
                if far.kind != Kind::Switch && wrong {
                    return fail(Problem::OtherIdentity { what: "the port GUID", peer, other });
                }
            }
        }
        Ok(())
    }

    fn build(&self) -> Result<Discovered, Fault> {
        let mut builder = FabricBuilder::default();
        let mut switches: Vec<Option<SwitchId>> = Vec::with_capacity(self.blocks.len());
        for b in &self.blocks {
            let added =
                (b.kind == Kind::Switch).then(|| builder.switch(b.guid, b.ports, b.lid, b.description));
            switches.push(added.transpose().map_err(|e| (b.line, e.into()))?);
        }
        let (mut unrouted, mut terminals) = (Vec::new(), 0);
        let mut lids: Vec<(Lid, usize)> =
            self.blocks.iter().filter_map(|b| b.lid.map(|lid| (lid, b.line))).collect();
        for (at, block) in self.blocks.iter().enumerate() {
            for (line, cable) in &block.cables {
                let far = self.by_id[cable.peer];
                let added = match (switches[at], switches[far]) {
                    // Each cable once: at its first end.
                    (Some(a), Some(b)) if (at, cable.port) < (far, cable.peer_port) => {
                        builder.cable(a, cable.port, b, cable.peer_port)
                    }
                    (None, Some(switch)) => {
                        terminals += 1;
                        lids.extend(cable.lid.map(|lid| (lid, *line)));
                        let terminal = block.terminal(cable, switch).map_err(|p| (*line, p))?;
                        builder.terminal(terminal).map(|_| ())
                    }
                    (None, None) => {
                        let cabled_to = Some(self.blocks[far].description.to_string());
                        unrouted.push(block.unrouted(*line, cabled_to));
                        Ok(())
                    }
                    _ => Ok(()),
                };
                added.map_err(|e| (*line, e.into()))?;
            }
            if switches[at].is_none() && block.cables.is_empty() {
                unrouted.push(block.unrouted(block.line, None));
            }
        }
        if terminals == 0 && !self.ended {
            return Err((self.lines, Problem::NoTerminal));
        }
        let fabric = builder.build().map_err(|e| (self.line_of(&e, &lids), e.into()))?;
        let fabric = grid::shaped(fabric);
        Ok(Discovered { fabric, unrouted })
    }

    /// The line of the second claim of a LID, or the last line.
    fn line_of(&self, error: &FabricError, lids: &[(Lid, usize)]) -> usize {
        let FabricError::DuplicateLid(twice) = error else { return self.lines };
        lids.iter().filter(|(lid, _)| lid == twice).map(|(_, line)| *line).max().unwrap_or(self.lines)
    }
}

impl Block<'_> {
    fn terminal(&self, cable: &PortLine<'_>, switch: SwitchId) -> Result<NewTerminal, Problem> {
        let guid = self.port_guid(cable);
        Ok(NewTerminal {
            node_guid: self.guid,
            port_guid: Guid::new(guid).map_err(|_| Problem::WrongGuid { id: self.id.to_string(), guid })?,
            adapter_port: cable.port,
            lid: cable.lid,
            description: self.description.to_string(),
            role: if self.aggregation { Role::Aggregation } else { Role::Host },
            switch,
            port: cable.peer_port,
        })
    }

    fn unrouted(&self, line: usize, cabled_to: Option<String>) -> Unrouted {
        let (description, cabled_to) =
            (shown(self.description).into_owned(), cabled_to.map(|to| shown(&to).into_owned()));
        Unrouted { node_guid: self.guid, description, cabled_to, line }
    }
}

fn add_port<'a>(block: &mut Block<'a>, at: usize, port: PortLine<'a>) -> Result<(), Fault> {
    let (id, number) = (block.id.to_string(), port.port);
    if number.get() > block.ports {
        return Err((at, Problem::NoSuchPort { port: number, id, ports: block.ports }));
    }
    match block.cables.binary_search_by_key(&number, |(_, c)| c.port) {
        Ok(i) => Err((at, Problem::PortTwice { port: number, id, first: block.cables[i].0 })),
        Err(i) => {
            block.cables.insert(i, (at, port));
            Ok(())
        }
    }
}

/// `S-0008f10400410015` contains a GUID; names that people write do not.
fn guid_in_name(id: &str) -> Option<u64> {
    let digits = ["S-", "H-", "R-"].iter().find_map(|prefix| id.strip_prefix(prefix))?;
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

//! `lft.bin`: the tables as the OpenSM plugin reads them, keyed by GUIDs.
//!
//! The format is specified in `plugin/README.md`, byte for byte; this is its Rust side. The file
//! stores tables by switch, because a subnet manager programs switches; in memory they are stored
//! by destination.

mod crc;
mod devices;
mod lanes;
mod next_hops;
mod order;
mod sections;
mod turned;

use std::sync::Arc;

pub use self::devices::fabric;
pub use self::lanes::Lanes;
pub use self::next_hops::NextHops;
use self::sections::{Content, Kind, Sections};
use crate::model::{
    ChannelId, Closure, DestId, Fabric, FabricLanes, Fingerprint, Guid, LaneMap, LidSet, Promise, SwitchId,
    Tables, TablesError, Vl,
};
use crate::verify::Certificate;

const MAGIC: &[u8; 8] = b"\x89SARLFT\n";
const VERSION: u32 = 2;
/// Bytes of what every version has; the table of sections follows.
const HEADER: usize = 128;
/// Bytes of one switch, terminal or cable.
const RECORD: usize = 16;
/// Bytes of the engine's name.
const NAME: usize = 32;
/// Longest file that readers accept.
pub(super) const MAX_FILE: u64 = 1 << 30;
/// There are no more LIDs, so there are no more destinations.
const MAX_DESTS: usize = 49_151;

/// Bytes that are not a hand-off file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandoffError {
    /// Not our format.
    #[error("the file does not start with the magic of a hand-off file")]
    Magic,
    /// A later or an earlier format.
    #[error("the file has version {0}, this program knows versions 1 to {VERSION}")]
    Version(u32),
    /// Too short or too long.
    #[error("{wanted} bytes wanted, {found} found")]
    Length {
        /// By the header.
        wanted: usize,
        /// In the file.
        found: usize,
    },
    /// A section that must be known and is not, is missing, or is not where or what it should be.
    #[error("section {kind}: {what}")]
    Section {
        /// Its kind in `plugin/README.md`.
        kind: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// Damaged.
    #[error("the checksum is wrong")]
    Checksum,
    /// A field that the format does not allow.
    #[error("{field} is not allowed to be {value}")]
    Field {
        /// Its name in `plugin/README.md`.
        field: &'static str,
        /// What is there.
        value: u64,
    },
    /// A GUID that is none.
    #[error("zero is not a GUID")]
    Guid,
    /// The list of switches or terminals is out of order.
    #[error("GUID {0} is not greater than the one before")]
    Order(Guid),
    /// The tables are for other switches, terminals or cables.
    #[error("the tables are for fabric {found}, not for {wanted}")]
    OtherFabric {
        /// The fabric at hand.
        wanted: Fingerprint,
        /// The file's fabric.
        found: Fingerprint,
    },
    /// Arrays that do not fit.
    #[error(transparent)]
    Tables(#[from] TablesError),
}

/// A decoded hand-off file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handoff {
    /// Number of the epoch it belongs to.
    pub epoch: u64,
    /// The fabric the tables are for.
    pub fabric: Fingerprint,
    /// Name of the engine that made them.
    pub engine: String,
    /// GUIDs of the switches, ascending.
    pub switches: Vec<Guid>,
    /// Port GUIDs of the terminals, ascending.
    pub terminals: Vec<Guid>,
    /// Where each of them is: number of the switch, and its port.
    pub places: Vec<(usize, u8)>,
    /// Raw egress ports, `[dest * switches + switch]`.
    pub ports: Vec<u8>,
    /// Raw layers, `[dest * switches + switch]`.
    pub layers: Vec<u8>,
    /// Raw egress ports and layers of high LIDs, where these have routes of their own; `None`: all LIDs of a
    /// port have the same.
    pub high: Option<(Vec<u8>, Vec<u8>)>,
    /// VLs by switch, in port, out port and SL; `None`: the VL is the layer.
    pub lanes: Option<Lanes>,
    /// Next hops among which epochs with these lanes choose, if it says so.
    pub next_hops: Option<NextHops>,
    /// The order of buffers that all routes climb, if it says so.
    pub order: Option<Vec<(ChannelId, Vl)>>,
    /// Which packets climb it, if it says so.
    pub promise: Option<Promise>,
}

/// A certificate, and the promise for which it is one.
pub type Proof<'a> = (&'a Certificate, Promise);

impl Handoff {
    /// Lane map and closure on a fabric, found by GUID: without the next hops over cables that it does not
    /// have. `None` if the file lacks either. O(switches² × ports).
    pub fn lanes_on(&self, fabric: &Fabric) -> Option<FabricLanes> {
        let closure = Arc::new(self.next_hops.as_ref()?.on(fabric, &self.switches));
        Some(FabricLanes { map: self.map_on(fabric)?, closure })
    }

    /// The lane map on a fabric, found by GUID. O(sum over switches of ports²).
    pub fn map_on(&self, fabric: &Fabric) -> Option<Arc<LaneMap>> {
        self.lanes.as_ref().map(|lanes| Arc::new(lanes.on(fabric, &self.switches)))
    }

    /// The certificate, for the very fabric that the tables were made for; `None` if the file lacks one or it is
    /// none: any order is one of a promise that names no sender.
    pub fn certificate(&self, fabric: &Fabric) -> Option<Certificate> {
        let has_senders = self.promise.is_none_or(|promise| promise.has_senders());
        let order = self.order.as_ref().filter(|_| has_senders && fabric.fingerprint() == self.fabric)?;
        Certificate::new(fabric, order.clone()).ok()
    }

    /// Its routes to one LID of each port, on the fabric of now, as the plugin programs them: a host that is new there, or
    /// elsewhere, has those of its switch. A switch that is new has none, and an entry may lead to a cable that is gone.
    /// Without lanes. O(destinations × switches).
    ///
    /// # Errors
    /// If the tables are not as large as the devices demand.
    pub fn routes_on(&self, fabric: &Fabric, engine: &str, set: LidSet) -> Result<Tables, HandoffError> {
        let high = self.high.as_ref().filter(|_| set == LidSet::High);
        let (of_ports, of_layers) = high.map_or((&self.ports, &self.layers), |(p, l)| (p, l));
        let width = self.switches.len();
        let entries = (self.terminals.len() + width) * width;
        if of_ports.len() != entries || of_layers.len() != entries {
            return Err(HandoffError::Length { wanted: entries, found: of_ports.len() });
        }
        let find = |list: &[Guid], guid| list.binary_search(&guid).ok();
        let switches: Vec<_> = fabric.switches().iter().map(|s| find(&self.switches, s.guid)).collect();
        let of_switch = |s: &Option<usize>| s.map(|s| self.terminals.len() + s);
        let mut dests = Vec::with_capacity(fabric.dest_count());
        for terminal in fabric.terminals() {
            let home = switches[terminal.switch.index()];
            let known = find(&self.terminals, terminal.port_guid);
            let is_there =
                |t: &usize| home.is_some_and(|home| self.places[*t] == (home, terminal.port.get()));
            let known = known.filter(is_there);
            dests.push((known.or(of_switch(&home)), known.is_none().then_some(terminal)));
        }
        dests.extend(switches.iter().map(|s| (of_switch(s), None)));
        let mut ports = Vec::with_capacity(dests.len() * switches.len());
        let mut layers = Vec::with_capacity(ports.capacity());
        for (dest, guest) in dests {
            for (s, switch) in switches.iter().enumerate() {
                let entry = dest.zip(*switch).map(|(d, s)| d * width + s);
                let at_home = guest.filter(|t| t.switch.index() == s && entry.is_some());
                let port = at_home.map(|t| t.port.get()).or(entry.map(|e| of_ports[e]));
                ports.push(port.unwrap_or(Tables::UNREACHABLE));
                // Who asks for a route that has no layer is told SL 0.
                let untold = guest.is_some() && at_home.is_none();
                let layer = entry.map_or(Tables::NO_LAYER, |e| of_layers[e]);
                layers.push(if untold && entry.is_some() && layer == Tables::NO_LAYER { 0 } else { layer });
            }
        }
        Ok(Tables::new(fabric, engine, ports, layers)?)
    }

    /// The tables, for the very fabric they were made for: those of base LIDs. O(1) beside a comparison.
    ///
    /// # Errors
    /// If the fabric has another fingerprint.
    pub fn into_tables(self, fabric: &Fabric) -> Result<Tables, HandoffError> {
        let wanted = fabric.fingerprint();
        if wanted != self.fabric {
            return Err(HandoffError::OtherFabric { wanted, found: self.fabric });
        }
        let map = self.map_on(fabric);
        Ok(Tables::new(fabric, &self.engine, self.ports, self.layers)?.with_lanes(map))
    }
}

/// Whether bytes begin like a hand-off file.
pub fn is_handoff(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Tables as bytes, in version 2. An engine's name is cut after 32 bytes. O(entries).
pub fn encode(fabric: &Fabric, tables: &Tables, epoch: u64) -> Vec<u8> {
    encode_lids(fabric, tables, None, None, None, epoch)
}

/// As [`encode`], with the routes of high LIDs, on the same lanes, where these have their own, the closure inside which
/// the next epochs choose as well, and what proves the tables.
pub fn encode_lids(
    fabric: &Fabric,
    tables: &Tables,
    high: Option<&Tables>,
    closure: Option<&Closure>,
    proof: Option<Proof<'_>>,
    epoch: u64,
) -> Vec<u8> {
    let mut fixed = Vec::with_capacity(HEADER);
    fixed.extend(MAGIC);
    fixed.extend(VERSION.to_le_bytes());
    // Sizes of header and file, which are not known yet.
    fixed.extend([0; 12]);
    fixed.extend(epoch.to_le_bytes());
    fixed.extend(tables.fabric().bytes());
    for count in [fabric.switches().len(), fabric.terminals().len(), fabric.channels().len() / 2] {
        fixed.extend((count as u32).to_le_bytes());
    }
    let layers = high.map_or(0, Tables::layers_used).max(tables.layers_used());
    fixed.extend([layers, 0, 0, 0]);
    fixed.extend(tables.engine().bytes().take(NAME));
    fixed.resize(HEADER, 0);
    let [of_switches, of_terminals, of_cables] = devices(fabric);
    let whole = |kind, bytes| (kind, Content::Whole(bytes));
    let mut parts = vec![
        whole(Kind::Switches, of_switches),
        whole(Kind::Terminals, of_terminals),
        whole(Kind::Cables, of_cables),
        (Kind::Ports, by_switch(fabric, |d| tables.ports_to(d))),
        (Kind::Layers, by_switch(fabric, |d| tables.layers_to(d))),
    ];
    if let Some(map) = tables.lanes() {
        let [rows, index] = lanes::encode(fabric, map);
        parts.extend([whole(Kind::LaneRows, rows), whole(Kind::LaneIndex, index)]);
    }
    parts.extend(closure.map(|closure| whole(Kind::NextHops, next_hops::encode(fabric, closure))));
    parts.extend(proof.map(|(certificate, _)| whole(Kind::Order, order::encode(certificate))));
    parts.extend(devices::encode_aggregation(fabric).map(|numbers| whole(Kind::Aggregation, numbers)));
    if let Some(high) = high {
        parts.push((Kind::HighPorts, by_switch(fabric, |d| high.ports_to(d))));
        parts.push((Kind::HighLayers, by_switch(fabric, |d| high.layers_to(d))));
    }
    parts.extend(proof.map(|(_, promise)| whole(Kind::Promise, order::encode_promise(promise))));
    sections::write(&fixed, &parts)
}

/// Inverse of [`encode`]: `decode(&encode(f, t, n))?.into_tables(f)? == t`, for names of engines
/// of up to 32 bytes. O(entries).
///
/// Checks what can be checked without the fabric, except that routes are trees: tables were
/// verified before they were written, and the plugin checks again.
///
/// # Errors
/// If the bytes are neither what `encode` could have made, nor of version 1, nor with sections more
/// that a reader may skip.
pub fn decode(bytes: &[u8]) -> Result<Handoff, HandoffError> {
    let header = Header::parse(bytes)?;
    let [s, t, cables] = header.counts;
    let content = &bytes[..bytes.len() - 8];
    let sections = match header.version {
        1 => Sections::first(content, header.counts)?,
        _ => Sections::parse(content, header.counts)?,
    };
    // Those that a file must have are there.
    let part = |kind| sections.get(kind).unwrap_or_default();
    let lanes = match (sections.get(Kind::LaneRows), sections.get(Kind::LaneIndex)) {
        (Some(rows), Some(index)) => Some(lanes::decode(part(Kind::Switches), rows, index)?),
        _ => None,
    };
    let next_hops = sections
        .get(Kind::NextHops)
        .map(|hops| next_hops::decode(part(Kind::Switches), part(Kind::Cables), hops))
        .transpose()?;
    let order = sections.get(Kind::Order).map(|order| order::decode(order, cables)).transpose()?;
    let high = sections.get(Kind::HighPorts).zip(sections.get(Kind::HighLayers));
    Ok(Handoff {
        high: high.map(|(ports, layers)| (by_dest(ports, s + t), by_dest(layers, s + t))),
        next_hops,
        promise: sections.get(Kind::Promise).map(order::decode_promise),
        order,
        epoch: header.epoch,
        fabric: header.fabric,
        engine: header.engine,
        switches: guids(part(Kind::Switches))?,
        terminals: guids(part(Kind::Terminals))?,
        places: places(part(Kind::Terminals)),
        ports: by_dest(part(Kind::Ports), s + t),
        layers: by_dest(part(Kind::Layers), s + t),
        lanes,
    })
}

/// Records of the switches, the terminals and the cables.
fn devices(fabric: &Fabric) -> [Vec<u8>; 3] {
    let number = |s: SwitchId| (s.index() as u32).to_le_bytes();
    let (mut switches, mut terminals, mut cables) = (Vec::new(), Vec::new(), Vec::new());
    for switch in fabric.switches() {
        switches.extend(switch.guid.get().to_le_bytes());
        switches.extend([switch.ports, 0, 0, 0, 0, 0, 0, 0]);
    }
    for terminal in fabric.terminals() {
        terminals.extend(terminal.port_guid.get().to_le_bytes());
        terminals.extend(number(terminal.switch));
        terminals.extend([terminal.port.get(), terminal.adapter_port.get(), 0, 0]);
    }
    for cable in fabric.channels().iter().step_by(2) {
        cables.extend(number(cable.from));
        cables.extend(number(cable.to));
        cables.extend([cable.from_port.get(), cable.to_port.get(), 0, 0, 0, 0, 0, 0]);
    }
    [switches, terminals, cables]
}

/// One array by destination, which a file has by switch.
fn by_switch<'a>(fabric: &Fabric, to: impl Fn(DestId) -> &'a [u8]) -> Content<'a> {
    Content::Turned(fabric.dest_ids().map(to).collect())
}

/// See [`Handoff::places`].
fn places(records: &[u8]) -> Vec<(usize, u8)> {
    records.chunks_exact(RECORD).map(|record| (little_endian(&record[8..12]) as usize, record[12])).collect()
}

/// Turns an array by switch into one by destination.
fn by_dest(by_switch: &[u8], dests: usize) -> Vec<u8> {
    let mut values = vec![0; by_switch.len()];
    let lines: Vec<&[u8]> = by_switch.chunks_exact(dests).collect();
    turned::turn(&lines, &mut values);
    values
}

/// The fixed part, checked against the length of the file.
struct Header {
    version: u32,
    epoch: u64,
    fabric: Fingerprint,
    engine: String,
    /// Switches, terminals, cables.
    counts: [usize; 3],
}

impl Header {
    fn parse(bytes: &[u8]) -> Result<Self, HandoffError> {
        if !bytes.starts_with(MAGIC) {
            return Err(HandoffError::Magic);
        }
        let found = bytes.len();
        let header = bytes.get(..HEADER).ok_or(HandoffError::Length { wanted: HEADER, found })?;
        let number = |at: usize, size: usize| little_endian(&header[at..at + size]);
        let version = number(8, 4) as u32;
        if !(1..=VERSION).contains(&version) {
            return Err(HandoffError::Version(version));
        }
        let field = |field, value, allowed: bool| {
            if allowed { Ok(value) } else { Err(HandoffError::Field { field, value }) }
        };
        let first = number(12, 4) == HEADER as u64;
        field("size of the header", number(12, 4), version > 1 || first)?;
        let size = field("size of the file", number(16, 8), number(16, 8) <= MAX_FILE)?;
        let epoch = field("epoch number", number(24, 8), number(24, 8) > 0)?;
        let switches = number(64, 4) as usize;
        let terminals = number(68, 4) as usize;
        let cables = number(72, 4) as usize;
        field("number of switches", switches as u64, (1..=MAX_DESTS).contains(&switches))?;
        field("number of terminals", terminals as u64, terminals <= MAX_DESTS - switches)?;
        field("number of cables", cables as u64, cables <= 127 * switches)?;
        field("number of layers", number(76, 1), number(76, 1) <= 15)?;
        field("reserved", number(77, 3), number(77, 3) == 0)?;
        field("reserved", number(112, 8) | number(120, 8), number(112, 8) | number(120, 8) == 0)?;
        if size != found as u64 || found < HEADER + 8 {
            return Err(HandoffError::Length { wanted: size as usize, found });
        }
        let (content, sum) = bytes.split_at(found - 8);
        if crc::crc64(content) != little_endian(sum) {
            return Err(HandoffError::Checksum);
        }
        let mut fabric = [0; 32];
        fabric.copy_from_slice(&header[32..64]);
        let engine = engine_name(&header[80..80 + NAME])?;
        Ok(Self {
            version,
            epoch,
            fabric: Fingerprint(fabric),
            engine,
            counts: [switches, terminals, cables],
        })
    }
}

fn engine_name(field: &[u8]) -> Result<String, HandoffError> {
    let length = field.iter().position(|b| *b == 0).unwrap_or(field.len());
    let (name, filling) = field.split_at(length);
    let wrong = |b: &&u8| !b.is_ascii_graphic() && **b != b' ';
    let bad = name.iter().find(wrong).or(filling.iter().find(|b| **b != 0));
    match bad {
        Some(byte) => Err(HandoffError::Field { field: "name of the engine", value: u64::from(*byte) }),
        None if length == 0 => Err(HandoffError::Field { field: "name of the engine", value: 0 }),
        None => Ok(name.iter().copied().map(char::from).collect()),
    }
}

/// The GUIDs of a list of records.
fn guids(records: &[u8]) -> Result<Vec<Guid>, HandoffError> {
    let mut list: Vec<Guid> = Vec::with_capacity(records.len() / RECORD);
    for record in records.chunks_exact(RECORD) {
        let guid = Guid::new(little_endian(&record[..8])).map_err(|_| HandoffError::Guid)?;
        if list.last().is_some_and(|last| *last >= guid) {
            return Err(HandoffError::Order(guid));
        }
        list.push(guid);
    }
    Ok(list)
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

//! The parts of a hand-off file, and where they are in it, in both versions.

use super::{HEADER, HandoffError, RECORD, crc, little_endian, order, turned};

/// Bytes that describe one section.
const SECTION: usize = 32;
/// Sections of a file, at most.
const MAX: usize = 64;
/// Of a section: a reader that does not know it may go on without.
const OPTIONAL: u64 = 1;

/// What a section holds. The number is that in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Switches = 1,
    Terminals,
    Cables,
    Ports,
    Layers,
    LaneRows,
    LaneIndex,
    NextHops,
    Order,
    Aggregation,
    HighPorts,
    HighLayers,
    Promise,
}

impl Kind {
    const ALL: [Self; 13] = [
        Self::Switches,
        Self::Terminals,
        Self::Cables,
        Self::Ports,
        Self::Layers,
        Self::LaneRows,
        Self::LaneIndex,
        Self::NextHops,
        Self::Order,
        Self::Aggregation,
        Self::HighPorts,
        Self::HighLayers,
        Self::Promise,
    ];

    /// Whether a reader that does not know it may go on without.
    fn flags(self) -> u64 {
        let more = matches!(self, Self::NextHops | Self::Order | Self::Aggregation | Self::Promise);
        if more { OPTIONAL } else { 0 }
    }

    /// How long it must be; `None`: whatever it is. What version 1 does not have may be missing.
    fn size(self, [switches, terminals, cables]: [usize; 3]) -> Option<usize> {
        match self {
            Self::Switches => Some(RECORD * switches),
            Self::Terminals => Some(RECORD * terminals),
            Self::Cables => Some(RECORD * cables),
            Self::Ports | Self::Layers | Self::HighPorts | Self::HighLayers => {
                Some(switches * (switches + terminals))
            }
            Self::Promise => Some(order::PROMISE),
            Self::LaneRows | Self::LaneIndex | Self::NextHops | Self::Order | Self::Aggregation => None,
        }
    }

    /// Whether every file has it.
    fn is_needed(self) -> bool {
        matches!(self, Self::Switches | Self::Terminals | Self::Cables | Self::Ports | Self::Layers)
    }

    fn wrong(self, what: &'static str) -> HandoffError {
        HandoffError::Section { kind: self as u64, what }
    }
}

/// The parts of a file by kind.
#[derive(Debug, Default)]
pub(super) struct Sections<'a>([Option<&'a [u8]>; 14]);

impl<'a> Sections<'a> {
    /// A part; nothing if it is not there.
    pub(super) fn get(&self, kind: Kind) -> Option<&'a [u8]> {
        self.0[kind as usize]
    }

    /// The parts of a file of version 1, without its checksum: one after the other.
    pub(super) fn first(bytes: &'a [u8], counts: [usize; 3]) -> Result<Self, HandoffError> {
        let mut sections = Self::default();
        let mut at = HEADER;
        for kind in Kind::ALL.into_iter().filter(|kind| kind.is_needed()) {
            let Some(size) = kind.size(counts) else { continue };
            let part = bytes.get(at..at + size);
            let wanted = || HandoffError::Length { wanted: at + size + 8, found: bytes.len() + 8 };
            sections.0[kind as usize] = Some(part.ok_or_else(wanted)?);
            at += size;
        }
        if at.next_multiple_of(8) != bytes.len() {
            return Err(HandoffError::Length { wanted: at.next_multiple_of(8) + 8, found: bytes.len() + 8 });
        }
        filled(&bytes[at..])?;
        Ok(sections)
    }

    /// The parts of a file of version 2, without its checksum: by ascending kind, each from the next
    /// multiple of 8 bytes.
    pub(super) fn parse(bytes: &'a [u8], counts: [usize; 3]) -> Result<Self, HandoffError> {
        let header = little_endian(&bytes[12..16]) as usize;
        let table = (HEADER..=HEADER + MAX * SECTION).contains(&header) && (header - HEADER) % SECTION == 0;
        let table = bytes.get(HEADER..header).filter(|_| table);
        let wrong = HandoffError::Field { field: "size of the header", value: header as u64 };
        let mut sections = Self::default();
        let (mut end, mut before) = (header, 0);
        for entry in table.ok_or(wrong)?.chunks_exact(SECTION) {
            let number = |at: usize| little_endian(&entry[at..at + 8]);
            let (kind, flags) = (number(0) & 0xFFFF_FFFF, number(0) >> 32);
            let failed = |what| HandoffError::Section { kind, what };
            let start = end.next_multiple_of(8);
            let stop = usize::try_from(number(16)).ok().and_then(|size| start.checked_add(size));
            let part = stop.filter(|_| kind > before && number(8) == start as u64);
            let part = part.and_then(|stop| bytes.get(start..stop));
            let part = part.ok_or(failed("it is not where it should be"))?;
            filled(&bytes[end..start])?;
            if flags > OPTIONAL || number(24) != 0 {
                return Err(failed("it has flags of another version"));
            }
            match Kind::ALL.iter().find(|k| **k as u64 == kind) {
                Some(known) => sections.0[*known as usize] = Some(part),
                None if flags == OPTIONAL => {}
                None => return Err(failed("this program does not know it")),
            }
            (end, before) = (start + part.len(), kind);
        }
        if end.next_multiple_of(8) != bytes.len() {
            return Err(HandoffError::Length { wanted: end.next_multiple_of(8) + 8, found: bytes.len() + 8 });
        }
        filled(&bytes[end..])?;
        sections.checked(counts)
    }

    fn checked(self, counts: [usize; 3]) -> Result<Self, HandoffError> {
        for kind in Kind::ALL {
            match (self.get(kind), kind.size(counts)) {
                (None, _) if kind.is_needed() => return Err(kind.wrong("it is missing")),
                (Some(part), Some(size)) if part.len() != size => {
                    return Err(kind.wrong("it is longer or shorter than the header says"));
                }
                _ => {}
            }
        }
        for (one, other) in [(Kind::LaneRows, Kind::LaneIndex), (Kind::HighPorts, Kind::HighLayers)] {
            match (self.get(one), self.get(other)) {
                (Some(_), None) => return Err(other.wrong("it is missing")),
                (None, Some(_)) => return Err(one.wrong("it is missing")),
                _ => {}
            }
        }
        Ok(self)
    }
}

/// Between parts there are zeros.
fn filled(bytes: &[u8]) -> Result<(), HandoffError> {
    match bytes.iter().find(|b| **b != 0) {
        Some(b) => Err(HandoffError::Field { field: "padding", value: u64::from(*b) }),
        None => Ok(()),
    }
}

/// What becomes a part of a file.
pub(super) enum Content<'a> {
    /// These bytes.
    Whole(Vec<u8>),
    /// These lines, turned.
    Turned(Vec<&'a [u8]>),
}

impl Content<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Turned(lines) => lines.iter().map(|line| line.len()).sum(),
        }
    }

    fn put(&self, part: &mut [u8]) {
        match self {
            Self::Whole(bytes) => part.copy_from_slice(bytes),
            Self::Turned(lines) => turned::turn(lines, part),
        }
    }
}

/// A whole file of version 2: the fixed part of the header, the parts by ascending kind, the sum.
pub(super) fn write(fixed: &[u8], parts: &[(Kind, Content<'_>)]) -> Vec<u8> {
    let header = HEADER + SECTION * parts.len();
    let starts = parts.iter().scan(header, |at, (_, part)| {
        let start = *at;
        *at = (start + part.len()).next_multiple_of(8);
        Some(start)
    });
    let starts: Vec<usize> = starts.collect();
    let end = starts.last().zip(parts.last()).map_or(header, |(start, (_, part))| start + part.len());
    let end = end.next_multiple_of(8);
    let mut bytes = vec![0; end + 8];
    bytes[..HEADER].copy_from_slice(fixed);
    bytes[12..16].copy_from_slice(&(header as u32).to_le_bytes());
    bytes[16..24].copy_from_slice(&(end as u64 + 8).to_le_bytes());
    for (i, ((kind, part), start)) in parts.iter().zip(starts).enumerate() {
        let entry = [*kind as u64 | kind.flags() << 32, start as u64, part.len() as u64, 0];
        let at = HEADER + SECTION * i;
        bytes[at..at + SECTION].copy_from_slice(&entry.map(u64::to_le_bytes).concat());
        part.put(&mut bytes[start..start + part.len()]);
    }
    let sum = crc::crc64(&bytes[..end]);
    bytes[end..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

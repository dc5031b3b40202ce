//! What can be wrong with a fabric file.

use std::path::PathBuf;

use crate::model::{FabricError, PortNum};

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
    /// A cable to one of several devices with the same name: neither LID nor cabling tells which.
    #[error("leads to {peer:?}, which is the name of several switches, and nothing says which")]
    AmbiguousPeer {
        /// The name.
        peer: String,
    },
    /// A cable that is listed at one end only, in a file that lists all at both.
    #[error("leads to port {port} of {peer:?}, which does not list this cable; was the file cut short?")]
    OneEnd {
        /// The other device.
        peer: String,
        /// Its port.
        port: PortNum,
    },
    /// A section of a file of ibdiagnet's.
    #[error("the section {name}, from START_{name} to END_{name}, is not there or has no end")]
    NoSection {
        /// Its name.
        name: String,
    },
    /// A column of such a section.
    #[error("there is no {column} in this row")]
    NoColumn {
        /// Its name.
        column: String,
    },
    /// Two cables in one port.
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

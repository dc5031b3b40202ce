//! Checked identifiers. Each is validated once, at construction, and never interchangeable with
//! another. The dense ids (`SwitchId`, `TerminalId`, `ChannelId`, `DestId`) index `Vec`s and are
//! minted by [`crate::model::FabricBuilder`] and by iterating over a [`crate::model::Fabric`].

use schemars::JsonSchema;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A value outside the range its type allows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {value:?} is not valid: {rule}")]
pub struct IdError {
    /// Name of the type.
    pub what: &'static str,
    /// The refused value as written.
    pub value: String,
    /// What would be allowed.
    pub rule: &'static str,
}

fn refuse<T>(what: &'static str, value: impl fmt::Display, rule: &'static str) -> Result<T, IdError> {
    Err(IdError { what, value: value.to_string(), rule })
}

/// A 64-bit InfiniBand globally unique id, never zero. Prints as `0x` and 16 hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(with = "String")]
pub struct Guid(u64);

impl Guid {
    /// Checks and wraps. Zero is not a GUID.
    pub fn new(value: u64) -> Result<Self, IdError> {
        if value == 0 { refuse("GUID", value, "must not be zero") } else { Ok(Self(value)) }
    }
    /// The raw value.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:016x}", self.0)
    }
}

impl FromStr for Guid {
    type Err = IdError;
    /// Hexadecimal, with or without `0x`.
    fn from_str(s: &str) -> Result<Self, IdError> {
        let digits = s.trim_start_matches("0x");
        match u64::from_str_radix(digits, 16) {
            Ok(v) if !digits.starts_with('+') => Self::new(v),
            _ => refuse("GUID", s, "must be 1 to 16 hexadecimal digits"),
        }
    }
}

impl Serialize for Guid {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Guid {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Declares a small checked integer.
macro_rules! small_id {
    ($(#[$doc:meta])* $name:ident($raw:ty) in $low:literal ..= $high:literal, $label:literal, $rule:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize)]
        #[serde(try_from = "u64", into = "u64")]
        pub struct $name($raw);

        impl $name {
            /// Checks the range and wraps.
            pub fn new(value: u64) -> Result<Self, IdError> {
                if ($low..=$high).contains(&value) { Ok(Self(value as $raw)) } else { refuse($label, value, $rule) }
            }
            /// The raw value.
            pub const fn get(self) -> $raw {
                self.0
            }
        }

        impl TryFrom<u64> for $name {
            type Error = IdError;
            fn try_from(value: u64) -> Result<Self, IdError> {
                Self::new(value)
            }
        }

        impl From<$name> for u64 {
            fn from(id: $name) -> u64 {
                u64::from(id.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(s: &str) -> Result<Self, IdError> {
                match s.parse() {
                    Ok(v) => Self::new(v),
                    Err(_) => refuse($label, s, $rule),
                }
            }
        }
    };
}

small_id!(
    /// A unicast local id.
    Lid(u16) in 1..=0xBFFF, "LID", "must be 1 to 49151"
);
small_id!(
    /// A physical port of a switch or channel adapter; 0 is a switch's management port.
    PortNum(u8) in 0..=254, "port", "must be 0 to 254"
);
small_id!(
    /// A service level, what a packet carries.
    Sl(u8) in 0..=15, "SL", "must be 0 to 15"
);
small_id!(
    /// A data virtual lane, what a port buffers.
    Vl(u8) in 0..=14, "VL", "must be 0 to 14"
);
small_id!(
    /// A virtual layer (thesis Definition 3.8): routes of one layer share a channel dependency graph.
    Layer(u8) in 0..=14, "layer", "must be 0 to 14"
);
small_id!(
    /// How many virtual layers routes may use.
    LayerBudget(u8) in 1..=15, "layer budget", "must be 1 to 15"
);

impl PortNum {
    /// A switch's own management port.
    pub const ZERO: Self = Self(0);
    /// From the number of a port of a switch of a fabric.
    pub const fn at(port: u8) -> Self {
        Self(port)
    }
}

impl LayerBudget {
    /// The largest.
    pub const MOST: Self = Self(15);
}

impl Vl {
    /// The first lane.
    pub const ZERO: Self = Self(0);
    /// The lane of a number that is known to be one.
    pub(crate) const fn at(lane: u8) -> Self {
        Self(lane)
    }
    /// The character of `lanes.txt`: base 36, `0` to `e`.
    pub fn to_char(self) -> char {
        char::from_digit(u32::from(self.0), 36).unwrap_or('-')
    }
    /// Inverse of [`Vl::to_char`]; `None` for anything but `0` to `e`.
    pub fn from_char(c: char) -> Option<Self> {
        Layer::from_char(c).map(|layer| Self(layer.get()))
    }
}

impl Layer {
    /// The first layer.
    pub const ZERO: Self = Self(0);
    /// The character of `layers.txt`: base 36, `0` to `e`.
    pub fn to_char(self) -> char {
        char::from_digit(u32::from(self.0), 36).unwrap_or('-')
    }
    /// Inverse of [`Layer::to_char`]; `None` for anything but `0` to `e`.
    pub fn from_char(c: char) -> Option<Self> {
        c.to_digit(36).and_then(|d| Self::new(u64::from(d)).ok()).filter(|_| !c.is_ascii_uppercase())
    }
}

/// Declares a checked text id.
macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $label:literal, $max:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks length and characters and wraps.
            pub fn new(value: impl Into<String>) -> Result<Self, IdError> {
                let value = value.into();
                let legal = |c: char| c.is_ascii_alphanumeric() || "-_.+[],%:".contains(c);
                let rule = concat!("must be 1 to ", $max, " of A-Z a-z 0-9 - _ . + [ ] , % : and not start with . or -");
                let starts = value.starts_with(['.', '-']);
                if value.is_empty() || value.len() > $max || starts || !value.chars().all(legal) {
                    return refuse($label, value, rule);
                }
                Ok(Self(value))
            }
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(value: String) -> Result<Self, IdError> {
                Self::new(value)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(s: &str) -> Result<Self, IdError> {
                Self::new(s)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id!(
    /// A Slurm job id as Slurm prints it: `17`, `17_3` or `17+1`.
    JobId, "job id", 64
);
text_id!(
    /// A Slurm node name (not necessarily a host name).
    NodeName, "node name", 255
);

/// Declares a dense index.
macro_rules! dense_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub struct $name(pub(crate) u32);

        impl $name {
            /// As an index into a `Vec`.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
            /// From an index that a `Vec` of the same fabric gave.
            #[inline]
            pub const fn at(index: usize) -> Self {
                Self(index as u32)
            }
        }
    };
}

dense_id!(
    /// Index of a switch in its fabric.
    SwitchId
);
dense_id!(
    /// Index of a terminal (a port of a host's channel adapter) in its fabric.
    TerminalId
);
dense_id!(
    /// Index of a directed inter-switch channel in its fabric; `c` and `c ^ 1` are one cable.
    ChannelId
);
dense_id!(
    /// Index of a destination: terminals first, in the order of their ids, then switches.
    DestId
);

dense_id!(
    /// Index of a node in its direct torus; the last coordinate varies fastest.
    NodeId
);

impl ChannelId {
    /// The channel of the same cable in the other direction.
    #[inline]
    pub const fn reverse(self) -> Self {
        Self(self.0 ^ 1)
    }
}

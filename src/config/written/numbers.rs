//! Numbers of the settings as written: checked while they are read, so that an error has its line.

use std::time::Duration;

use serde::Deserialize;

use crate::model::Storage;

/// 1 to 1048576 KiB, in bytes.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "u64")]
pub(super) struct Kibibytes(pub(super) usize);

/// More than zero, at most a year.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
pub(super) struct Seconds(pub(super) Duration);

/// Zero, or as [`Seconds`].
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
pub(super) struct SecondsOrZero(pub(super) Duration);

/// 1 to 65536 MiB, in bytes.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "u64")]
pub(super) struct Mebibytes(pub(super) u64);

/// 1 to 100.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "u64")]
pub(super) struct Percent(pub(super) u8);

/// How much a route of storage counts: 0 to 1000.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "u64")]
pub(super) struct StorageWeight(pub(super) u32);

/// How many epochs: the one in force and at least one to go back to.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "u64")]
pub(super) struct Kept(pub(super) usize);

const YEAR: f64 = 365.0 * 86400.0;

impl TryFrom<f64> for SecondsOrZero {
    type Error = String;
    fn try_from(seconds: f64) -> Result<Self, String> {
        if (0.0..=YEAR).contains(&seconds) {
            Ok(Self(Duration::from_secs_f64(seconds)))
        } else {
            Err(format!("{seconds} seconds are not between 0 and a year"))
        }
    }
}

impl TryFrom<f64> for Seconds {
    type Error = String;
    fn try_from(seconds: f64) -> Result<Self, String> {
        let SecondsOrZero(duration) = seconds.try_into()?;
        if duration.is_zero() { Err("must be more than 0 seconds".into()) } else { Ok(Self(duration)) }
    }
}

impl TryFrom<u64> for Mebibytes {
    type Error = String;
    fn try_from(mib: u64) -> Result<Self, String> {
        if (1..=65536).contains(&mib) { Ok(Self(mib << 20)) } else { Err("must be 1 to 65536 MiB".into()) }
    }
}

impl TryFrom<u64> for Kibibytes {
    type Error = String;
    fn try_from(kib: u64) -> Result<Self, String> {
        match usize::try_from(kib) {
            Ok(kib) if (1..=1 << 20).contains(&kib) => Ok(Self(kib << 10)),
            _ => Err("must be 1 to 1048576 KiB".into()),
        }
    }
}

impl TryFrom<u64> for Percent {
    type Error = String;
    fn try_from(percent: u64) -> Result<Self, String> {
        match u8::try_from(percent) {
            Ok(percent @ 1..=100) => Ok(Self(percent)),
            _ => Err("must be 1 to 100 percent".into()),
        }
    }
}

impl TryFrom<u64> for StorageWeight {
    type Error = String;
    fn try_from(weight: u64) -> Result<Self, String> {
        match u32::try_from(weight) {
            Ok(weight @ 0..=Storage::MOST_WEIGHT) => Ok(Self(weight)),
            _ => Err("must be 0 to 1000".into()),
        }
    }
}

impl TryFrom<u64> for Kept {
    type Error = String;
    fn try_from(epochs: u64) -> Result<Self, String> {
        if (2..=1_000_000).contains(&epochs) {
            Ok(Self(epochs as usize))
        } else {
            Err("must be 2 to 1000000 epochs".into())
        }
    }
}

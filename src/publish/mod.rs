//! Verified plans to disk: the epoch store and the OpenSM hand-off.
//!
//! ```text
//! STATE/epochs/000123/plan.json     what was decided, for whom; see [`PlanRecord`]
//!                     lft.bin       the tables, keyed by GUIDs; see [`handoff`]
//!                     report.json   what they are worth; see [`crate::report::Report`]
//!                     SHA256SUMS    as `sha256sum` writes it
//! STATE/current -> epochs/000123    the epoch in force
//! STATE/jobs/17/                   what the nodes of job 17 read before it starts; see [`job`]
//! STATE/service.id                  whose epochs these are, so that two services are told apart
//! STATE/lock                        held by the one writer; its pid, for people
//! STATE/hold.json               an administrator's hold: nothing is published meanwhile
//! STATE/acts.jsonl               holds, their ends and rollbacks, and who did them
//! STATE/trial.json              a trial: days with routes for jobs and days without
//! STATE/history.db                  an index of the epochs and looks, can be deleted at any time
//! STATE/record/                     the recording; see `service::record`
//! ```
//!
//! An epoch never changes once it has its number. A crash at any point leaves `current` at the old
//! or at the new epoch, both complete.

mod acts;
pub mod angara;
mod by_hand;
pub mod dump;
mod epoch;
mod error;
pub mod handoff;
mod history;
mod hold;
mod identity;
pub mod job;
mod lft_file;
pub mod opensm;
mod publication;
mod received;
mod record;
mod snapshots;
mod state_file;
mod store;
#[cfg(test)]
pub(crate) mod tests;
mod trial;
mod writer;

pub use acts::{ACTS_FILE, Act, Deed};
pub use epoch::{Epoch, EpochNumber};
pub use error::StoreError;
pub use history::{History, HistoryRow, Page, Turnover};
pub use hold::{HOLD_FILE, Hold, may_be_reason};
pub use identity::{IDENTITY_FILE, Identity};
pub use lft_file::{LftFileError, Stamp, lft_file_trouble};
pub use received::{EpochFile, Received, ReceivedError, file_limit};
pub use record::{DemandRecord, GroupRecord, PlanRecord};
pub use snapshots::Snapshot;
pub use store::EpochStore;
pub use trial::{TRIAL_FILE, read_trial};
pub use writer::{Serving, Writer};

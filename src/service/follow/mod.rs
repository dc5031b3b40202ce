//! A standby: keeps the epoch in force here the one that another service has in force.
//!
//! Each round asks the service what is in force there and makes it so here. Nothing is remembered between
//! rounds that could be wrong: what is missing is brought, judged as before a publication and put in force by
//! the store's writer. Whatever fails, the last good epoch stays in force.
//!
//! Two services that publish are told apart by three things: the identity of the service, the checksums of
//! the epoch that both should have, and the switches of the fabric.

mod incoming;
pub mod remote;

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracing::warn;

use self::incoming::{Incoming, IncomingError};
use self::remote::{Access, Remote, RemoteError};
use super::api::follow::{EpochFiles, Followed};
use super::file;
use crate::model::FileError;
use crate::publish::{
    Epoch, EpochNumber, EpochStore, Hold, Identity, Received, ReceivedError, Serving, StoreError,
};

/// Name of the file in the state directory that says what is followed.
const FOLLOWED_FILE: &str = "followed.json";

/// Why an epoch that could be had is not put in force: somebody must decide.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Somebody else answers there now.
    #[error(
        "split brain: {place} is service {now}, and the epochs here are of service {}: to follow it, give it \
         an empty state directory", before.as_ref().map_or("another".to_string(), ToString::to_string)
    )]
    OtherService {
        /// Address of the service that is asked.
        place: String,
        /// Who answers.
        now: Identity,
        /// Who answered before; `None` if nobody was followed.
        before: Option<Identity>,
    },
    /// Both have an epoch with this number, but not the same.
    #[error(
        "split brain: epoch {epoch} of the service is another than epoch {epoch} here: two services publish; \
         end one, and give the standby an empty state directory"
    )]
    Split {
        /// The number.
        epoch: EpochNumber,
    },
    /// Its epochs end before ours.
    #[error(
        "the service went back: its newest epoch is {}, here is {here}: it lost its state, or is not the one \
         that published epoch {here}", newest.map_or("none".to_string(), |n| n.to_string())
    )]
    WentBack {
        /// Its newest.
        newest: Option<EpochNumber>,
        /// The epoch in force here.
        here: EpochNumber,
    },
    /// Another subnet's.
    #[error(
        "epoch {epoch} is for another fabric: {shared} of its {switches} switches are those of the epoch in \
         force; to follow it, give it an empty state directory"
    )]
    OtherFabric {
        /// The epoch.
        epoch: EpochNumber,
        /// Switches that are in both.
        shared: usize,
        /// Switches of the new one.
        switches: usize,
    },
    /// An administrator holds what is in force here.
    #[error("an administrator holds what is in force here: `sarouter resume` ends it")]
    Held,
}

/// Why a round did not end well. What was in force still is.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// Somebody must decide.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The service cannot be asked.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// An epoch has not come.
    #[error(transparent)]
    Incoming(#[from] IncomingError),
    /// An epoch has come that must not be in force.
    #[error(transparent)]
    Received(#[from] ReceivedError),
    /// The store here cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What was followed before is not known.
    #[error(transparent)]
    File(#[from] FileError),
}

impl FollowError {
    /// Whether the answer is no, rather than that the tool failed.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Received(ReceivedError::Rejected { .. }))
    }
}

/// The content of `followed.json`.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Following {
    /// Where the service is.
    pub place: String,
    /// Who it is; `None` before it has answered.
    pub service: Option<Identity>,
    /// When it was last so here as it was there.
    pub agreed: Option<DateTime<Utc>>,
    /// Its hold, as far as it is in force here.
    pub hold: Option<Hold>,
    /// Why it is not so here as it is there.
    pub trouble: Option<String>,
    /// When the next round is due; `None` if each one is started by somebody.
    #[serde(default)]
    pub next: Option<DateTime<Utc>>,
}

/// A round may be late by so much, and takes its time.
const LATE: TimeDelta = TimeDelta::seconds(60);

impl Following {
    /// What a state directory follows, or last followed; `None` if nothing.
    ///
    /// # Errors
    /// If the file cannot be read or is not what it should be.
    pub fn read(store: &EpochStore) -> Result<Option<Self>, FileError> {
        file::read(store.path().join(FOLLOWED_FILE))
    }

    /// What is wrong: what the last round said, or that there are no more.
    pub fn wrong(&self, now: DateTime<Utc>) -> Option<String> {
        let stopped = self.next.filter(|next| now - *next > LATE);
        let stopped = stopped.map(|next| {
            format!("`sarouter follow` has stopped: a round was due at {}", next.format("%FT%TZ"))
        });
        stopped.or_else(|| self.trouble.clone())
    }
}

/// What a round did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "did", rename_all = "snake_case")]
pub enum Did {
    /// The service has published nothing yet.
    Nothing,
    /// It was so already.
    Same {
        /// The epoch in force.
        epoch: EpochNumber,
    },
    /// An epoch was brought, judged and put in force.
    Took {
        /// The epoch in force now.
        epoch: EpochNumber,
        /// That before.
        before: Option<EpochNumber>,
    },
    /// The service went back to an epoch that is here already.
    WentBackTo {
        /// The epoch in force now.
        epoch: EpochNumber,
        /// That before.
        before: Option<EpochNumber>,
    },
}

/// An epoch of the store here.
enum Here {
    Missing,
    Damaged,
    Whole(Box<Epoch>, String),
}

/// Follows one service into one state directory.
pub struct Follower {
    remote: Remote,
    store: EpochStore,
    incoming: Incoming,
    keep: usize,
    /// Between two rounds, if there are more.
    pause: Option<Duration>,
    /// No service and no other follower works here.
    _alone: Serving,
    /// The epoch in force here, once it was read, with its checksums.
    known: Option<(EpochNumber, String)>,
}

impl Follower {
    /// Takes the state directory, which is made if there is none. At most `keep` epochs stay.
    ///
    /// # Errors
    /// If a service or another follower works there, or the access cannot be used.
    pub fn new(access: Access, store: EpochStore, keep: usize) -> Result<Self, FollowError> {
        let remote = Remote::new(access)?;
        drop(store.lock()?);
        let alone = store.serve()?;
        let incoming = Incoming::new(store.path());
        Ok(Self { remote, store, incoming, keep, pause: None, _alone: alone, known: None })
    }

    /// There will be a round after each of these pauses.
    #[must_use]
    pub fn every(self, pause: Duration) -> Self {
        Self { pause: Some(pause), ..self }
    }

    /// One round.
    ///
    /// # Errors
    /// Why it is not so here as it is there; what was in force here still is.
    pub async fn round(&mut self) -> Result<Did, FollowError> {
        let memory = Following::read(&self.store)?;
        let before = memory.as_ref().and_then(|m| m.hold.clone());
        let done = self.make_so(memory.as_ref()).await;
        let (service, hold, trouble, agreed) = match &done {
            Ok((_, there)) => (Some(there.service.clone()), there.hold.clone(), None, Some(Utc::now())),
            Err(error) => {
                let memory = memory.as_ref();
                let trouble = Some(super::chain(error));
                let (service, agreed) =
                    (memory.and_then(|m| m.service.clone()), memory.and_then(|m| m.agreed));
                (service, before.clone(), trouble, agreed)
            }
        };
        let mut writer = self.store.lock()?;
        let held = self.store.hold()?;
        // One of an administrator's that came meanwhile stays: the next round refuses.
        let changes = done.is_ok() && hold != held && (held.is_none() || held == before);
        if changes {
            writer.resume()?;
        }
        let place = self.remote.place().to_string();
        let next = self.pause.and_then(|pause| Some(Utc::now() + TimeDelta::from_std(pause).ok()?));
        // Before it is there a hold is known to be the service's, or the next round would take it for an administrator's.
        let following = Following { place, service, agreed, hold, trouble, next };
        writer.replace(FOLLOWED_FILE, &following)?;
        if changes {
            following.hold.iter().try_for_each(|hold| writer.hold(hold))?;
        }
        done.map(|(did, _)| did)
    }

    async fn make_so(&mut self, memory: Option<&Following>) -> Result<(Did, Followed), FollowError> {
        let there = self.remote.followed().await?;
        let held = self.store.hold()?;
        let is_followed = held == there.hold || held == memory.and_then(|m| m.hold.clone());
        if held.is_some() && !is_followed {
            return Err(Refusal::Held.into());
        }
        let here = self.store.current()?;
        self.continues(&there, here, memory.and_then(|m| m.service.as_ref())).await?;
        let Some(target) = there.current else { return Ok((Did::Nothing, there)) };
        let told = self.remote.files(target).await?.ok_or_else(|| {
            let message = "the epoch in force there is gone".to_string();
            RemoteError::Answer { path: format!("/v1/epochs/{target}/files"), message }
        })?;
        if here == Some(target) && self.known == Some((target, told.sums.clone())) {
            return Ok((Did::Same { epoch: target }, there));
        }
        let did = match self.look(target)? {
            Here::Whole(_, sums) if sums != told.sums => return Err(Refusal::Split { epoch: target }.into()),
            Here::Whole(..) if here == Some(target) => Did::Same { epoch: target },
            Here::Whole(..) => {
                self.store.lock()?.rollback(target)?;
                Did::WentBackTo { epoch: target, before: here }
            }
            Here::Missing | Here::Damaged => {
                self.take(&told, here).await?;
                Did::Took { epoch: target, before: here }
            }
        };
        self.known = Some((target, told.sums));
        Ok((did, there))
    }

    /// Whether the epochs there go on from those here.
    async fn continues(
        &mut self,
        there: &Followed,
        here: Option<EpochNumber>,
        before: Option<&Identity>,
    ) -> Result<(), FollowError> {
        let Some(here) = here else { return Ok(()) };
        let is_same = before == Some(&there.service);
        let sums = self.remote.files(here).await?.map(|told| told.sums);
        let known = self.known.as_ref().filter(|(epoch, _)| *epoch == here).map(|(_, sums)| sums.clone());
        let ours = match known {
            Some(sums) => Some(sums),
            None => match self.look(here)? {
                Here::Whole(_, sums) => Some(sums),
                Here::Missing | Here::Damaged => None,
            },
        };
        match (sums, ours) {
            (Some(theirs), Some(ours)) if theirs == ours => {
                if !is_same {
                    warn!(service = %there.service, epoch = %here, "another service goes on from what is in force here");
                }
                Ok(())
            }
            (Some(_), Some(_)) if is_same => Err(Refusal::Split { epoch: here }.into()),
            (None, _) if is_same && there.newest < Some(here) => {
                Err(Refusal::WentBack { newest: there.newest, here }.into())
            }
            // Deleted there as an old one, or damaged here.
            _ if is_same => Ok(()),
            _ => Err(Refusal::OtherService {
                place: self.remote.place().to_string(),
                now: there.service.clone(),
                before: before.cloned(),
            }
            .into()),
        }
    }

    fn look(&self, epoch: EpochNumber) -> Result<Here, FollowError> {
        match (self.store.epoch(epoch), self.store.sums(epoch)?) {
            (Ok(found), Some(sums)) => Ok(Here::Whole(Box::new(found), sums)),
            (Err(StoreError::NoSuchEpoch { .. }), _) => Ok(Here::Missing),
            _ => Ok(Here::Damaged),
        }
    }

    /// Brings an epoch, judges it and puts it in force.
    async fn take(&mut self, told: &EpochFiles, here: Option<EpochNumber>) -> Result<(), FollowError> {
        let directory = self.incoming.bring(&self.remote, told).await?;
        let judged = self.judge(&directory, told.epoch, here);
        // What is damaged or refused is brought anew the next time.
        let verified = judged.inspect_err(|_| self.incoming.clear())?;
        let mut writer = self.store.lock()?;
        writer.adopt(&verified)?;
        self.incoming.clear();
        writer.collect_garbage(self.keep)?;
        Ok(())
    }

    fn judge(
        &self,
        directory: &std::path::Path,
        number: EpochNumber,
        here: Option<EpochNumber>,
    ) -> Result<crate::verify::Verified<Received>, FollowError> {
        let received = Received::read(directory, number)?;
        let in_force = match here.map(|here| self.look(here)).transpose()? {
            Some(Here::Whole(epoch, _)) => Some(epoch),
            _ => None,
        };
        if let Some(in_force) = &in_force {
            let ours = in_force.switches();
            let theirs = received.epoch().switches();
            let shared = theirs.iter().filter(|guid| ours.binary_search(guid).is_ok()).count();
            if 2 * shared < theirs.len() {
                let refusal = Refusal::OtherFabric { epoch: number, shared, switches: theirs.len() };
                return Err(refusal.into());
            }
        }
        Ok(received.verify(in_force.as_deref())?)
    }
}

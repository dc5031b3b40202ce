//! Which jobs are held, placed and let go: a state machine without clock and without I/O.
//!
//! ```text
//!  tagged, pending ──> Holding ──> Held ──> Placed ──> (starts: forgotten)
//!                        ▲                    │ nodes taken, job changed, not started in time
//!                        └────────────────────┘
//!  deadline, no advice, three vain tries ──> Freed: never held again while it waits
//! ```
//!
//! Level-triggered: every look compares what Slurm says with what is recorded, so a lost command is
//! repeated and a command that came too late does no harm. A record, with its deadline, is on the
//! disk before Slurm is told to hold the job.

use schemars::JsonSchema;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use crate::model::{JobId, NodeName};
use crate::observe::hostlist;
use crate::observe::pending::{Held, Idle, Pending, Wants};
use crate::placement::Insist;

/// Before this in the administrator's comment a job is none of ours: `sarouter:prefer`.
pub const TAG: &str = "sarouter:";

/// How much a tagged job wants a good set; `None` if it is not tagged.
pub fn tag(admin_comment: &str) -> Option<Insist> {
    admin_comment.split([' ', ';']).find_map(|word| word.strip_prefix(TAG)?.parse().ok())
}

/// What an administrator decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// From the first hold on, a job is let go after this.
    pub deadline: TimeDelta,
    /// A job with its nodes set and released should start within this.
    pub start: TimeDelta,
    /// Jobs held at once; 0 lets all go.
    pub most: usize,
}

/// Where a job stands.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Slurm was told to hold it, or is about to be.
    Holding,
    /// Slurm holds it.
    Held,
    /// It was given nodes and released.
    Placed {
        /// The nodes.
        nodes: Vec<NodeName>,
        /// What it wanted then.
        wants: Wants,
        /// Time of the release.
        at: DateTime<Utc>,
    },
    /// Let go without nodes of ours: the batch system chooses.
    Freed,
}

/// A job of ours.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Record {
    /// Where it stands.
    pub phase: Phase,
    /// It is let go at this time at the latest.
    pub deadline: DateTime<Utc>,
    /// Times something had to be repeated.
    pub tries: u32,
    /// Nodes of ours that Slurm may still require for it.
    #[serde(default)]
    pub given: Vec<NodeName>,
    /// Sets given before: the command that took one back may have been lost.
    #[serde(default)]
    pub earlier: Vec<Vec<NodeName>>,
}

/// What one look at Slurm found. The idle nodes were asked for first: a node that is not idle then
/// and a job that is pending later cannot be one and the same event.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// Pending jobs, by id.
    pub jobs: Vec<Pending>,
    /// Idle nodes.
    pub idle: Idle,
    /// Jobs of ours of which Slurm did not say whether they wait: their deadlines go on.
    pub unknown: BTreeSet<JobId>,
}

/// What placement says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advice {
    /// These nodes.
    Nodes(Vec<NodeName>),
    /// Nothing to recommend: let it go.
    Any,
    /// Nothing good now: wait.
    Wait,
}

/// What Slurm is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Hold, as administrator.
    Hold(JobId),
    /// Set the nodes, release.
    Place(JobId, Vec<NodeName>),
    /// Hold again and take the nodes back.
    Take(JobId, &'static str),
    /// Take the nodes back if it has any of ours, release.
    Free(JobId, &'static str),
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hold(job) => write!(f, "hold job {job}"),
            Self::Place(job, nodes) => write!(f, "give job {job} the nodes {}", hostlist::fold(nodes)),
            Self::Take(job, why) => write!(f, "hold job {job} again: {why}"),
            Self::Free(job, why) => write!(f, "release job {job}: {why}"),
        }
    }
}

/// Repetitions after which a job is let go.
const TRIES: u32 = 3;
/// Instead of repetitions, of a job that was let go and has been seen free.
const SEEN_FREE: u32 = u32::MAX;
/// Jobs that may start only later than this are not held yet.
const AHEAD: TimeDelta = TimeDelta::seconds(60);
/// Reasons of Slurm that no waiting mends while our nodes are required.
const HOPELESS: [&str; 4] = ["BadConstraints", "PartitionNodeLimit", "PartitionConfig", "InvalidAccount"];

/// All jobs of ours, by id. This is what is on the disk.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Holds {
    /// By job.
    pub records: BTreeMap<JobId, Record>,
}

impl Holds {
    /// Compares and decides. `advise` gets what a job wants and the idle nodes that would do, at
    /// least as many as it wants. O(jobs × idle nodes).
    pub fn step(
        &mut self,
        now: DateTime<Utc>,
        look: &Look,
        rules: &Rules,
        mut advise: impl FnMut(&Wants, Insist, &[NodeName]) -> Advice,
    ) -> Vec<Act> {
        let pending: BTreeMap<&JobId, &Pending> = look.jobs.iter().map(|j| (&j.id, j)).collect();
        // Started, cancelled or purged.
        self.records.retain(|id, _| pending.contains_key(id) || look.unknown.contains(id));
        let mut acts = self.free_unknown(now, look, rules);
        for job in &look.jobs {
            let Some(insist) = tag(&job.admin_comment).or(self.records.get(&job.id).map(|_| Insist::Prefer))
            else {
                continue;
            };
            if !self.records.contains_key(&job.id) {
                acts.extend(self.begin(now, job, rules));
                continue;
            }
            let reserved = self.reserved(&job.id);
            let Some(record) = self.records.get_mut(&job.id) else { continue };
            let act = record.go_on(now, job, look, rules);
            let act = match act {
                Next::Do(act) => Some(act),
                Next::Stay => None,
                Next::Decide => {
                    record.phase = Phase::Held;
                    decide(record, now, job, &look.idle, &reserved, |candidates| {
                        advise(&job.wants, insist, candidates)
                    })
                }
            };
            acts.extend(act);
        }
        acts
    }

    /// Lets go of jobs of which nothing is known at their deadline; some more times, as what came of it is not seen either.
    fn free_unknown(&mut self, now: DateTime<Utc>, look: &Look, rules: &Rules) -> Vec<Act> {
        let unknown = self.records.iter_mut().filter(|(id, _)| look.unknown.contains(*id));
        let free = |(id, record): (&JobId, &mut Record)| match record.phase {
            Phase::Freed if record.tries >= TRIES => None,
            Phase::Freed => {
                record.tries += 1;
                Some(Act::Free(id.clone(), "it may not be free yet"))
            }
            _ => record.is_over(now, rules).then(|| record.let_go(id, "its deadline has passed")),
        };
        unknown.filter_map(free).collect()
    }

    /// Nodes promised to other jobs.
    fn reserved(&self, except: &JobId) -> BTreeSet<NodeName> {
        let others = self.records.iter().filter(|(id, _)| *id != except);
        others
            .flat_map(|(_, record)| match &record.phase {
                Phase::Placed { nodes, .. } => nodes.clone(),
                _ => Vec::new(),
            })
            .collect()
    }

    fn begin(&mut self, now: DateTime<Utc>, job: &Pending, rules: &Rules) -> Option<Act> {
        let held = self.records.values().filter(|r| r.phase != Phase::Freed).count();
        let soon = job.eligible.is_some_and(|at| at <= now + AHEAD);
        let placeable = job.simple && job.required.is_empty() && job.wants.nodes > 1;
        if held >= rules.most || job.held.is_some() || !soon || !placeable || job.reason == "Dependency" {
            return None;
        }
        let record = Record {
            phase: Phase::Holding,
            deadline: now + rules.deadline,
            tries: 0,
            given: Vec::new(),
            earlier: Vec::new(),
        };
        self.records.insert(job.id.clone(), record);
        Some(Act::Hold(job.id.clone()))
    }

    /// Acts that let go of everything, or of what is due at `now`: the service ends, or is not
    /// there. The records stay as they are.
    pub fn close(&self, now: Option<DateTime<Utc>>) -> Vec<Act> {
        let due = |r: &&Record| now.is_none_or(|now| now >= r.deadline);
        let free = |r: &Record| r.phase == Phase::Freed && r.tries == SEEN_FREE;
        let open = self.records.iter().filter(|(_, r)| due(r) && !free(r));
        open.map(|(id, _)| Act::Free(id.clone(), "nobody watches over it")).collect()
    }
}

/// What becomes of a record.
enum Next {
    Do(Act),
    Stay,
    Decide,
}

impl Record {
    /// Whether it is to be let go.
    fn is_over(&self, now: DateTime<Utc>, rules: &Rules) -> bool {
        now >= self.deadline || rules.most == 0
    }

    fn let_go(&mut self, id: &JobId, why: &'static str) -> Act {
        self.phase = Phase::Freed;
        self.tries = 0;
        Act::Free(id.clone(), why)
    }

    fn free(&mut self, id: &JobId, why: &'static str) -> Next {
        Next::Do(self.let_go(id, why))
    }

    fn go_on(&mut self, now: DateTime<Utc>, job: &Pending, look: &Look, rules: &Rules) -> Next {
        match self.phase.clone() {
            Phase::Freed => {
                // A command was lost, however often: nobody else would let the job go. Once it was
                // seen free, a hold is somebody else's.
                let ours = !job.required.is_empty()
                    && self.earlier.iter().chain([&self.given]).any(|set| same(&job.required, set));
                let lost = job.held == Some(Held::Admin) || (ours && job.held.is_none());
                if lost && self.tries != SEEN_FREE {
                    return Next::Do(Act::Free(job.id.clone(), "it is not free yet"));
                }
                self.tries = SEEN_FREE;
                Next::Stay
            }
            _ if self.is_over(now, rules) => self.free(&job.id, "its deadline has passed"),
            Phase::Holding if job.held.is_none() => {
                self.tries += 1;
                if self.tries > TRIES {
                    return self.free(&job.id, "it cannot be held");
                }
                Next::Do(Act::Hold(job.id.clone()))
            }
            Phase::Held if job.held.is_none() => {
                // Somebody released it: so be it.
                self.phase = Phase::Freed;
                self.tries = 0;
                Next::Stay
            }
            // Its owner's own hold is not ours to break.
            Phase::Holding | Phase::Held if job.held == Some(Held::User) => {
                self.phase = Phase::Freed;
                Next::Stay
            }
            Phase::Holding | Phase::Held => Next::Decide,
            Phase::Placed { nodes, wants, at } => self.placed(now, job, look, rules, (nodes, wants, at)),
        }
    }

    fn placed(
        &mut self,
        now: DateTime<Utc>,
        job: &Pending,
        look: &Look,
        rules: &Rules,
        (nodes, wants, at): (Vec<NodeName>, Wants, DateTime<Utc>),
    ) -> Next {
        if HOPELESS.contains(&job.reason.as_str()) {
            return self.free(&job.id, "Slurm refuses the nodes");
        }
        let idle: BTreeSet<&NodeName> = look.idle.values().flatten().map(|(node, _)| node).collect();
        let why = if wants != job.wants {
            "the job was changed"
        } else if !nodes.iter().all(|n| idle.contains(n)) {
            "its nodes were taken"
        } else if now - at > rules.start {
            "it has not started"
        } else if job.held == Some(Held::Admin) || !same(&job.required, &nodes) {
            // One of the two commands was lost.
            self.tries += 1;
            if self.tries > TRIES {
                return self.free(&job.id, "it cannot be given nodes");
            }
            return Next::Do(Act::Place(job.id.clone(), nodes));
        } else {
            return Next::Stay;
        };
        self.tries += 1;
        if self.tries > TRIES {
            return self.free(&job.id, why);
        }
        self.phase = Phase::Holding;
        Next::Do(Act::Take(job.id.clone(), why))
    }
}

fn same(a: &[NodeName], b: &[NodeName]) -> bool {
    a.iter().collect::<BTreeSet<_>>() == b.iter().collect::<BTreeSet<_>>()
}

/// Places a held job if there are enough nodes and placement has something to say.
fn decide(
    record: &mut Record,
    now: DateTime<Utc>,
    job: &Pending,
    idle: &Idle,
    reserved: &BTreeSet<NodeName>,
    advise: impl FnOnce(&[NodeName]) -> Advice,
) -> Option<Act> {
    let free = |record: &mut Record, why| Some(record.let_go(&job.id, why));
    let Some(mut candidates) = job.wants.candidates(idle) else {
        return free(record, "it asks for more than placement understands");
    };
    candidates.retain(|node| !reserved.contains(node));
    if candidates.len() < job.wants.nodes {
        return None;
    }
    match advise(&candidates) {
        Advice::Wait => None,
        Advice::Any => free(record, "no set of nodes is recommended"),
        Advice::Nodes(nodes) => {
            let before = std::mem::replace(&mut record.given, nodes.clone());
            if !before.is_empty() && !record.earlier.contains(&before) {
                record.earlier.push(before);
            }
            record.phase = Phase::Placed { nodes: nodes.clone(), wants: job.wants.clone(), at: now };
            Some(Act::Place(job.id.clone(), nodes))
        }
    }
}

#[cfg(test)]
mod tests;

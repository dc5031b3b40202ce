//! Tells Slurm, and asks it: `scontrol` and `sinfo` as bounded child processes.

use std::collections::BTreeSet;

use tracing::info;

use super::hold::{Act, Look};
use super::said::Said;
use crate::config::Placement;
use crate::model::{JobId, NodeName};
use crate::observe::child::{BoundedCommand, ChildError};
use crate::observe::pending::{self, Idle, Listed, Pending, SCONTROL_ARGUMENTS, SINFO_ARGUMENTS};
use crate::observe::source::PollError;

/// Jobs that are asked about alone in one look.
const MOST_ASKED: usize = 50;

/// Commands of Slurm for placement.
#[derive(Debug, Clone)]
pub struct Control {
    settings: Placement,
}

impl Control {
    /// With the programs and bounds of the settings.
    pub fn new(settings: Placement) -> Self {
        Self { settings }
    }

    async fn run(&self, program: &str, arguments: &[&str]) -> Result<String, ChildError> {
        let argv = std::iter::once(&program).chain(arguments).map(|s| (*s).to_string()).collect();
        let command = BoundedCommand {
            argv,
            environment: vec![("SLURM_TIME_FORMAT".to_string(), "%s".to_string())],
            deadline: self.settings.command_deadline,
            output_limit: self.settings.output_limit,
        };
        command.output().await
    }

    /// Idle nodes.
    ///
    /// # Errors
    /// If Slurm does not answer or is not understood.
    pub async fn idle(&self) -> Result<Idle, PollError> {
        let sinfo = &self.settings.sinfo;
        Ok(pending::idle(&self.run(sinfo, &SINFO_ARGUMENTS).await?, sinfo)?)
    }

    /// Idle nodes, then pending jobs: in this order (see [`Look`]). Of `ours` each is known or `unknown`, whatever the
    /// list of all jobs says: what users write there can hide others' lines.
    ///
    /// # Errors
    /// If Slurm does not answer or is not understood.
    pub async fn look(&self, ours: &BTreeSet<JobId>, said: &mut Said) -> Result<Look, PollError> {
        said.begin();
        let idle = self.idle().await?;
        let scontrol = &self.settings.scontrol;
        let Listed { mut jobs, twice, wrong } =
            pending::jobs(&self.run(scontrol, &SCONTROL_ARGUMENTS).await?, scontrol)?;
        wrong.iter().for_each(|wrong| said.say(format!("a job is passed over: {wrong}")));
        if !twice.is_empty() {
            let ids = twice.iter().map(JobId::as_str).collect::<Vec<_>>().join(", ");
            said.say(format!(
                "a name or comment of a job has new lines in it and looks like other jobs: {ids}"
            ));
        }
        let listed: BTreeSet<&JobId> = jobs.iter().map(|job| &job.id).collect();
        let mut unknown: BTreeSet<JobId> = ours.iter().filter(|id| !listed.contains(id)).cloned().collect();
        let others = twice.into_iter().filter(|id| !ours.contains(id));
        for id in unknown.clone().into_iter().chain(others).take(MOST_ASKED) {
            match self.one(&id).await {
                Ok(job) => {
                    unknown.remove(&id);
                    jobs.extend(job);
                }
                Err(error) => said.say(format!("job {id} is passed over: {error}")),
            }
        }
        pending::sort(&mut jobs);
        Ok(Look { jobs, idle, unknown })
    }

    /// One job, asked about alone; `None` if it does not wait.
    async fn one(&self, id: &JobId) -> Result<Option<Pending>, PollError> {
        let scontrol = &self.settings.scontrol;
        match self.run(scontrol, &[&SCONTROL_ARGUMENTS[..], &[id.as_str()]].concat()).await {
            Ok(text) => Ok(pending::one(id, &text, scontrol)?),
            // It has ended, and Slurm has forgotten it.
            Err(ChildError::Failed { stderr, .. }) if stderr.contains("Invalid job id") => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn update(&self, job: &JobId, nodes: &[NodeName]) -> Result<(), ChildError> {
        let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
        let (job, list) = (format!("JobId={job}"), format!("ReqNodeList={}", names.join(",")));
        let mut words = vec!["update", &job, &list];
        if !nodes.is_empty() {
            // The rule that tagged it may have put its start off until we have seen it.
            words.push("StartTime=now");
        }
        self.run(&self.settings.scontrol, &words).await.map(drop)
    }

    async fn tell(&self, verb: &str, job: &JobId) -> Result<(), ChildError> {
        self.run(&self.settings.scontrol, &[verb, job.as_str()]).await.map(drop)
    }

    /// Does what was decided. Of several commands a failing one leaves out the rest; the next look
    /// sees what is missing.
    ///
    /// # Errors
    /// What Slurm said.
    pub async fn act(&self, act: &Act) -> Result<(), ChildError> {
        match act {
            Act::Hold(job) => {
                info!(%job, "holding");
                self.tell("hold", job).await
            }
            Act::Place(job, nodes) => {
                info!(%job, nodes = nodes.len(), "placing");
                self.update(job, nodes).await?;
                self.tell("release", job).await
            }
            Act::Take(job, why) => {
                info!(%job, why, "placing again");
                self.tell("hold", job).await?;
                self.update(job, &[]).await
            }
            Act::Free(job, why) => {
                info!(%job, why, "letting go");
                let cleared = self.update(job, &[]).await;
                // Released all the same: rather on nodes of ours than held for ever.
                self.tell("release", job).await.and(cleared)
            }
        }
    }
}

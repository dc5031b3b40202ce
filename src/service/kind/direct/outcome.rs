//! What the service of a direct torus does with tables that were computed.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::Utc;
use tracing::warn;

use super::history::Change;
use super::kept::TORUS_FILE;
use super::work::{Computed, Published, Running, Tables, Written};
use super::{DirectKind, Done, Newest, TOO_LATE, cannot_go_on};
use crate::model::JobId;
use crate::observe::source::PollError;
use crate::pass::plan::Reason;
use crate::pass::torus::Cut;
use crate::publish::job;
use crate::publish::{HistoryRow, Turnover};
use crate::service::chain;
use crate::service::clock::steady;
use crate::service::handoff::{Outcome, StartId};
use crate::service::health::{Failure, Kind, Stage, TorusHealth, Trouble};
use crate::service::pass::milliseconds;
use crate::service::run::Service;

impl Service<DirectKind> {
    /// Something beside the loop ended.
    pub(super) fn came(&mut self, done: Done) {
        match done {
            Done::Computed(computed) => {
                let was_well = self.kind.torus_well;
                self.kind.torus_well = !matches!(&computed, Some(computed) if computed.result.is_err());
                if self.kind.torus_well && !was_well {
                    self.well();
                }
                if let Some(Computed { starts, result }) = computed.map(|computed| *computed) {
                    self.use_tables(starts, result);
                }
            }
            Done::Published(published) => self.published(published),
            Done::Polled(batch, jobs) => {
                self.kind.batch = Some(self.kind.next_batch.take().unwrap_or(batch));
                return self.polled(jobs);
            }
            Done::PollAborted => {
                // The source went with the panic: another one asks from now on.
                let batch = self.kind.next_batch.take();
                self.kind.batch = Some(batch.unwrap_or_else(|| self.beside.jobs(&self.settings)));
                return self.polled(Err(PollError::Aborted));
            }
            Done::Brought(id, result) => self.brought(id, result),
            Done::Remembered(load) => return self.written(load),
            Done::Aborted => {}
        }
        self.write_health();
    }

    fn use_tables(&mut self, starts: Vec<StartId>, result: Result<Tables, String>) {
        match result {
            Ok(tables) => self.computed(starts, tables),
            Err(message) if starts.is_empty() => {
                warn!("{message}");
                self.health.failed(Failure { time: Utc::now(), stage: Stage::Route, message });
            }
            Err(message) => starts.iter().for_each(|start| self.unrouted(start, &message)),
        }
    }

    /// Has written what is still wanted.
    pub(super) fn computed(&mut self, starts: Vec<StartId>, mut tables: Tables) {
        // Without those that ended meanwhile.
        tables.found.retain(|id, _| self.jobs_root.join(id.as_str()).is_dir());
        self.kind.running.append(&mut tables.found);
        (self.kind.unread, self.kind.is_new) = (false, false);
        if tables.reshaped {
            self.forget(|_| true);
        }
        for (id, why) in &tables.plan.refused {
            starts.iter().filter(|start| start.job == *id).for_each(|start| self.unrouted(start, why));
        }
        let jobs = &tables.plan.tables.get().demand.jobs;
        let wanted = |number: &usize| {
            // What nobody waits for any more is not put under a running job.
            let Some(id) = &jobs[*number].id else { return false };
            match starts.iter().find(|start| start.job == *id) {
                Some(start) => self.waiting.handoff.is_waiting(start),
                None => self.health.held.is_none() && self.kind.running.contains_key(id),
            }
        };
        let (wanted, others): (Vec<usize>, Vec<usize>) =
            tables.plan.changed.iter().copied().partition(wanted);
        let waits = |id: &&JobId| self.kind.running.contains_key(*id) && starts.iter().all(|s| s.job != **id);
        let unmended = others.iter().filter_map(|n| jobs[*n].id.as_ref()).filter(waits).cloned().collect();
        let before = std::mem::replace(&mut self.kind.unmended, unmended);
        let cuts = std::mem::take(&mut tables.plan.cut);
        let mut known = self.health.torus.take().unwrap_or_default();
        // What failed under the others works again.
        known.cut.retain(|id, _| !before.contains(id) || cuts.iter().any(|cut| cut.job == *id));
        let (sizes, jobs) = (tables.site.torus.size_text(), self.kind.running.len());
        self.health.torus = Some(TorusHealth { sizes, jobs, load_max: tables.max, ..known });
        self.kind.site = Some(tables.site.clone());
        self.kind.torus = Some(Arc::new(tables.site.torus.clone()));
        self.tell_neighbours();
        self.kind.took = tables.took;
        self.record_torus(&tables.text);
        self.kind.engine.clone_from(&tables.plan.tables.get().engine);
        let (root, store, site) = (self.jobs_root.clone(), self.store.clone(), self.kind.site_text());
        self.kind.late = Arc::default();
        let late = Arc::clone(&self.kind.late);
        self.kind.working.spawn_blocking(move || {
            // Before the tables, which are around what has failed.
            if let Err(error) = store.put(TORUS_FILE, &site) {
                warn!("{}", chain(&error));
            }
            let goes_without = |id: &JobId| late.lock().is_ok_and(|late| late.contains(id));
            let (written, failed) = tables.publish(&root, &wanted, &|id| !goes_without(id));
            Done::Published(Published { starts, searched: tables.searched, cuts, written, failed })
        });
    }

    pub(super) fn published(&mut self, published: Published) {
        let Published { starts, searched, cuts, written, failed } = published;
        let wrote = !written.is_empty();
        let before = self.kind.running.clone();
        let (mut jobs_in, mut mended, mut made) = (Vec::new(), Vec::new(), BTreeMap::new());
        for Written { id, job, digest } in written {
            match starts.iter().find(|start| start.job == id) {
                Some(start) if self.waiting.handoff.is_waiting(start) => {
                    self.waiting.handoff.served(steady(), start, Outcome::InForce);
                    jobs_in.push(id.clone());
                }
                None if self.kind.running.contains_key(&id) => mended.push(id.clone()),
                // Let go meanwhile: its nodes may have begun without these tables.
                Some(_) if self.waiting.handoff.jobs().any(|job| *job == id) => {
                    self.tell(&id, TOO_LATE);
                    continue;
                }
                // It ended meanwhile.
                _ => {
                    self.warn_of(job::remove(&self.jobs_root, &id).err());
                    continue;
                }
            }
            made.insert(id.clone(), digest);
            self.kind.running.insert(id, job);
        }
        self.record_tables(searched, made);
        for (id, why) in &failed {
            match starts.iter().find(|start| start.job == *id) {
                Some(start) => self.unrouted(start, why),
                None => self.unmended(id, why),
            }
        }
        let again = self.note_cuts(&cuts, &failed);
        if !mended.is_empty() || !jobs_in.is_empty() {
            let reason = if jobs_in.is_empty() { Reason::FabricChanged } else { Reason::JobsChanged };
            let milliseconds = milliseconds(self.kind.took);
            self.health.published += 1;
            self.changed(reason, before, Turnover { jobs_in, jobs_out: Vec::new() }, milliseconds);
        }
        if wrote && failed.is_empty() {
            self.well();
        }
        mended.extend(again);
        self.bring(mended);
        if let Some(torus) = &mut self.health.torus {
            torus.jobs = self.kind.running.len();
        }
    }

    /// A job that starts cannot have tables.
    pub(super) fn unrouted(&mut self, start: &StartId, why: &str) {
        warn!(job = %start.job, "no tables: {why}");
        let message = format!("job {}: {why}", start.job);
        self.health.failed(Failure { time: Utc::now(), stage: Stage::Route, message });
        if self.waiting.handoff.is_waiting(start) {
            self.tell(&start.job, why);
            self.waiting.handoff.served(steady(), start, Outcome::Unrouted);
        }
    }

    /// The new tables of a job that runs could not be written. The next look has them computed again.
    fn unmended(&mut self, id: &JobId, why: &str) {
        if self.kind.running.contains_key(id) {
            let message = format!("the new tables of job {id} could not be written: {why}");
            warn!("{message}");
            self.health.failed(Failure { time: Utc::now(), stage: Stage::Publish, message });
            self.kind.unmended.insert(id.clone());
        }
    }

    /// Tells whom failures touched. Nodes have their tables since the job's start: new ones are for a command of the
    /// site to bring there ([`Self::bring`]), or for a person. Returns jobs that could not go on before a repair, and
    /// whose nodes still want their new tables of before.
    fn note_cuts(&mut self, cuts: &[Cut], failed: &[(JobId, String)]) -> Vec<JobId> {
        let torus = self.health.torus.get_or_insert_default();
        let mut before = std::mem::take(&mut self.kind.lost);
        for Cut { job, .. } in cuts.iter().filter(|cut| cut.lost.is_some()) {
            let told = before.remove(job).unwrap_or_else(|| torus.cut.get(job).cloned());
            self.kind.lost.insert(job.clone(), told);
        }
        let lost = &self.kind.lost;
        self.kind.bringing.forget(|id| lost.contains_key(id));
        before.keys().for_each(|id| drop(torus.cut.remove(id)));
        let again = before.into_iter().filter_map(|(id, told)| Some((id, told?)));
        let again: Vec<(JobId, Trouble)> =
            again.filter(|(id, _)| self.kind.running.contains_key(id)).collect();
        torus.cut.extend(again.iter().cloned());
        let cuts = cuts.iter().filter(|cut| self.kind.running.contains_key(&cut.job));
        for Cut { job, routes, lost } in cuts {
            let led = format!("{routes} routes of job {job} led over what has failed");
            let text = match (lost, failed.iter().find(|(id, _)| id == job)) {
                (Some(why), _) => format!("{}, requeue it: {why}", cannot_go_on(job)),
                (None, Some((_, why))) => {
                    format!("{led}: its new tables could not be written, and are tried again: {why}")
                }
                (None, None) if self.kind.unmended.contains(job) => {
                    format!("{led}: it gets new tables when the hold is over, or requeue it")
                }
                (None, None) => format!(
                    "{led}: install its new tables, {}, on its nodes, or requeue it",
                    self.jobs_root.join(job.as_str()).display()
                ),
            };
            if torus.cut.get(job).is_none_or(|known| known.text != text) {
                warn!("{text}");
                torus.cut.insert(job.clone(), Trouble { kind: Kind::JobsCut, since: Utc::now(), text });
            }
        }
        again.into_iter().map(|(id, _)| id).collect()
    }

    /// Forgets running jobs that are over.
    pub(super) fn forget(&mut self, over: impl Fn(&JobId) -> bool) {
        let before = self.kind.running.clone();
        self.kind.running.retain(|id, _| !over(id));
        self.kind.unmended.retain(|id| !over(id));
        self.kind.lost.retain(|id, _| !over(id));
        self.kind.bringing.forget(&over);
        let jobs_out: Vec<JobId> =
            before.keys().filter(|id| !self.kind.running.contains_key(*id)).cloned().collect();
        if !jobs_out.is_empty() {
            self.record_over(&jobs_out);
            let turnover = Turnover { jobs_in: Vec::new(), jobs_out };
            self.changed(Reason::JobsChanged, before, turnover, 0.0);
        }
        if let Some(torus) = &mut self.health.torus {
            torus.cut.retain(|id, _| !over(id));
            torus.jobs = self.kind.running.len();
        }
    }

    /// Notes a change of tables for the history, and for those who ask.
    fn changed(&mut self, reason: Reason, before: Running, turnover: Turnover, milliseconds: f64) {
        let Some(torus) = self.kind.torus.clone() else { return };
        let (time, engine, after) = (Utc::now(), self.kind.engine.clone(), self.kind.running.clone());
        let first = self.kind.chronicle.newest().is_none();
        let reason = if first { Reason::First } else { reason };
        let known = Some(before.clone());
        let change =
            Change { time, reason, engine: engine.clone(), torus, before, after, turnover, milliseconds };
        let epoch = self.kind.chronicle.change(change);
        self.health.epoch = Some(epoch.get());
        self.kind.newest = Some(Newest { epoch, time, reason, engine, before: known });
    }

    /// The history was written.
    pub(super) fn written(&mut self, load: Option<u64>) {
        if let (Some(load), Some(torus)) = (load, &mut self.health.torus) {
            torus.load_max = u32::try_from(load).unwrap_or(u32::MAX);
        }
    }

    /// Goes on where the history ends. Tables that were found and are not in it begin it.
    pub(super) fn go_on(&mut self) {
        match self.kind.chronicle.newest_row() {
            Some(row) => {
                let HistoryRow { epoch, created, reason, engine, .. } = row;
                self.health.epoch = Some(epoch.get());
                self.kind.newest = Some(Newest { epoch, time: created, reason, engine, before: None });
            }
            None if self.kind.running.is_empty() => {}
            None => {
                let jobs_in = self.kind.running.keys().cloned().collect();
                let turnover = Turnover { jobs_in, jobs_out: Vec::new() };
                self.changed(Reason::First, Running::new(), turnover, 0.0);
            }
        }
    }
}

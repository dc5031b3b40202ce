//! The lines of a direct torus fed back: the same computations, by the service's own code, into the jobs'
//! directories of another state directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Line;
use super::direct::{SiteText, StartLine};
use super::replay::Replayed;
use crate::model::JobId;
use crate::observe::torus_toml;
use crate::pass::torus::Site;
use crate::publish::EpochStore;
use crate::publish::job::{self, JOBS_DIRECTORY};
use crate::service::chain;
use crate::service::handoff::StartId;
use crate::service::kind::direct::work::{Limit, Running, Source, Work, found};

/// The service of a direct torus without clock and outside.
pub(super) struct DirectReplay {
    /// The jobs' directories.
    root: PathBuf,
    /// What the newest computation read.
    text: String,
    site: Option<Site>,
    running: Running,
    /// The torus could not be read yet, so neither could the tables of jobs.
    unread: bool,
    /// A computation that has not come to its end.
    pending: Option<Work>,
}

impl DirectReplay {
    pub(super) fn new(store: &EpochStore) -> Self {
        let root = store.path().join(JOBS_DIRECTORY);
        Self { root, text: String::new(), site: None, running: Running::new(), unread: false, pending: None }
    }

    /// `base`: tables that count instead of those here.
    pub(super) fn handle(
        &mut self,
        line: Line,
        base: Option<&Path>,
        replayed: &mut Replayed,
    ) -> Result<(), String> {
        match line {
            Line::Standing { site, jobs } => self.stand(site, &jobs, base, replayed),
            Line::Compute { engines, starts, .. } => {
                let start = |s: StartLine| StartId::new(s.job, 0, s.nodes).exchanging(s.traffic);
                let starts = starts.into_iter().map(start).collect();
                let (source, limit) = (Source::Text(String::new()), Limit::Asked(None));
                let (site, running) = (self.site.clone(), self.running.clone());
                let (unread, elsewhere) = (self.unread.then(|| self.root.clone()), BTreeSet::new());
                self.pending = Some(Work {
                    source,
                    engines,
                    site,
                    again: true,
                    running,
                    unread,
                    starts,
                    elsewhere,
                    limit,
                });
                replayed.looks += 1;
                Ok(())
            }
            Line::Torus { text } => {
                self.text = text;
                Ok(())
            }
            Line::Tables { searched, made, .. } => {
                self.tables(searched, &made, replayed);
                Ok(())
            }
            Line::Over { jobs, .. } => {
                for id in jobs {
                    self.running.remove(&id);
                    job::remove(&self.root, &id).map_err(|e| chain(&e))?;
                }
                Ok(())
            }
            _ => Err("a line of a switched fabric".into()),
        }
    }

    /// A process or a file begins.
    fn stand(
        &mut self,
        site: SiteText,
        jobs: &BTreeMap<JobId, String>,
        base: Option<&Path>,
        replayed: &mut Replayed,
    ) -> Result<(), String> {
        if let Some(base) = base {
            adopt(base, &self.root).map_err(|e| format!("{}: {e}", base.display()))?;
        }
        // Written, but the process ended before it was recorded.
        let made: BTreeMap<_, _> = jobs.iter().filter(|(id, _)| !self.running.contains_key(id)).collect();
        let made = made.into_iter().map(|(id, digest)| (id.clone(), digest.clone())).collect();
        if self.pending.as_ref().is_some_and(|work| work.starts.iter().any(|s| jobs.contains_key(&s.job))) {
            self.tables(None, &made, replayed);
        }
        self.pending = None;
        for id in job::published(&self.root).map_err(|e| chain(&e))? {
            if !jobs.contains_key(&id) {
                job::remove(&self.root, &id).map_err(|e| chain(&e))?;
            }
        }
        for (id, digest) in jobs {
            if job::digest(&self.root, id).as_ref() != Some(digest) {
                replayed.differs(format!("the tables of job {id} are others here"));
            }
        }
        self.running = Running::new();
        self.unread = site.text.is_empty();
        if site.text.is_empty() {
            return Ok(());
        }
        let source = torus_toml::of_text(Path::new("the torus of the recording"), &site.text);
        let source = source.map_err(|e| chain(&e))?;
        self.running = found(&self.root, &source.torus);
        self.site = site.site(source)?;
        self.text = site.text;
        Ok(())
    }

    /// Repeats a computation, and compares what it made with what was made.
    fn tables(&mut self, searched: Option<u32>, made: &BTreeMap<JobId, String>, replayed: &mut Replayed) {
        replayed.recorded += made.len() as u64;
        let Some(work) = self.pending.take() else {
            return replayed.differs("tables were made, here nothing was computed".into());
        };
        let work = Work { source: Source::Text(self.text.clone()), limit: Limit::Asked(searched), ..work };
        let tables = match work.run().map(|computed| computed.result) {
            Some(Ok(tables)) => tables,
            Some(Err(error)) => return replayed.differs(format!("a computation fails here: {error}")),
            None => return replayed.differs("tables were made, here none were due".into()),
        };
        let jobs = &tables.plan.tables.get().demand.jobs;
        let was_made = |number: &usize| jobs[*number].id.as_ref().is_some_and(|id| made.contains_key(id));
        let numbers: Vec<usize> = tables.plan.changed.iter().copied().filter(was_made).collect();
        let (written, failed) = tables.publish(&self.root, &numbers, &|_| true);
        failed.into_iter().for_each(|(id, why)| replayed.differs(format!("the tables of job {id}: {why}")));
        for written in &written {
            match made.get(&written.id) == Some(&written.digest) {
                true => replayed.same += 1,
                false => replayed.differs(format!("the tables of job {} are others here", written.id)),
            }
        }
        for id in made.keys().filter(|id| !written.iter().any(|written| written.id == **id)) {
            replayed.differs(format!("job {id} got tables, here it gets none"));
        }
        self.running.extend(tables.found);
        self.unread = false;
        self.running.extend(written.into_iter().map(|written| (written.id, written.job)));
        self.site = Some(tables.site);
    }
}

/// Puts tables in the place of those that are there.
fn adopt(base: &Path, root: &Path) -> io::Result<()> {
    let _ = fs::remove_dir_all(root);
    fs::create_dir_all(root)?;
    for job in fs::read_dir(base)? {
        let job = job?;
        let to = root.join(job.file_name());
        fs::create_dir(&to)?;
        for file in fs::read_dir(job.path())? {
            let file = file?;
            fs::copy(file.path(), to.join(file.file_name()))?;
        }
    }
    Ok(())
}

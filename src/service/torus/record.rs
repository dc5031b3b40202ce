//! What the service of a direct torus records: enough to make the same tables again.

use std::collections::BTreeMap;
use std::io;

use chrono::Utc;

use super::TorusService;
use crate::model::{Direction, JobId};
use crate::observe::torus_toml;
use crate::service::record::direct::{SiteText, StartLine};
use crate::service::record::{Line, Recorder, note};
use crate::service::run::reload::rhythm;

impl TorusService {
    /// Records as the settings say; `gap`: something was not recorded before.
    pub(super) fn follow_record(&mut self, gap: bool) -> io::Result<()> {
        let rhythm = rhythm(&self.settings);
        let Some(bounds) = self.settings.record else {
            self.recorder = None;
            self.health.unrecorded = None;
            return Ok(());
        };
        let now = Utc::now();
        match &mut self.recorder {
            Some(recorder) => recorder.follow(rhythm, bounds),
            None => {
                let site = self.site_text();
                let root = self.jobs_root.clone();
                self.recorder =
                    Some(Recorder::open_direct(&self.store, bounds, rhythm, gap, now, (root, site))?);
            }
        }
        Ok(())
    }

    /// The torus of now, and what of it waits with what is broken.
    fn site_text(&self) -> SiteText {
        let text = self
            .torus_text
            .clone()
            .unwrap_or_else(|| torus_toml::load(&self.source).map(|source| source.text).unwrap_or_default());
        let closed = self.site.as_ref().map(|site| {
            let closed = |node| site.torus.exits(node) & !site.steady.exits(node);
            let all = site.torus.nodes().flat_map(|n| Direction::all().map(move |d| (n, d)));
            let closed = all.filter(|(n, d)| closed(*n) & d.bit() != 0);
            closed.map(|(n, d)| format!("{}{d}", site.torus.coords(n))).collect()
        });
        SiteText { text, closed }
    }

    /// Writes into the recording, if there is one.
    pub(super) fn record(&mut self, write: impl FnOnce(&mut Recorder) -> io::Result<()>) {
        if let Some(recorder) = &mut self.recorder {
            note(&mut self.health, write(recorder));
        }
    }

    pub(super) fn record_compute(&mut self) {
        if self.recorder.is_none() {
            return;
        }
        let start = |start: &crate::service::handoff::StartId| StartLine {
            job: start.job.clone(),
            nodes: start.nodes.clone(),
            traffic: start.traffic.clone(),
        };
        let starts = self.starts.iter().map(start).collect();
        let engines = super::engines(&self.settings).unwrap_or_default();
        let (time, site) = (Utc::now(), self.site_text());
        self.record(|recorder| recorder.compute(Line::Compute { time, engines, starts }, time, site));
    }

    /// The torus that a computation read.
    pub(super) fn record_torus(&mut self, text: &str) {
        if self.torus_text.as_deref() != Some(text) {
            self.torus_text = Some(text.to_string());
            self.record(|recorder| recorder.line(&Line::Torus { text: text.to_string() }));
        }
    }

    pub(super) fn record_tables(&mut self, searched: Option<u32>, made: BTreeMap<JobId, String>) {
        let time = Utc::now();
        self.record(|recorder| recorder.line(&Line::Tables { time, searched, made }));
    }

    pub(super) fn record_over(&mut self, jobs: &[JobId]) {
        let (time, jobs) = (Utc::now(), jobs.to_vec());
        self.record(|recorder| recorder.line(&Line::Over { time, jobs }));
    }
}

//! What the service of a direct torus records: enough to make the same tables again.

use std::collections::{BTreeMap, BTreeSet};

use chrono::Utc;

use super::DirectKind;
use crate::model::{Direction, JobId, NodeName};
use crate::observe::torus_toml;
use crate::service::handoff::StartId;
use crate::service::record::Line;
use crate::service::record::direct::{SiteText, StartLine};
use crate::service::run::Service;

impl DirectKind {
    /// The torus of now, and what of it waits with what is broken.
    pub(super) fn site_text(&self) -> SiteText {
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
}

impl Service<DirectKind> {
    fn note(&mut self, line: &Line) {
        if self.may_record(false) {
            self.record(|recorder| recorder.line(line));
        }
    }

    /// Without the nodes that are not of this torus.
    pub(super) fn record_compute(&mut self, elsewhere: &BTreeSet<NodeName>) {
        if !self.may_record(true) || self.recorder.is_none() {
            return;
        }
        let start = |start: &StartId| StartLine {
            job: start.job.clone(),
            nodes: start.together().iter().filter(|node| !elsewhere.contains(*node)).cloned().collect(),
            traffic: start.traffic.clone(),
        };
        let starts = self.kind.starts.iter().map(start).collect();
        let engines = super::engines(&self.settings).unwrap_or_default();
        let (time, site) = (Utc::now(), self.kind.site_text());
        self.record(|recorder| recorder.compute(Line::Compute { time, engines, starts }, time, site));
    }

    /// The torus that a computation read.
    pub(super) fn record_torus(&mut self, text: &str) {
        if self.kind.torus_text.as_deref() != Some(text) {
            self.kind.torus_text = Some(text.to_string());
            self.note(&Line::Torus { text: text.to_string() });
        }
    }

    pub(super) fn record_tables(&mut self, searched: Option<u32>, made: BTreeMap<JobId, String>) {
        let time = Utc::now();
        self.note(&Line::Tables { time, searched, made });
    }

    pub(super) fn record_over(&mut self, jobs: &[JobId]) {
        let (time, jobs) = (Utc::now(), jobs.to_vec());
        self.note(&Line::Over { time, jobs });
    }
}

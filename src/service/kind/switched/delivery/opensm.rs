//! OpenSM with our plugin: what the plugin says, into the health.

use chrono::{DateTime, SecondsFormat, Utc};

use super::DeliveryRow;
use crate::publish::opensm::{ENGINE, PluginStatus, StatusError, Trouble};
use crate::service::chain;
use crate::service::clock::steady;
use crate::service::health::{Kind, Reader};
use crate::service::kind::direct;
use crate::service::kind::switched::SwitchedKind;
use crate::service::run::{Service, delta};

pub(super) const DELIVERY: DeliveryRow = DeliveryRow {
    name: "opensm",
    what: "OpenSM with our plugin: it fetches what is in force by itself, checks it and answers in its status file",
    setting: "opensm.watch",
    is_on: |settings| settings.opensm.is_some() && direct::source(settings).is_none(),
    begun: None,
};

/// What the plugin's status file says, or why it cannot be read.
type Status = Result<PluginStatus, StatusError>;

impl Service<SwitchedKind> {
    /// Looks at what may be wrong outside: OpenSM, its file, the disk, the clock. Files are few and small.
    pub(in crate::service::kind::switched) fn look_outside(&mut self) {
        let now = Utc::now();
        let status = self.settings.opensm.as_ref().map(|opensm| PluginStatus::read(&opensm.status_file));
        let is_heard = status.as_ref().is_some_and(|status| !matches!(status, Err(StatusError::Missing(_))));
        let (said, written) = self.opensm_says(status, now);
        self.health.reader = Some(self.reader(is_heard));
        self.note_gone(is_heard, &said);
        self.health.note_opensm(now, said);
        self.kind.deliveries.look(now, &self.settings, &self.store, &mut self.health);
        let times = [
            ("OpenSM's plugin wrote its status", written),
            ("the epoch in force was published", self.kind.published.map(|(_, time)| time)),
            ("the last pass ended", self.health.last_success),
        ];
        let times: Vec<_> = times.into_iter().filter_map(|(what, time)| Some((what, time?))).collect();
        self.health.look_around(now, &self.settings.state.directory, &times);
    }

    /// Who fetches epochs. A plugin that was never heard of is not there.
    fn reader(&self, is_heard: bool) -> Reader {
        match self.settings.lft_file {
            _ if is_heard => Reader::Opensm,
            Some(_) => Reader::File,
            None => Reader::Nobody,
        }
    }

    /// Jobs wait for no OpenSM that is gone, if there are other fabrics that serve them.
    fn note_gone(&mut self, is_heard: bool, said: &[(Kind, String)]) {
        if self.settings.name.is_none() || self.settings.opensm.is_none() {
            return;
        }
        let is_gone = said.iter().any(|(kind, _)| matches!(kind, Kind::OpensmEnded | Kind::OpensmSilent));
        self.waiting.handoff.opensm_gone(steady(), !is_heard || is_gone);
    }

    /// Whether OpenSM keeps our tables though hosts cannot reach each other by them (`on_loss=hold`): nobody else routes
    /// before the next epoch. Between the two steps of a repair that is so for one routing only.
    pub(in crate::service::kind::switched) fn is_stranded_by_us(&self) -> bool {
        let Some(opensm) = &self.settings.opensm else { return false };
        let is_ours = |status: &PluginStatus| status.running && status.engine.as_deref() == Some(ENGINE);
        PluginStatus::read(&opensm.status_file)
            .is_ok_and(|status| is_ours(&status) && status.stranded_pairs > 0 && status.repaired_entries == 0)
    }

    /// What is wrong with OpenSM, and when its plugin said something last.
    fn opensm_says(
        &self,
        status: Option<Status>,
        now: DateTime<Utc>,
    ) -> (Vec<(Kind, String)>, Option<DateTime<Utc>>) {
        let (Some(opensm), Some(status)) = (&self.settings.opensm, status) else { return (Vec::new(), None) };
        let mut written = None;
        let mut said = match status {
            Ok(status) => {
                written = Some(status.written);
                let found = status.troubles(self.kind.published.map(|(epoch, _)| epoch), now);
                // OpenSM has its time to take the newest epoch.
                let waits = self.kind.acknowledging.is_some() && self.health.unacknowledged.is_none();
                let early = |t: &Trouble| {
                    matches!(t, Trouble::Behind { .. } | Trouble::FellBack(_) | Trouble::NotRouted)
                };
                found.iter().filter(|t| !(waits && early(t))).map(|t| (kind(t), t.to_string())).collect()
            }
            // Not switched on yet. That an epoch is not acknowledged is said elsewhere.
            Err(StatusError::Missing(_)) => Vec::new(),
            Err(error) => vec![(Kind::OpensmStatus, chain(&error))],
        };
        let late = |since: &DateTime<Utc>| now - *since > delta(opensm.acknowledge);
        if let Some(since) = self.health.unanswered_since.filter(late) {
            let since = since.to_rfc3339_opts(SecondsFormat::Secs, true);
            said.push((Kind::Lagging, format!("OpenSM has put no new epoch in force since {since}")));
        }
        (said, written)
    }
}

fn kind(trouble: &Trouble) -> Kind {
    match trouble {
        Trouble::Silent(_) => Kind::OpensmSilent,
        Trouble::Deaf(_) => Kind::OpensmDeaf,
        Trouble::Ended => Kind::OpensmEnded,
        Trouble::NotRouted => Kind::OpensmNotRouted,
        Trouble::FellBack(_) => Kind::OpensmFellBack,
        Trouble::Refused { .. } => Kind::OpensmRefused,
        Trouble::Behind { .. } => Kind::OpensmBehind,
        Trouble::Lost(_) => Kind::OpensmLost,
        Trouble::Missing(_) => Kind::OpensmMissing,
        Trouble::Repaired(_) => Kind::OpensmRepaired,
        Trouble::Stranded(_) => Kind::OpensmStranded,
        Trouble::Uncovered(_) => Kind::OpensmUncovered,
        Trouble::Rival(_) | Trouble::File { .. } => Kind::OpensmRival,
    }
}

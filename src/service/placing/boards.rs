//! The fabrics on which sets of nodes are judged, as they are now.

use tracing::{debug, warn};

use crate::config::{FabricSource, Settings};
use crate::model::{Fingerprint, Transit};
use crate::observe::torus_toml::{self, TorusSource};
use crate::placement::{Board, Direct, Several, Switched};
use crate::service::chain;
use crate::service::kind::direct;
use crate::service::look::{FabricReader, Named};

/// The fabrics of a service, and the board of those that could be read.
pub(super) struct Boards {
    readers: Vec<Reader>,
    /// Made from these; by fabric, `None`: it could not be read.
    prepared: Option<(Board, Vec<Option<Fingerprint>>)>,
}

/// How one of them is read.
struct Reader {
    settings: Settings,
    reader: Option<FabricReader>,
    /// The newest look failed: said once.
    failing: bool,
}

/// What was read.
enum Seen {
    Switched(Named),
    Direct(Box<TorusSource>),
}

impl Boards {
    /// Reads nothing yet.
    pub(super) fn of(fabrics: &[Settings]) -> Self {
        let reader = |settings: &Settings| Reader {
            settings: settings.clone(),
            reader: FabricReader::of(settings),
            failing: false,
        };
        Self { readers: fabrics.iter().map(reader).collect(), prepared: None }
    }

    /// Goes by new settings.
    pub(super) fn follow(&mut self, fabrics: &[Settings]) {
        let read = |s: &Settings| (s.fabric.clone(), s.node_map.clone(), s.rails);
        let known = self.readers.iter().map(|reader| read(&reader.settings));
        if !known.eq(fabrics.iter().map(read)) {
            *self = Self::of(fabrics);
        }
    }

    /// The board of the newest look; `None` if no fabric could be read.
    pub(super) fn board(&self) -> Option<&Board> {
        self.prepared.as_ref().map(|(board, _)| board)
    }

    /// Reads all fabrics. One that cannot be read has no say.
    pub(super) async fn look(&mut self) {
        let mut all = Vec::with_capacity(self.readers.len());
        for reader in &mut self.readers {
            all.push(reader.look().await);
        }
        let prints: Vec<Option<Fingerprint>> =
            all.iter().map(|seen| seen.as_ref().map(Seen::fingerprint)).collect();
        if self.prepared.as_ref().is_some_and(|(_, known)| *known == prints) {
            return;
        }
        debug!("preparing the fabric for placement");
        let mut boards: Vec<Board> = all.into_iter().flatten().map(Seen::board).collect();
        let board = match boards.len() {
            0 | 1 => boards.pop(),
            _ => Some(Board::Several(Several::new(boards))),
        };
        self.prepared = board.map(|board| (board, prints));
    }
}

impl Reader {
    async fn look(&mut self) -> Option<Seen> {
        let found = match (&self.settings.fabric, direct::source(&self.settings), &mut self.reader) {
            (Some(FabricSource::Source(_)), Some(torus), _) => {
                torus_toml::load(&torus).map(|source| Seen::Direct(Box::new(source))).map_err(|e| chain(&e))
            }
            (_, _, Some(reader)) => reader.read().await.map(Seen::Switched).map_err(|e| chain(&e)),
            _ => Err("the settings name no fabric".to_string()),
        };
        let was_failing = std::mem::replace(&mut self.failing, found.is_err());
        match found {
            Ok(seen) => Some(seen),
            Err(error) => {
                if !was_failing {
                    warn!(fabric = self.settings.name, "placement without a fabric: {error}");
                }
                None
            }
        }
    }
}

impl Seen {
    fn fingerprint(&self) -> Fingerprint {
        match self {
            Self::Switched(named) => named.fabric.fingerprint(),
            Self::Direct(source) => source.torus.fingerprint(),
        }
    }

    fn board(self) -> Board {
        match self {
            Self::Switched(named) => Board::Switched(Switched::new(&named.fabric, &named.nodes)),
            Self::Direct(source) => {
                let TorusSource { torus, transit, .. } = *source;
                Board::Direct(Direct::new(torus, transit.unwrap_or(Transit::Job)))
            }
        }
    }
}

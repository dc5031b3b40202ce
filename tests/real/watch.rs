//! How long hosts are without a way to each other while things fail: tables are read back from the switches all
//! the time, and judged afterwards by the cables that were there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use sarouter::model::{ChannelId, Fabric, Guid, Lid, TerminalId};

use crate::testbed::{Lfts, read_fts, root, without_way};

/// A pair of hosts, in this direction.
type Pair = (TerminalId, TerminalId);

/// The tables of all switches, read between two moments.
struct Sample {
    begun: Instant,
    ended: Instant,
    tables: (Lfts, BTreeMap<Guid, Lid>),
}

/// Reads tables until it is asked for what it saw.
pub struct Watch {
    over: Arc<AtomicBool>,
    reader: JoinHandle<Vec<Sample>>,
}

impl Watch {
    /// Of the bed in this directory.
    pub fn begin(bed: &Path) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (bed, told) = (bed.to_path_buf(), over.clone());
        Self { over, reader: spawn(move || read(&bed, &told)) }
    }

    /// `cut` has the channels that were gone from each moment on; what was read while that changed is left out.
    pub fn end(self, fabric: &Fabric, cut: &[(Instant, BTreeSet<ChannelId>)]) -> Lost {
        self.over.store(true, Ordering::Relaxed);
        let samples = self.reader.join().unwrap();
        let mut lost = Lost::default();
        // Since when pairs have no way, and when that was seen last.
        let (mut since, mut seen) = (BTreeMap::<Pair, Instant>::new(), None);
        for sample in &samples {
            let at = cut.partition_point(|(moment, _)| *moment <= sample.begun);
            if cut.get(at).is_some_and(|(moment, _)| *moment <= sample.ended) {
                continue;
            }
            let gone = &cut[at - 1].1;
            let left =
                fabric.without(|c| gone.contains(&c) || gone.contains(&c.reverse()), |_| false).unwrap();
            let now: BTreeSet<Pair> = without_way(&sample.tables, &left).into_iter().collect();
            if let Some(first) = since.values().min() {
                lost.some += (sample.begun - seen.unwrap_or(*first)).as_secs_f64();
                lost.longest = lost.longest.max((sample.begun - *first).as_secs_f64());
            }
            since.retain(|pair, _| now.contains(pair));
            for pair in now {
                since.entry(pair).or_insert(sample.begun);
            }
            seen = Some(sample.begun);
            lost.samples += 1;
            lost.slowest = lost.slowest.max((sample.ended - sample.begun).as_secs_f64());
        }
        lost
    }
}

/// Time without a way, in seconds.
#[derive(Default)]
pub struct Lost {
    /// How often all tables were read.
    pub samples: usize,
    /// What one reading took at most.
    pub slowest: f64,
    /// In which some pair had none.
    pub some: f64,
    /// In which one pair had none, at a stretch, at most.
    pub longest: f64,
}

/// A tool that gets no answer, as a cable is cut under it, is asked again.
fn read(bed: &Path, over: &AtomicBool) -> Vec<Sample> {
    let script: PathBuf = root().join("scripts/testbed");
    let mut samples = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let output =
            Command::new(&script).args(["ib", "dump_fts"]).env("SAROUTER_BED", bed).output().unwrap();
        if output.status.success() {
            let tables = read_fts(&String::from_utf8_lossy(&output.stdout));
            samples.push(Sample { begun, ended: Instant::now(), tables });
        }
        sleep(Duration::from_millis(50));
    }
    samples
}

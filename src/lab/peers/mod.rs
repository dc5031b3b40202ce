//! OpenSM beside us: runs one of its routing engines on the fabric simulator ibsim and reads what
//! it decided and what that cost.
//!
//! Needs Debian's `opensm`, `ibsim-utils`, `libopensm-dev` and a C compiler: a small event plugin
//! (`probe.c`) writes tables, SLs, CPU time and memory down inside OpenSM, before any MAD is sent.

mod bed;
mod read;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::model::{Fabric, SwitchId, Tables, TablesError};

/// Why there is no answer from OpenSM.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// A file or process of the bed.
    #[error("{what}: {source}")]
    Io {
        /// Path or program.
        what: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// A tool that failed, with what it said.
    #[error("{program} failed: {message}")]
    Tool {
        /// Its name.
        program: &'static str,
        /// Its last words.
        message: String,
    },
    /// The probe's file is not what it should be.
    #[error("{}:{line}: {message}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// [`stop`] was called.
    #[error("stopped")]
    Stopped,
    /// Arrays that do not fit.
    #[error(transparent)]
    Tables(#[from] TablesError),
}

static STOPPED: AtomicBool = AtomicBool::new(false);

/// Ends all runs of this process, now and later ones, so that they remove their processes and
/// files: for signal handlers.
pub fn stop() {
    STOPPED.store(true, Ordering::Relaxed);
}

/// Whether [`stop`] was called.
pub fn stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}

/// What an engine of OpenSM's did.
#[derive(Debug)]
pub enum PeerRouting {
    /// It made tables.
    Routed(Box<Routed>),
    /// It gave up.
    Failed {
        /// CPU seconds until then.
        cpu_seconds: f64,
    },
    /// OpenSM died in it.
    Died,
    /// It was still at work at the deadline.
    Deadline,
}

/// Tables of OpenSM's.
#[derive(Debug)]
pub struct Routed {
    /// Equal ports in all; element i has the layers (SLs) of the i-th host of each switch, or of
    /// its first where there are fewer: OpenSM may give hosts of one switch different SLs. Routes
    /// to switches without hosts have no layer.
    pub tables: Vec<Tables>,
    /// CPU seconds of the engine alone.
    pub cpu_seconds: f64,
    /// Largest resident set of OpenSM until then, bytes.
    pub peak_rss_bytes: u64,
}

/// Runs `engine` of OpenSM's on the fabric with 8 virtual lanes. `roots` are for updn and ftree,
/// which choose their own if it is empty (and give up where they find none). `deadline` counts from
/// the engine's start, without discovery.
///
/// # Errors
/// When the tools are missing or broken; an engine that fails is an answer.
pub fn run(
    fabric: &Fabric,
    engine: &str,
    roots: &[SwitchId],
    deadline: Duration,
) -> Result<PeerRouting, PeerError> {
    let bed = bed::Bed::start(fabric, engine, roots)?;
    match bed.wait(deadline)? {
        bed::Waited::Late => Ok(PeerRouting::Deadline),
        bed::Waited::Died => Ok(PeerRouting::Died),
        bed::Waited::Answered(answered) => read::read(fabric, engine, &answered),
    }
}

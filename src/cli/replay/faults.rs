//! Faults of a trace: told, and written.

use std::path::Path;

use super::super::Failure;
use crate::lab::replay::files::FAULTS;
use crate::lab::replay::trace::{Fault, FaultKind, Trace};
use crate::model::FileError;

/// Faults on stderr that people see; all are in the file.
const SHOWN: usize = 50;

/// Tells of those that are bad; with `strict` the first of them is an error.
pub(super) fn report_faults(trace: &Trace, faults: &[&Fault], strict: bool) -> Result<(), Failure> {
    let is_bad = |f: &&&Fault| !matches!(f.kind, FaultKind::Overlap | FaultKind::Repeated);
    if let Some(fault) = faults.iter().find(is_bad).filter(|_| strict) {
        return Err(FileError::line(Path::new(&trace.name), fault.line, &fault.message).into());
    }
    for fault in faults.iter().filter(is_bad).take(SHOWN) {
        eprintln!("{}:{}: {}", trace.name, fault.line, fault.message);
    }
    let hidden = faults.iter().filter(is_bad).count().saturating_sub(SHOWN);
    if hidden > 0 {
        eprintln!("{}: {hidden} more bad lines; all are in {FAULTS} of --out", trace.name);
    }
    Ok(())
}

/// All of them, for a file.
pub(super) fn fault_lines(trace: &Trace, faults: &[&Fault]) -> Vec<u8> {
    let lines = faults.iter().map(|f| format!("{}:{}: {}\n", trace.name, f.line, f.message));
    lines.collect::<String>().into_bytes()
}

//! What `tick` and `serve` print.

use super::{Format, common};
use crate::measure::Figures;
use crate::service::pass::EpochLine;
use crate::service::run::Note;

/// Prints a note: a line, or a JSON object on a line.
pub(super) fn print(note: &Note, format: Format) {
    let line = match format {
        Format::Text => text(note),
        Format::Json => json(note).to_string(),
    };
    // Nobody reads: the service goes on.
    let _ = common::print(&line);
}

/// The same of one of several fabrics.
pub(super) fn print_of(name: &str, note: &Note, format: Format) {
    let line = match format {
        Format::Text => format!("{name}: {}", text(note)),
        Format::Json => {
            let mut line = json(note);
            line["fabric"] = name.into();
            line.to_string()
        }
    };
    let _ = common::print(&line);
}

/// For programs: a pass that ended well has published nothing.
pub(super) fn print_no_epoch(name: Option<&str>) {
    let mut line = serde_json::json!({ "epoch": null });
    if let Some(name) = name {
        line["fabric"] = name.into();
    }
    let _ = common::print(&line.to_string());
}

fn json(note: &Note) -> serde_json::Value {
    let (kind, value) = match note {
        Note::Epoch(line) => ("epoch", serde_json::to_value(line)),
        Note::Acknowledged(acknowledged) => ("acknowledged", serde_json::to_value(acknowledged)),
        Note::Failed(failure) => ("failed", serde_json::to_value(failure)),
    };
    serde_json::json!({ kind: value.unwrap_or_default() })
}

fn text(note: &Note) -> String {
    match note {
        Note::Epoch(line) => epoch(line),
        Note::Acknowledged(a) => {
            format!("epoch {}: in force on every switch after {} ms", a.epoch, a.milliseconds)
        }
        Note::Failed(f) => format!("{} failed: {}; what was in force still is", f.stage.name(), f.message),
    }
}

fn epoch(line: &EpochLine) -> String {
    let before = |figure: &dyn Fn(&Figures) -> String| line.before.as_ref().map_or("-".to_string(), figure);
    let blocks = line.changed_blocks.map_or(String::new(), |n| format!(", {n} LFT blocks"));
    let mixed = line.transition.map_or(String::new(), |t| format!(", {t}"));
    format!(
        "epoch {}: {} (+{} -{} of {} multi-switch, {} jobs){blocks}{mixed}; slow-down {} -> {:.3}, max effective EFI {} -> {}, \
         dark fiber {:.1} %; ask {} parse {} route {} verify {} publish {} ms",
        line.epoch,
        line.reason.words(),
        line.jobs_added,
        line.jobs_removed,
        line.multi_switch,
        line.jobs,
        before(&|f| format!("{:.3}", f.time.slowdown_mean)),
        line.after.time.slowdown_mean,
        before(&|f| f.effective.max.to_string()),
        line.after.effective.max,
        line.after.effective.dark_fiber * 100.0,
        line.ask_ms,
        line.parse_ms,
        line.route_ms,
        line.verify_ms,
        line.publish_ms,
    )
}

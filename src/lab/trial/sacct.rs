//! Runs from a dump by `sacct --parsable2`.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};

use super::Run;
use crate::pass::trial::Trial;

/// What the dump must say of a job, in this order; the name may have bars in it.
pub const FIELDS: &str = "JobID,User,NNodes,State,Start,End,JobName";

/// Jobs of the days of a trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Runs {
    /// Of several nodes.
    pub several: Vec<Run>,
    /// Of one node: routes cannot matter for these.
    pub one: Vec<Run>,
    /// Not complete, or begun so late that a job of its kind may end on the next day, or outside of the trial.
    pub left_out: usize,
    /// Lines of the dump that are none of a job, such as the rest of a name with a new line in it.
    pub unreadable: usize,
}

impl Runs {
    /// Reads a dump with the header and fields of [`FIELDS`]. Times are UTC. Steps are passed over, and of the components
    /// of a heterogeneous job all but the first. Of several lines of a job the last counts.
    ///
    /// Whatever its own length, a job counts if the longest of its kind, begun when it was, would have ended on the
    /// same day. If only those that do not end in time were left out, they would be the longer ones of the worse
    /// days. O(bytes × log jobs).
    ///
    /// # Errors
    /// If the header is another one, or most lines cannot be read: with the number of the first.
    pub fn read(text: &str, trial: &Trial) -> Result<Self, String> {
        let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, line));
        let header = lines.next().map_or("", |(_, line)| line.trim_end_matches('|'));
        if !header.eq_ignore_ascii_case(&FIELDS.replace(',', "|")) {
            return Err(format!(
                "line 1: the dump must have the fields {FIELDS}: TZ=UTC sacct -aXP -o {FIELDS}"
            ));
        }
        let mut jobs: BTreeMap<&str, Job> = BTreeMap::new();
        let (mut first, mut unreadable) = (None, 0);
        for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            match job(line) {
                Ok(Some((id, job))) => drop(jobs.insert(id, job)),
                Ok(None) => {}
                Err(what) => {
                    first = first.or_else(|| Some(format!("line {number}: {what}")));
                    unreadable += 1;
                }
            }
        }
        // New lines in names tear single lines; another form of all is a mistake.
        if let (Some(what), true) = (first, unreadable > jobs.len()) {
            return Err(what);
        }
        let mut longest: BTreeMap<&str, TimeDelta> = BTreeMap::new();
        for Job { kind, time, .. } in jobs.values() {
            let most = longest.entry(kind).or_default();
            *most = time.map_or(*most, |[start, end]| (end - start).max(*most));
        }
        let mut runs = Self { unreadable, ..Self::default() };
        for Job { kind, nodes, time } in jobs.values() {
            let counts = |[start, _]: &[DateTime<Utc>; 2]| {
                let day = trial.day(*start)?;
                let until = trial.days.get(day + 1).map_or(trial.until, |next| next.from);
                (until - *start > longest[kind.as_str()]).then_some(day)
            };
            match time.and_then(|time| Some((counts(&time)?, time))) {
                Some((day, [start, end])) => {
                    let of_size = if *nodes == 1 { &mut runs.one } else { &mut runs.several };
                    of_size.push(Run {
                        day,
                        kind: kind.clone(),
                        seconds: (end - start).num_seconds() as f64,
                    });
                }
                None => runs.left_out += 1,
            }
        }
        Ok(runs)
    }

    /// How many kinds of jobs of several nodes there are, and jobs.
    pub fn sizes(&self) -> (usize, usize) {
        let kinds: BTreeSet<&str> = self.several.iter().map(|run| run.kind.as_str()).collect();
        (kinds.len(), self.several.len())
    }
}

/// A job of a dump.
struct Job {
    /// User, name and nodes.
    kind: String,
    nodes: usize,
    /// Start and end, if it is complete.
    time: Option<[DateTime<Utc>; 2]>,
}

/// The job of a line and its id; `None` for what is none.
fn job(line: &str) -> Result<Option<(&str, Job)>, String> {
    let fields: Vec<&str> = line.splitn(7, '|').collect();
    let [id, user, nodes, state, start, end, name] = fields[..] else {
        return Err("seven fields expected".to_string());
    };
    if id.contains('.') || id.split_once('+').is_some_and(|(_, component)| component != "0") {
        return Ok(None);
    }
    let nodes: usize = nodes.parse().map_err(|_| "the number of nodes is none".to_string())?;
    let time = time(start)?.zip(time(end)?).filter(|(start, end)| end > start);
    let time = time.filter(|_| state == "COMPLETED" && nodes > 0).map(|(start, end)| [start, end]);
    Ok(Some((id, Job { kind: format!("{user}\t{name}\t{nodes}"), nodes, time })))
}

/// `None` for a time that is not known yet.
fn time(text: &str) -> Result<Option<DateTime<Utc>>, String> {
    match text {
        "Unknown" | "None" | "N/A" | "" => Ok(None),
        _ => match NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S") {
            Ok(time) => Ok(Some(time.and_utc())),
            Err(_) => Err(format!("{text:?} is not a time")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass::trial::midnights;

    #[test]
    fn jobs_of_one_day_count_and_others_are_left_out() {
        let trial = Trial::draw(&midnights(14), "updown", 1).unwrap();
        let head = FIELDS.replace(',', "|");
        let text = format!(
            "{head}\n1|a|4|COMPLETED|2026-03-02T01:00:00|2026-03-02T02:00:00|w|rf\n\
             2|a|1|COMPLETED|2026-03-03T01:00:00|2026-03-03T01:00:30|x\n\
             2.batch|a|1|COMPLETED|2026-03-03T01:00:00|2026-03-03T01:00:30|batch\n\
             3|a|4|FAILED|2026-03-02T01:00:00|2026-03-02T02:00:00|x\n\
             4|a|4|COMPLETED|2026-03-02T22:59:00|2026-03-02T23:00:00|over midnight\n\
             5|a|4|RUNNING|2026-03-02T22:59:00|Unknown|x\n\
             6|a|4|COMPLETED|2026-03-02T22:00:00|2026-03-02T22:30:00|w|rf\n\
             7+0|b|4|COMPLETED|2026-03-04T01:00:00|2026-03-04T01:10:00|h\n\
             7+1|b|4|COMPLETED|2026-03-04T01:00:00|2026-03-04T01:10:00|h\n\
             8|b|4|COMPLETED|2026-03-04T01:00:00|2026-03-04T01:10:00|h\n\
             8|b|4|COMPLETED|2026-03-04T03:00:00|2026-03-04T03:20:00|h\n"
        );
        let runs = Runs::read(&text, &trial).unwrap();
        let run = |day, kind: &str, seconds| Run { day, kind: kind.to_string(), seconds };
        let of_h = [600.0, 1200.0].map(|seconds| run(2, "b\th\t4", seconds));
        assert_eq!(runs.several, [&[run(0, "a\tw|rf\t4", 3600.0)][..], &of_h].concat());
        assert_eq!(runs.one, [run(1, "a\tx\t1", 30.0)]);
        assert_eq!(runs.left_out, 4, "the sixth took half an hour, but such a job may take one");
        assert_eq!(runs.unreadable, 0);
        let torn = text.replace("|x\n", "|two\nlines|of a name\n");
        let torn = Runs::read(&torn, &trial).unwrap();
        assert_eq!((torn.several, torn.left_out, torn.unreadable), (runs.several, 4, 3));
        let wrong = Runs::read(&text.replace("2026-03-0", "yesterday"), &trial);
        assert_eq!(wrong.unwrap_err(), "line 2: \"yesterday2T01:00:00\" is not a time");
        assert!(Runs::read("JobID|Start\n", &trial).unwrap_err().contains("JobName"));
    }
}

//! Runs from a dump by `sacct --parsable2`.

use std::collections::BTreeSet;

use chrono::{DateTime, NaiveDateTime, Utc};

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
    /// Not complete, or over midnight, or outside of the trial.
    pub left_out: usize,
}

impl Runs {
    /// Reads a dump with the header and fields of [`FIELDS`]. Times are UTC. Steps are passed over. O(bytes).
    ///
    /// # Errors
    /// With the number of the line.
    pub fn read(text: &str, trial: &Trial) -> Result<Self, String> {
        let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, line));
        let header = lines.next().map_or("", |(_, line)| line.trim_end_matches('|'));
        if !header.eq_ignore_ascii_case(&FIELDS.replace(',', "|")) {
            return Err(format!(
                "line 1: the dump must have the fields {FIELDS}: TZ=UTC sacct -aXP -o {FIELDS}"
            ));
        }
        let mut runs = Self::default();
        for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = |what: &str| format!("line {number}: {what}");
            let fields: Vec<&str> = line.splitn(7, '|').collect();
            let [id, user, nodes, state, start, end, name] = fields[..] else {
                return Err(wrong("seven fields expected"));
            };
            if id.contains('.') {
                continue;
            }
            let nodes: usize = nodes.parse().map_err(|_| wrong("the number of nodes is none"))?;
            let (start, end) = (time(start).map_err(|e| wrong(&e))?, time(end).map_err(|e| wrong(&e))?);
            let day =
                start.zip(end).filter(|_| state == "COMPLETED" && nodes > 0).and_then(|(start, end)| {
                    let day = trial.day(start)?;
                    (trial.day(end) == Some(day) && end > start)
                        .then(|| (day, (end - start).num_seconds() as f64))
                });
            let Some((day, seconds)) = day else {
                runs.left_out += 1;
                continue;
            };
            let kind = format!("{user}\t{name}\t{nodes}");
            let of_size = if nodes == 1 { &mut runs.one } else { &mut runs.several };
            of_size.push(Run { day, kind, seconds });
        }
        Ok(runs)
    }

    /// How many kinds of jobs of several nodes there are, and jobs.
    pub fn sizes(&self) -> (usize, usize) {
        let kinds: BTreeSet<&str> = self.several.iter().map(|run| run.kind.as_str()).collect();
        (kinds.len(), self.several.len())
    }
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
             5|a|4|RUNNING|2026-03-02T22:59:00|Unknown|x\n"
        );
        let runs = Runs::read(&text, &trial).unwrap();
        let run = |day, kind: &str, seconds| Run { day, kind: kind.to_string(), seconds };
        assert_eq!(runs.several, [run(0, "a\tw|rf\t4", 3600.0)]);
        assert_eq!(runs.one, [run(1, "a\tx\t1", 30.0)]);
        assert_eq!(runs.left_out, 3);
        let wrong = Runs::read(&text.replace("2026-03-02T02:00", "yesterday"), &trial);
        assert_eq!(wrong.unwrap_err(), "line 2: \"yesterday:00\" is not a time");
        assert!(Runs::read("JobID|Start\n", &trial).unwrap_err().contains("JobName"));
    }
}

//! The table of measures: what each figure of tables is called, counts, and how it is printed.

use super::{Figures, StorageLoad};

/// A figure of tables: one row, and it is in `compare`, in the reports and in `sarouter measures`.
pub struct Measure {
    /// Where it is in `report.json` and in a row of `compare --format json`.
    pub name: &'static str,
    /// What it is, for people.
    pub what: &'static str,
    /// What is counted.
    pub unit: &'static str,
    /// Which way is better.
    pub better: Better,
    /// Head of its column in `compare`; empty if it has none.
    pub head: &'static str,
    /// What it is called where it stands alone, as in `plan`.
    pub title: &'static str,
    /// The line of a report that it is in, and its words there around `{}`; empty if it is in none.
    pub line: (&'static str, &'static str),
    /// It as text; `None` where it does not exist, as that of storage without servers.
    pub text: fn(&Figures) -> Option<String>,
}

/// Which way a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Less is better.
    Less,
    /// More is better.
    More,
    /// It depends on the fabric and the jobs, not on the tables: a bound.
    Given,
}

impl Better {
    /// For people and programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Less => "less",
            Self::More => "more",
            Self::Given => "given",
        }
    }
}

const TIMES: &str = "times what the job's own cables need";
const ROUTES: &str = "routes on a channel";
const SHARE: &str = "percent; 0 to 1 in JSON";

/// What most rows share.
const ROW: Measure = Measure {
    name: "",
    what: "",
    unit: ROUTES,
    better: Better::Less,
    head: "",
    title: "",
    line: ("", ""),
    text: |_| None,
};

/// All measures, in the order of columns and of lines.
pub const MEASURES: &[Measure] = &[
    Measure {
        name: "time.slowdown_mean",
        what: "predicted time of jobs' exchanges, geometric mean over jobs: the leading figure",
        unit: TIMES,
        head: "slow-down",
        title: "slow-down, mean",
        line: ("slow-down", "mean {}"),
        text: |f| digits(f.time.slowdown_mean, 3),
        ..ROW
    },
    Measure {
        name: "time.slowdown_p95",
        what: "the same, at most so much for 95 % of the jobs",
        unit: TIMES,
        line: ("slow-down", ", 95 % of the jobs at most {}"),
        text: |f| digits(f.time.slowdown_p95, 3),
        ..ROW
    },
    Measure {
        name: "time.slowdown_max",
        what: "the same, of the slowest job",
        unit: TIMES,
        head: "worst",
        title: "slow-down, worst",
        line: ("slow-down", ", worst {}"),
        text: |f| digits(f.time.slowdown_max, 3),
        ..ROW
    },
    Measure {
        name: "load.max",
        what: "edge forwarding index: routes between all hosts on the fullest channel",
        head: "EFI max",
        title: "max EFI",
        line: ("load", "max {}"),
        text: |f| whole(f.load.max),
        ..ROW
    },
    Measure {
        name: "load.mean",
        what: "the same, mean over channels",
        head: "mean",
        line: ("load", ", mean {}"),
        text: |f| digits(f.load.mean, 1),
        ..ROW
    },
    Measure {
        name: "load.lower_bound",
        what: "no tables can have a smaller load.max",
        better: Better::Given,
        head: "bound",
        line: ("load", ", no tables below {}"),
        text: |f| whole(f.load.lower_bound),
        ..ROW
    },
    Measure {
        name: "effective.max",
        what: "effective EFI: routes inside jobs on the fullest channel",
        head: "γᵉ max",
        title: "max effective EFI",
        line: ("inside jobs", "max {}"),
        text: |f| whole(f.effective.max),
        ..ROW
    },
    Measure {
        name: "effective.mean",
        what: "the same, mean over channels",
        line: ("inside jobs", ", mean {}"),
        text: |f| digits(f.effective.mean, 1),
        ..ROW
    },
    Measure {
        name: "effective.lower_bound",
        what: "no tables can have a smaller effective.max",
        better: Better::Given,
        head: "bound",
        line: ("inside jobs", ", no tables below {}"),
        text: |f| whole(f.effective.lower_bound),
        ..ROW
    },
    Measure {
        name: "effective.dark_fiber",
        what: "channels that no job uses",
        unit: SHARE,
        head: "dark",
        title: "dark fiber",
        line: ("inside jobs", "; dark fiber {}"),
        text: |f| percent(f.effective.dark_fiber),
        ..ROW
    },
    Measure {
        name: "effective.max_per_job_mean",
        what: "routes of a job on the channel that it fills most, mean over jobs",
        head: "per job",
        text: |f| digits(f.effective.max_per_job_mean, 1),
        ..ROW
    },
    Measure {
        name: "effective.links_per_job_mean",
        what: "channels that a job uses, mean over jobs",
        unit: "channels",
        better: Better::More,
        head: "links",
        text: |f| digits(f.effective.links_per_job_mean, 1),
        ..ROW
    },
    Measure {
        name: "paths.mean_hops",
        what: "channels between switches that a route takes, mean over pairs of hosts on different switches",
        unit: "hops",
        head: "hops",
        line: ("paths", "mean {}"),
        text: |f| digits(f.paths.mean_hops, 2),
        ..ROW
    },
    Measure {
        name: "paths.max_hops",
        what: "the same, of the longest route",
        unit: "hops",
        line: ("paths", ", longest {}"),
        text: |f| whole(f.paths.max_hops.into()),
        ..ROW
    },
    Measure {
        name: "paths.minimal_share",
        what: "routes that are as short as the fabric allows",
        unit: SHARE,
        better: Better::More,
        head: "minimal",
        line: ("paths", ", {} as short as possible"),
        text: |f| percent(f.paths.minimal_share),
        ..ROW
    },
    Measure {
        name: "storage.reads.max",
        what: "routes from storage servers to hosts of jobs on the fullest channel",
        head: "reads",
        line: ("storage", "reads max {}"),
        text: |f| stored(f, |s| s.reads.max),
        ..ROW
    },
    Measure {
        name: "storage.reads.lower_bound",
        what: "no tables can have a smaller storage.reads.max",
        better: Better::Given,
        head: "bound",
        line: ("storage", ", no tables below {}"),
        text: |f| stored(f, |s| s.reads.lower_bound),
        ..ROW
    },
    Measure {
        name: "storage.writes.max",
        what: "routes from hosts of jobs to storage servers on the fullest channel",
        head: "writes",
        line: ("storage", "; writes max {}"),
        text: |f| stored(f, |s| s.writes.max),
        ..ROW
    },
    Measure {
        name: "storage.writes.lower_bound",
        what: "no tables can have a smaller storage.writes.max",
        better: Better::Given,
        head: "bound",
        line: ("storage", ", no tables below {}"),
        text: |f| stored(f, |s| s.writes.lower_bound),
        ..ROW
    },
    Measure {
        name: "storage.both.max",
        what: "both, each by its weight, on the fullest channel",
        head: "both",
        text: |f| stored(f, |s| s.both.max),
        ..ROW
    },
    Measure {
        name: "storage.both.lower_bound",
        what: "no tables can have a smaller storage.both.max",
        better: Better::Given,
        head: "bound",
        text: |f| stored(f, |s| s.both.lower_bound),
        ..ROW
    },
    Measure {
        name: "storage.cables",
        what: "both on the fullest cable of a server",
        better: Better::Given,
        line: ("storage", "; a server's cable {}"),
        text: |f| stored(f, |s| s.cables),
        ..ROW
    },
];

impl Measure {
    /// The measure of that name, if there is one.
    pub fn of(name: &str) -> Option<&'static Self> {
        MEASURES.iter().find(|row| row.name == name)
    }

    /// It as text; `-` where it does not exist.
    pub fn shown(&self, figures: &Figures) -> String {
        (self.text)(figures).unwrap_or_else(|| "-".to_string())
    }

    /// The lines of a report: name, and what these figures are.
    pub fn lines(figures: &Figures) -> Vec<(&'static str, String)> {
        let mut lines: Vec<(&str, String)> = Vec::new();
        for row in MEASURES.iter().filter(|row| !row.line.0.is_empty()) {
            let Some(text) = (row.text)(figures) else { continue };
            let said = row.line.1.replace("{}", &text);
            match lines.iter_mut().find(|line| line.0 == row.line.0) {
                Some((_, line)) => line.push_str(&said),
                None => lines.push((row.line.0, said)),
            }
        }
        lines
    }
}

fn digits(figure: f64, digits: usize) -> Option<String> {
    Some(format!("{figure:.digits$}"))
}

fn whole(figure: u64) -> Option<String> {
    Some(figure.to_string())
}

fn percent(share: f64) -> Option<String> {
    Some(format!("{:.1} %", 100.0 * share))
}

fn stored(figures: &Figures, pick: fn(&StorageLoad) -> u64) -> Option<String> {
    figures.storage.as_ref().map(|storage| pick(storage).to_string())
}

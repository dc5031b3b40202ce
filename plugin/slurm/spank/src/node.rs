//! What a node does before and after a job, and what its tasks find in their environment.

use std::fs;
use std::time::Duration;

use crate::job::JobDirectory;
use crate::settings::{OnFailure, Routing, Settings};
use crate::sink::{within, write_file};

/// How long a report may take: a file system that hangs is no reason to hold a job.
const REPORT: Duration = Duration::from_secs(5);

/// How a prolog ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The table is in the sink, and which one.
    Installed(String),
    /// There was nothing to do, and why.
    Nothing(&'static str),
    /// The job starts without its routes.
    Started(String),
    /// The job must not start.
    Held(String),
}

impl Outcome {
    /// One line for logs and reports.
    pub fn text(&self, job: u32, node: &str) -> String {
        match self {
            Self::Installed(what) => format!("job {job} on {node}: installed {what}"),
            Self::Nothing(why) => format!("job {job} on {node}: nothing to install: {why}"),
            Self::Started(why) => {
                format!("job {job} on {node}: refused, the job starts without its routes: {why}")
            }
            Self::Held(why) => format!("job {job} on {node}: refused, the job is held: {why}"),
        }
    }
}

/// Gives a node its table. Whatever is wrong with it, the sink is not touched. Only the administrator's
/// `on_failure=hold` fails a prolog: Slurm takes the node out of service for that, which no word of a
/// user's may do. `--routing=require` was decided before any node was given to the job.
pub fn prolog(settings: &Settings, routing: Routing, job: u32, node: &str) -> Outcome {
    if routing == Routing::None {
        return Outcome::Nothing("--routing=none");
    }
    let outcome = match install(settings, routing, job, node) {
        Ok(outcome) => outcome,
        Err(why) if settings.on_failure == OnFailure::Hold => Outcome::Held(why),
        Err(why) => Outcome::Started(why),
    };
    report(settings, job, node, &outcome);
    outcome
}

fn install(settings: &Settings, routing: Routing, job: u32, node: &str) -> Result<Outcome, String> {
    let directory = JobDirectory::open(&settings.state, job, settings.wait)?;
    let environment = directory.environment()?;
    let value = |name| environment.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
    if value("SAROUTER_JOB") != Some(&job.to_string()) {
        return Err("routing.env is of another job".into());
    }
    if routing == Routing::Require && value("SAROUTER_ROUTED") != Some("yes") {
        let note = value("SAROUTER_NOTE").unwrap_or("no reason given");
        return Ok(Outcome::Started(format!("the job has no routes of its own: {note}")));
    }
    let Some(table) = directory.table(job, node)? else {
        return Ok(Outcome::Nothing("the job has no tables"));
    };
    let what = table.lines().nth(3).unwrap_or_default().to_string();
    let Some(sink) = &settings.sink else { return Ok(Outcome::Nothing("no sink is set")) };
    sink.install(&table, job, node, settings.timeout)?;
    Ok(Outcome::Installed(what))
}

/// A report that cannot be written is no reason to hold a job.
fn report(settings: &Settings, job: u32, node: &str, outcome: &Outcome) {
    if let Some(dir) = settings.report.as_ref().filter(|_| !node.contains('/')) {
        let _ = write_file(&dir.join(format!("{job}.{node}")), &(outcome.text(job, node) + "\n"), REPORT);
    }
}

/// Takes the table out of the sink.
///
/// # Errors
/// What the sink says.
pub fn epilog(settings: &Settings, routing: Routing, job: u32, node: &str) -> Result<(), String> {
    if let Some(dir) = settings.report.as_ref().filter(|_| !node.contains('/')) {
        let _ = within(REPORT, &dir.join(format!("{job}.{node}")), |path| fs::remove_file(path));
    }
    match &settings.sink {
        Some(sink) if routing != Routing::None => sink.remove(job, node, settings.timeout),
        _ => Ok(()),
    }
}

/// One variable of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Whether it replaces what the user set.
    pub overwrite: bool,
}

/// What a job that was submitted from inside another one must not keep of its environment: the other's variables, and what
/// stands under the names that communication libraries know as the other's does. What the user set stays.
pub fn inherited(settings: &Settings, job: u32, environment: &[(String, String)]) -> Vec<String> {
    let value =
        |name: &str| environment.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
    if value("SAROUTER_JOB").is_none_or(|other| other == job.to_string()) {
        return Vec::new();
    }
    let told = ["SAROUTER_SL", "SAROUTER_LID_PATH_BITS"].map(value);
    let names = [&settings.sl_env, &settings.lid_env];
    let is_of_the_other = |name: &String, value: &str| {
        name.starts_with("SAROUTER_")
            || names.iter().zip(told).any(|(names, told)| names.contains(name) && told == Some(value))
    };
    environment
        .iter()
        .filter(|(name, value)| is_of_the_other(name, value))
        .map(|(name, _)| name.clone())
        .collect()
}

/// What goes into the environment of a job's tasks: the lines of `routing.env`, and the service level
/// under the names that communication libraries know, unless the user has set them.
///
/// # Errors
/// If the job has no directory or it is damaged: nothing is exported then.
pub fn environment(settings: &Settings, routing: Routing, job: u32) -> Result<Vec<Variable>, String> {
    if routing == Routing::None {
        return Ok(Vec::new());
    }
    let directory = JobDirectory::open(&settings.state, job, Duration::ZERO)?;
    let lines = directory.environment()?;
    let said = |wanted: &str| lines.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    let level = said("SAROUTER_SL");
    if level.as_ref().is_some_and(|l| !l.parse::<u8>().is_ok_and(|l| l < 16)) {
        return Err(format!("SAROUTER_SL={}: not a service level", level.unwrap_or_default()));
    }
    let bits = said("SAROUTER_LID_PATH_BITS");
    if bits.as_ref().is_some_and(|b| !matches!(b.as_str(), "0" | "1")) {
        return Err(format!("SAROUTER_LID_PATH_BITS={}: not 0 or 1", bits.unwrap_or_default()));
    }
    let known = [(&settings.sl_env, level), (&settings.lid_env, bits)];
    let known = known.into_iter().flat_map(|(names, value)| {
        let variable = |value: String| {
            names.iter().map(move |name| Variable {
                name: name.clone(),
                value: value.clone(),
                overwrite: false,
            })
        };
        value.map(variable).into_iter().flatten()
    });
    let own = lines.iter().map(|(name, value)| Variable {
        name: name.clone(),
        value: value.clone(),
        overwrite: true,
    });
    let order = directory.order()?.map(|_| Variable {
        name: "SAROUTER_ORDER_FILE".into(),
        value: directory.order_path().display().to_string(),
        overwrite: true,
    });
    Ok(own.chain(known).chain(order).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::tests::{publish, table};
    use crate::sink::Sink;
    use std::path::Path;

    const ROUTED: &str = "SAROUTER_FORMAT=1\nSAROUTER_JOB=17\nSAROUTER_ROUTED=yes\nSAROUTER_SL=3\n";

    fn settings(dir: &Path) -> Settings {
        let path = |name: &str| dir.join(name).to_str().unwrap().to_string();
        std::fs::create_dir_all(path("reports")).unwrap();
        Settings {
            state: dir.into(),
            sink: Some(Sink::File(path("%n.table"))),
            report: Some(dir.join("reports")),
            ..Settings::default()
        }
    }

    #[test]
    fn a_table_comes_with_the_job_and_goes_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(dir.path());
        let text = table(17, "n1", &["0.1 n2 +Y"]);
        let routed = format!("{ROUTED}SAROUTER_TABLES=1\n");
        let files =
            [("routing.env", &routed[..]), ("nodes.txt", "n1 node-0.0.table\n"), ("node-0.0.table", &text)];
        publish(dir.path(), 17, &files);
        let sink = dir.path().join("n1.table");
        assert_eq!(prolog(&settings, Routing::None, 17, "n1"), Outcome::Nothing("--routing=none"));
        assert!(!sink.exists());
        let outcome = prolog(&settings, Routing::Require, 17, "n1");
        assert_eq!(outcome, Outcome::Installed("node 0.0 n1".into()));
        assert_eq!(fs::read_to_string(&sink).unwrap(), text);
        let report = dir.path().join("reports/17.n1");
        assert_eq!(fs::read_to_string(&report).unwrap(), "job 17 on n1: installed node 0.0 n1\n");
        epilog(&settings, Routing::Default, 17, "n1").unwrap();
        assert!(!sink.exists() && !report.exists());
        // Damaged: the policy decides, and the sink is not touched.
        fs::write(dir.path().join("jobs/17/node-0.0.table"), &text[..text.len() - 9]).unwrap();
        let hold = Settings { on_failure: OnFailure::Hold, ..settings.clone() };
        assert!(
            matches!(prolog(&settings, Routing::Default, 17, "n1"), Outcome::Started(why) if why.contains("damaged"))
        );
        assert!(fs::read_to_string(&report).unwrap().contains("refused"));
        // What a user asks for costs no node, whatever happens.
        assert!(matches!(prolog(&settings, Routing::Require, 17, "n1"), Outcome::Started(_)));
        assert!(matches!(prolog(&hold, Routing::Default, 17, "n1"), Outcome::Held(_)));
        assert!(!sink.exists());
        // Without a directory too; and a job on switches has no table.
        assert!(matches!(prolog(&hold, Routing::Default, 18, "n1"), Outcome::Held(_)));
        publish(dir.path(), 17, &[("routing.env", ROUTED)]);
        assert_eq!(prolog(&hold, Routing::Default, 17, "n1"), Outcome::Nothing("the job has no tables"));
        // Who requires routes is not content with those of others.
        let late = "SAROUTER_FORMAT=1\nSAROUTER_JOB=17\nSAROUTER_ROUTED=no\nSAROUTER_NOTE=too late\n";
        publish(dir.path(), 17, &[("routing.env", late)]);
        assert!(
            matches!(prolog(&settings, Routing::Require, 17, "n1"), Outcome::Started(why) if why.contains("too late"))
        );
        assert!(matches!(prolog(&hold, Routing::Default, 17, "n1"), Outcome::Nothing(_)));
        publish(dir.path(), 18, &[("routing.env", ROUTED)]);
        assert!(
            matches!(prolog(&hold, Routing::Default, 18, "n1"), Outcome::Held(why) if why.contains("another job"))
        );
    }

    #[test]
    fn the_level_goes_by_all_its_names_and_never_over_the_users() {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(dir.path());
        assert!(environment(&settings, Routing::Default, 17).is_err());
        publish(dir.path(), 17, &[("routing.env", ROUTED)]);
        let all = environment(&settings, Routing::Default, 17).unwrap();
        let of = |name: &str| all.iter().find(|v| v.name == name).map(|v| (v.value.as_str(), v.overwrite));
        assert_eq!(of("SAROUTER_SL"), Some(("3", true)));
        for name in &settings.sl_env {
            assert_eq!(of(name), Some(("3", false)), "{name}");
        }
        assert_eq!(environment(&settings, Routing::None, 17), Ok(vec![]));
        for (level, good) in [("SAROUTER_SL=15", true), ("SAROUTER_SL=16", false), ("SAROUTER_SL=x", false)] {
            publish(dir.path(), 17, &[("routing.env", &ROUTED.replace("SAROUTER_SL=3", level))]);
            assert_eq!(environment(&settings, Routing::Default, 17).is_ok(), good, "{level}");
        }
        publish(dir.path(), 17, &[("routing.env", &ROUTED.replace("SAROUTER_SL=3\n", ""))]);
        let without = environment(&settings, Routing::Default, 17).unwrap();
        assert!(without.iter().all(|v| v.name.starts_with("SAROUTER_")));
    }

    #[test]
    fn a_job_inside_another_keeps_nothing_of_it() {
        let settings = settings(tempfile::tempdir().unwrap().path());
        let outer = [
            ("SAROUTER_JOB", "6"),
            ("SAROUTER_SL", "7"),
            ("SAROUTER_SL_ib1", "3"),
            ("UCX_IB_SL", "7"),
            ("NCCL_IB_SL", "2"),
            ("PATH", "7"),
        ];
        let outer = outer.map(|(name, value)| (name.to_string(), value.to_string()));
        // The user's own choice stays, and all of a step of the same job.
        let gone = inherited(&settings, 17, &outer);
        assert_eq!(gone, ["SAROUTER_JOB", "SAROUTER_SL", "SAROUTER_SL_ib1", "UCX_IB_SL"]);
        assert!(inherited(&settings, 6, &outer).is_empty());
        assert!(inherited(&settings, 17, &outer[1..]).is_empty());
    }

    #[test]
    fn path_bits_go_to_ucx_and_never_over_the_users() {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(dir.path());
        for (bits, good) in [("0", true), ("1", true), ("2", false), ("x", false)] {
            let text = format!("{ROUTED}SAROUTER_LID_PATH_BITS={bits}\n");
            publish(dir.path(), 17, &[("routing.env", &text)]);
            let all = environment(&settings, Routing::Default, 17);
            assert_eq!(all.is_ok(), good, "{bits}");
            let Ok(all) = all else { continue };
            let found: Vec<_> = all.iter().filter(|v| v.name == "UCX_IB_LID_PATH_BITS").collect();
            assert!(found.len() == 1 && found[0].value == bits && !found[0].overwrite, "{found:?}");
        }
    }
}

//! Jobs that wait for nodes, and the nodes that are idle: what placement asks Slurm.
//!
//! `scontrol -o show job` says everything about a pending job in one call and on one line, also
//! what `squeue` cannot print (AdminComment). A job's name and comment are its owner's: whoever
//! writes ` AdminComment=` into them deceives about his own job only. Slurm prints new lines in them as they are,
//! so they can make lines that look like other jobs ([`Listed::twice`]).

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hostlist::{self, Budget};
use super::jobs::JobsError;
use crate::model::{JobId, Mix, NodeName, Submission, TrafficRules, executable, hint};

/// Arguments of `scontrol` for [`jobs`]; times as seconds since 1970 with
/// `SLURM_TIME_FORMAT=%s`.
pub const SCONTROL_ARGUMENTS: [&str; 3] = ["-o", "show", "job"];
/// Arguments of `sinfo` for [`idle`]: drained, reserved and unreachable nodes are not idle.
pub const SINFO_ARGUMENTS: [&str; 6] = ["-h", "-N", "-t", "idle", "-o", "%N|%R|%f|%T"];

/// Who holds a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Its owner, or priority 0 at submission.
    User,
    /// An administrator: us, or a person.
    Admin,
}

/// What a job wants: if this changes while it waits, a decision made for it is void.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Wants {
    /// Nodes, at least.
    pub nodes: usize,
    /// Partitions, as Slurm writes them.
    pub partition: String,
    /// Feature expression; empty if none.
    pub features: String,
    /// Nodes it must not get.
    pub excluded: Vec<NodeName>,
    /// What it says that it exchanges, or what a rule of the site guesses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<Mix>,
}

/// A pending job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Number by which Slurm knows it.
    pub id: JobId,
    /// What it wants.
    pub wants: Wants,
    /// Nodes it must get; empty if any will do.
    pub required: Vec<NodeName>,
    /// The administrator's comment; empty if none.
    pub admin_comment: String,
    /// Who holds it.
    pub held: Option<Held>,
    /// Slurm's reason for its waiting.
    pub reason: String,
    /// When it may start at the earliest, if known.
    pub eligible: Option<DateTime<Utc>>,
    /// A single job that asks for no reservation: arrays and parts of heterogeneous jobs are not.
    pub simple: bool,
    /// Who submitted it, for the rules of the site.
    pub submission: Submission,
}

impl Pending {
    /// Guesses what it exchanges, unless it says it. O(rules).
    pub fn guess(&mut self, rules: &TrafficRules) {
        let guess = || rules.guess(&self.submission).map(|guess| guess.mix);
        self.wants.mix = self.wants.mix.take().or_else(guess);
    }
}

/// What `scontrol` says of all jobs.
#[derive(Debug, Default)]
pub struct Listed {
    /// Those that wait, by id.
    pub jobs: Vec<Pending>,
    /// Ids of several lines, of which all but one were made up. None of them is in `jobs`: to be asked about alone
    /// ([`one`]).
    pub twice: Vec<JobId>,
    /// What is not understood, which keeps nobody else waiting.
    pub wrong: Vec<JobsError>,
}

/// Idle nodes of each partition with their features.
pub type Idle = BTreeMap<String, Vec<(NodeName, Vec<String>)>>;

/// The pending jobs in the output of `scontrol`. `name` is for messages.
///
/// # Errors
/// If it does not begin with a job.
pub fn jobs(text: &str, name: &str) -> Result<Listed, JobsError> {
    let wrong = |line: usize, message: String| JobsError::Line { name: name.to_string(), line, message };
    let lines = || text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty());
    match lines().next() {
        Some((i, line)) if !line.starts_with("JobId=") && !line.starts_with("No jobs in the system") => {
            return Err(wrong(i + 1, "does not begin with JobId=".to_string()));
        }
        _ => (),
    }
    // Other lines are the rest of somebody's name or comment.
    let records = lines().filter_map(|(i, line)| Some((i, line, id(line)?)));
    let (mut listed, mut budget, mut seen) = (Listed::default(), Budget::default(), BTreeMap::new());
    for (_, _, id) in records.clone() {
        *seen.entry(id).or_insert(0) += 1;
    }
    for (i, line, id) in records.filter(|(_, _, id)| seen[id] == 1) {
        match job(id, line, &mut budget) {
            Ok(job) => listed.jobs.extend(job),
            Err(message) => listed.wrong.push(wrong(i + 1, message)),
        }
    }
    listed.twice = seen.into_iter().filter(|(_, n)| *n > 1).map(|(id, _)| id).collect();
    listed.twice.sort_by_key(|id| (id.as_str().len(), id.clone()));
    sort(&mut listed.jobs);
    Ok(listed)
}

/// By id, as numbers.
pub fn sort(jobs: &mut [Pending]) {
    jobs.sort_by_key(|j| (j.id.as_str().len(), j.id.clone()));
}

/// The same for one job in the output of `scontrol` about it alone, which begins with it. `None` if it does not wait.
///
/// # Errors
/// If it does not begin with that job, or that is not understood.
pub fn one(asked: &JobId, text: &str, name: &str) -> Result<Option<Pending>, JobsError> {
    let line = text.lines().next().unwrap_or("");
    let found = id(line).filter(|id| id == asked).ok_or_else(|| format!("does not begin with JobId={asked}"));
    found.and_then(|id| job(id, line, &mut Budget::default())).map_err(|message| JobsError::Line {
        name: name.to_string(),
        line: 1,
        message,
    })
}

/// Whose line it is.
fn id(line: &str) -> Option<JobId> {
    line.strip_prefix("JobId=").and_then(|rest| JobId::new(rest.split(' ').next()?).ok())
}

fn job(id: JobId, line: &str, budget: &mut Budget) -> Result<Option<Pending>, String> {
    // Behind the job's name, which may hold anything.
    let rest = line.find(" UserId=").map_or(line, |at| &line[at..]);
    let field = |key: &str| {
        let start = rest.find(&format!(" {key}=")).map(|at| at + key.len() + 2);
        start.and_then(|at| rest[at..].split(' ').next()).filter(|v| *v != "(null)").unwrap_or("")
    };
    if field("JobState") != "PENDING" {
        return Ok(None);
    }
    // A pattern that is not understood says nothing: submission refuses it.
    let told = |comment: &str| hint(comment).ok().flatten();
    let admin_comment = words(rest, "AdminComment");
    let mut nodes = |key: &str| match field(key) {
        "" => Ok(Vec::new()),
        list => hostlist::expand_within(list, budget).map_err(|e| e.to_string()),
    };
    let count = field("NumNodes").split('-').next().unwrap_or("");
    let seconds = |key: &str| field(key).parse().ok().and_then(|s| DateTime::from_timestamp(s, 0));
    let reason = field("Reason").to_string();
    let held = match reason.as_str() {
        "JobHeldAdmin" => Some(Held::Admin),
        "JobHeldUser" => Some(Held::User),
        _ if field("Priority") == "0" => Some(Held::User),
        _ => None,
    };
    let array = line.contains(" ArrayJobId=") || line.contains(" HetJobId=");
    Ok(Some(Pending {
        id,
        wants: Wants {
            nodes: count.parse().map_err(|_| format!("NumNodes={count} is not a number"))?,
            partition: field("Partition").to_string(),
            features: field("Features").to_string(),
            excluded: nodes("ExcNodeList")?,
            mix: told(words(rest, "Comment")).or_else(|| told(admin_comment)),
        },
        required: nodes("ReqNodeList")?,
        admin_comment: admin_comment.to_string(),
        held,
        reason,
        eligible: seconds("EligibleTime"),
        simple: !array && field("Reservation").is_empty(),
        submission: Submission {
            account: field("Account").to_string(),
            partition: field("Partition").to_string(),
            user: field("UserId").split('(').next().unwrap_or("").to_string(),
            name: name(line).to_string(),
            executable: executable(field("Command")).to_string(),
        },
    }))
}

/// A text with spaces: all up to the next `KEY=`. Empty if there is none.
fn words<'a>(line: &'a str, key: &str) -> &'a str {
    let Some(at) = line.find(&format!(" {key}=")) else { return "" };
    let text = &line[at + key.len() + 2..];
    let is_key = |word: &str| {
        let key = word.split_once('=').map_or("", |(key, _)| key);
        key.starts_with(|c: char| c.is_ascii_uppercase())
            && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b':')
    };
    let spaces = text.match_indices(' ').map(|(at, _)| at);
    let end = spaces.into_iter().find(|at| is_key(text[at + 1..].split(' ').next().unwrap_or("")));
    let text = text[..end.unwrap_or(text.len())].trim_end();
    if text == "(null)" { "" } else { text }
}

/// The job's name, which may hold anything.
fn name(line: &str) -> &str {
    let name = line.split_once(" JobName=").map_or("", |(_, rest)| rest);
    name.split(" UserId=").next().unwrap_or("")
}

/// The idle nodes in the output of `sinfo`. `name` is for messages.
///
/// # Errors
/// With the line that is not `NODE|PARTITION|FEATURES|STATE`.
pub fn idle(text: &str, name: &str) -> Result<Idle, JobsError> {
    let mut idle = Idle::new();
    for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let wrong = |message: String| JobsError::Line { name: name.to_string(), line: i + 1, message };
        let parts: Vec<&str> = line.split('|').collect();
        let [node, partition, features, state] = parts[..] else {
            return Err(wrong("wants NODE|PARTITION|FEATURES|STATE".into()));
        };
        // `idle*` does not answer, `idle~` sleeps: not nodes to count on.
        if state != "idle" {
            continue;
        }
        let node = NodeName::new(node).map_err(|e| wrong(e.to_string()))?;
        let features = features.split(',').filter(|f| !f.is_empty() && *f != "(null)").map(String::from);
        idle.entry(partition.to_string()).or_default().push((node, features.collect()));
    }
    Ok(idle)
}

impl Wants {
    /// The idle nodes that would do, or `None` if what the job wants is beyond this: several
    /// partitions, or features other than `a&b`.
    pub fn candidates(&self, idle: &Idle) -> Option<Vec<NodeName>> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "&,_-.".contains(c);
        if self.partition.contains(',') || !self.features.chars().all(plain) {
            return None;
        }
        let wanted: Vec<&str> = self.features.split(['&', ',']).filter(|f| !f.is_empty()).collect();
        let nodes = idle.get(&self.partition).map_or(&[][..], Vec::as_slice);
        let fits = |(node, has): &&(NodeName, Vec<String>)| {
            wanted.iter().all(|f| has.iter().any(|h| h == f)) && !self.excluded.contains(node)
        };
        Some(nodes.iter().filter(fits).map(|(node, _)| node.clone()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TrafficRule;

    /// As Slurm 22.05 prints it, shortened.
    const HELD: &str = "JobId=7 JobName=x AdminComment=sarouter:require UserId=root(0) Priority=0 JobState=PENDING \
        Reason=JobHeldAdmin Dependency=(null) EligibleTime=1795257476 StartTime=1795257482 Partition=all \
        AllocNode:Sid=localhost:756 ReqNodeList=n[1-2] ExcNodeList=n9 NodeList= NumNodes=2-4 NumCPUs=8 \
        Features=a&b DelayBoot=00:00:00 Reservation=(null) AdminComment=sarouter:prefer  Comment=x";

    #[test]
    fn a_pending_job_is_read_and_its_name_cannot_lie_for_it() {
        let running = HELD.replace("PENDING", "RUNNING").replace("JobId=7", "JobId=8");
        let array = HELD.replace(" JobName", " ArrayJobId=9 ArrayTaskId=1-3 JobName").replace("=7", "=10");
        let found = jobs(&format!("{array}\n{running}\n{HELD}\n"), "scontrol").unwrap().jobs;
        assert_eq!(found.len(), 2);
        let job = &found[0];
        assert_eq!((job.id.as_str(), job.wants.nodes, job.wants.partition.as_str()), ("7", 2, "all"));
        assert_eq!((job.admin_comment.as_str(), job.held), ("sarouter:prefer", Some(Held::Admin)));
        let submitted = &job.submission;
        assert_eq!((submitted.user.as_str(), submitted.partition.as_str()), ("root", "all"));
        assert_eq!(
            (submitted.account.as_str(), submitted.name.as_str()),
            ("", "x AdminComment=sarouter:require")
        );
        assert_eq!((job.required.len(), job.wants.excluded[0].as_str()), (2, "n9"));
        assert_eq!(job.eligible.unwrap().timestamp(), 1_795_257_476);
        assert!(job.simple && !found[1].simple);
        assert_eq!(jobs("No jobs in the system\n", "scontrol").unwrap().jobs, []);
        let error = jobs("slurm_load_jobs error\n", "scontrol").unwrap_err();
        assert!(error.to_string().starts_with("scontrol:1: does not begin with JobId="), "{error}");
    }

    #[test]
    fn new_lines_in_a_comment_are_no_jobs_of_others_and_keep_nobody_waiting() {
        let other = HELD.replace("JobId=7", "JobId=8");
        let forged = HELD.replace("Comment=x", "Comment=x\nJobId=8 UserId=a JobState=PENDING NumNodes=1\n=?\nJobId=9 UserId=a JobState=PENDING NumNodes=x");
        for text in [format!("{forged}\n{other}\n"), format!("{other}\n{forged}\n")] {
            let listed = jobs(&text, "scontrol").unwrap();
            let ids: Vec<&str> = listed.jobs.iter().map(|j| j.id.as_str()).collect();
            assert_eq!((ids, listed.twice), (vec!["7"], vec![JobId::new("8").unwrap()]));
            let [wrong] = &listed.wrong[..] else { panic!("{:?}", listed.wrong) };
            assert!(wrong.to_string().contains("NumNodes=x is not a number"), "{wrong}");
        }
        let asked = JobId::new("7").unwrap();
        assert_eq!(one(&asked, &forged, "scontrol").unwrap().unwrap().wants.nodes, 2);
        assert!(one(&asked, &other, "scontrol").is_err());
    }

    #[test]
    fn a_pending_job_says_what_it_exchanges_or_a_rule_does() {
        let read =
            |comment: &str| jobs(&HELD.replace(" Comment=x", comment), "scontrol").unwrap().jobs.remove(0);
        let mix = |job: &Pending| job.wants.mix.as_ref().map(ToString::to_string);
        assert_eq!(mix(&read("")), None);
        let said =
            read(" Comment=night run; sarouter:pattern=ring StdErr=/x Comment=sarouter:pattern=linear");
        assert_eq!(mix(&said).as_deref(), Some("ring"));
        assert_eq!(mix(&read(" Comment=sarouter:patern=ring StdErr=/x")), None);
        let tagged = HELD.replace("sarouter:prefer", "site note sarouter:prefer;sarouter:pattern=linear");
        let mut tagged = jobs(&tagged, "scontrol").unwrap().jobs.remove(0);
        assert_eq!(tagged.admin_comment, "site note sarouter:prefer;sarouter:pattern=linear");
        assert_eq!(mix(&tagged).as_deref(), Some("linear"), "a job_submit rule says it");
        let rule = TrafficRule {
            account: None,
            partition: Some("al?".into()),
            user: Some("root".into()),
            name: None,
            executable: Some("run.*".into()),
            pattern: "halo2d".parse().unwrap(),
        };
        let rules = TrafficRules(vec![rule]);
        tagged.guess(&rules);
        assert_eq!(mix(&tagged).as_deref(), Some("linear"), "what is said counts");
        let mut silent = read(" Command=/home/a/run.sh 3 WorkDir=/x");
        silent.guess(&rules);
        assert_eq!(mix(&silent).as_deref(), Some("halo2d"));
    }

    #[test]
    fn candidates_are_idle_in_the_partition_and_have_the_features() {
        let text = "n1|all|a,b|idle\nn2|all|a|idle\nn3|all|a,b|idle*\nn9|all|a,b|idle\nn1|fast|(null)|idle\n";
        let idle = idle(text, "sinfo").unwrap();
        let mut wants = jobs(HELD, "scontrol").unwrap().jobs.remove(0).wants;
        let names =
            |w: &Wants| w.candidates(&idle).map(|c| c.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(names(&wants).unwrap(), ["n1"]);
        wants.features.clear();
        assert_eq!(names(&wants).unwrap(), ["n1", "n2"]);
        wants.features = "a|b".into();
        assert_eq!(names(&wants), None);
        assert!(super::idle("n1|all\n", "sinfo").is_err());
    }
}

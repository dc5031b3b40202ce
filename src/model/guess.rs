//! What is guessed of jobs that do not say what they exchange: a site's rules.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Mix;

/// Who submitted a job, where to and under which name, as far as Slurm says it; empty where it does not.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct Submission {
    /// Account that is charged.
    pub account: String,
    /// Where it was submitted to.
    pub partition: String,
    /// Name of the user.
    pub user: String,
    /// Name of the job.
    pub name: String,
    /// Base name of its program, see [`executable`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub executable: String,
}

/// Base name of the program of a job, of its command as Slurm prints it: what follows the last `/` of the first word.
/// Slurm joins path and arguments with spaces, so a path with a space in it is read up to there. Empty if Slurm knows
/// none, as of `sbatch --wrap`. What else a command says, such as a password, is not kept.
///
/// ```
/// use sarouter_core::model::executable;
/// assert_eq!(executable("/home/ann/run.sh 7 in/put"), "run.sh");
/// assert_eq!(executable("(null)"), "");
/// ```
pub fn executable(command: &str) -> &str {
    let first = command.split_whitespace().next().unwrap_or("");
    let base = first.rsplit('/').next().unwrap_or("");
    if first == "(null)" { "" } else { base }
}

/// Who submitted a job, as long as it is in memory: nothing writes it. Tells no job from another.
#[derive(Clone, Default)]
pub enum Submitted {
    /// The source does not say it.
    #[default]
    Unknown,
    /// It says user and partition alone: too little for rules, which would take the wrong one.
    InPart(Box<Submission>),
    /// It says all that it knows.
    Known(Box<Submission>),
}

impl Submitted {
    /// For people.
    pub fn said(&self) -> Option<&Submission> {
        match self {
            Self::Unknown => None,
            Self::InPart(said) | Self::Known(said) => Some(said),
        }
    }

    /// For rules.
    pub fn known(&self) -> Option<&Submission> {
        match self {
            Self::Known(said) => Some(said),
            Self::Unknown | Self::InPart(_) => None,
        }
    }
}

impl fmt::Debug for Submitted {
    /// Without what is in it: no log has it either.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Submitted")
    }
}

impl PartialEq for Submitted {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Submitted {}

/// Jobs of one kind, and what they exchange. What is `None` may be anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrafficRule {
    /// Account: text with `*` for any letters and `?` for one, as in the others.
    pub account: Option<String>,
    /// Only jobs of this one; `None` means any.
    pub partition: Option<String>,
    /// Name of the user.
    pub user: Option<String>,
    /// Name of the job.
    pub name: Option<String>,
    /// Base name of its program; a job whose program is not known is none of these, whatever the text.
    pub executable: Option<String>,
    /// What such jobs exchange.
    pub pattern: Mix,
}

impl fmt::Display for TrafficRule {
    /// `partition gpu*, name train-*: ring`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = ["account", "partition", "user", "name", "executable"];
        let said = [&self.account, &self.partition, &self.user, &self.name, &self.executable];
        let wanted = keys.into_iter().zip(said);
        let said: Vec<String> =
            wanted.filter_map(|(key, is)| Some(format!("{key} {}", is.as_ref()?))).collect();
        let who = if said.is_empty() { "all others".to_string() } else { said.join(", ") };
        write!(f, "{who}: {}", self.pattern)
    }
}

/// What a job is taken to exchange.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Traffic {
    /// What such a job exchanges.
    pub mix: Mix,
    /// Whether a rule of the site says so, and not the job.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guessed: bool,
}

impl Traffic {
    /// What the job says itself.
    pub fn said(mix: Mix) -> Self {
        Self { mix, guessed: false }
    }
}

/// The rules of a site: the first that a job meets counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrafficRules(pub Vec<TrafficRule>);

impl TrafficRules {
    /// What a job is taken to exchange that does not say it; `None` if no rule knows such jobs.
    /// O(rules × length of pattern × length of name).
    pub fn guess(&self, job: &Submission) -> Option<Traffic> {
        let program = &job.executable;
        let runs = |wanted: &String| !program.is_empty() && is_like(wanted, program);
        let meets = |rule: &&TrafficRule| rule.is_of(job) && rule.executable.as_ref().is_none_or(runs);
        self.0.iter().find(meets).map(|rule| Traffic { mix: rule.pattern.clone(), guessed: true })
    }

    /// Whether what is guessed of a job hangs on its program: a rule for programs comes before any other that it meets.
    /// O(rules × length of pattern × length of name).
    pub fn need_executable(&self, job: &Submission) -> bool {
        self.0.iter().find(|rule| rule.is_of(job)).is_some_and(|rule| rule.executable.is_some())
    }
}

impl TrafficRule {
    /// Whether it is for such jobs, whatever program they run.
    fn is_of(&self, job: &Submission) -> bool {
        let pairs = [
            (&self.account, &job.account),
            (&self.partition, &job.partition),
            (&self.user, &job.user),
            (&self.name, &job.name),
        ];
        pairs.iter().all(|(wanted, is)| wanted.as_ref().is_none_or(|wanted| is_like(wanted, is)))
    }
}

/// Whether a text is as `*` (any letters) and `?` (one letter) say. O(one length × the other).
fn is_like(wanted: &str, text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    // Whether what was read of the pattern stands for so many first letters.
    let mut stands = vec![false; text.len() + 1];
    stands[0] = true;
    for letter in wanted.chars() {
        if letter == '*' {
            let from = stands.iter().position(|s| *s).unwrap_or(text.len() + 1);
            stands.iter_mut().skip(from).for_each(|s| *s = true);
            continue;
        }
        for at in (0..text.len()).rev() {
            stands[at + 1] = stands[at] && (letter == '?' || letter == text[at]);
        }
        stands[0] = false;
    }
    stands[text.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_letters_and_question_marks_for_one() {
        for (wanted, text) in [
            ("", ""),
            ("*", ""),
            ("*", "abc"),
            ("a*", "a"),
            ("*c", "abc"),
            ("a?c", "aßc"),
            ("a*b*c", "axbxbxc"),
            ("**", "x"),
        ] {
            assert!(is_like(wanted, text), "{wanted} {text}");
        }
        for (wanted, text) in [
            ("", "a"),
            ("a", ""),
            ("?", ""),
            ("a*", "ba"),
            ("*c", "abcd"),
            ("a?c", "ac"),
            ("a*b*c", "axcxb"),
            ("A", "a"),
        ] {
            assert!(!is_like(wanted, text), "{wanted} {text}");
        }
    }

    #[test]
    fn the_first_rule_that_a_job_meets_counts() {
        let none = || TrafficRule {
            account: None,
            partition: None,
            user: None,
            name: None,
            executable: None,
            pattern: Mix::default(),
        };
        let rules = TrafficRules(vec![
            TrafficRule {
                partition: Some("gpu*".into()),
                name: Some("train-*".into()),
                pattern: "ring".parse().unwrap(),
                ..none()
            },
            TrafficRule { account: Some("cfd".into()), pattern: "halo3d".parse().unwrap(), ..none() },
            TrafficRule { user: Some("ann?".into()), pattern: "linear".parse().unwrap(), ..none() },
        ]);
        let guess = |account: &str, partition: &str, user: &str, name: &str| {
            let [account, partition, user, name] = [account, partition, user, name].map(str::to_string);
            let executable = "lmp".to_string();
            rules
                .guess(&Submission { account, partition, user, name, executable })
                .map(|guess| guess.mix.to_string())
        };
        assert_eq!(guess("cfd", "gpu2", "anna", "train-7").as_deref(), Some("ring"));
        assert_eq!(guess("cfd", "gpu2", "anna", "test").as_deref(), Some("halo3d"));
        assert_eq!(guess("bio", "cpu", "anna", "train-7").as_deref(), Some("linear"));
        assert_eq!(guess("bio", "cpu", "ann", "train-7"), None);
        assert_eq!(rules.0[0].to_string(), "partition gpu*, name train-*: ring");
        assert_eq!(none().to_string(), "all others: default");
        assert_eq!(TrafficRules::default().guess(&Submission::default()), None);
    }

    #[test]
    fn a_rule_for_programs_knows_none_whose_program_is_not_known() {
        let rule = |partition: Option<&str>, executable: Option<&str>, pattern: &str| TrafficRule {
            account: None,
            partition: partition.map(str::to_string),
            user: None,
            name: None,
            executable: executable.map(str::to_string),
            pattern: pattern.parse().unwrap(),
        };
        let rules = TrafficRules(vec![
            rule(Some("gpu"), None, "ring"),
            rule(None, Some("lmp*"), "halo3d"),
            rule(None, Some("*"), "linear"),
            rule(Some("cpu"), None, "shift"),
        ]);
        let job = |partition: &str, command: &str| Submission {
            partition: partition.into(),
            executable: executable(command).into(),
            ..Submission::default()
        };
        let guess = |partition: &str, command: &str| {
            rules.guess(&job(partition, command)).map(|guess| guess.mix.to_string()).unwrap_or_default()
        };
        assert_eq!(guess("cpu", "/opt/lmp_mpi -in /home/x"), "halo3d");
        assert_eq!(guess("cpu", "/opt/vasp /lmp"), "linear");
        assert_eq!(guess("gpu", "/opt/lmp_mpi"), "ring");
        // No `*` stands for a program that is not known.
        for unknown in ["", "(null)", "  "] {
            assert_eq!((guess("cpu", unknown), guess("x", unknown)), ("shift".into(), String::new()));
        }
        assert!(rules.need_executable(&job("cpu", "")) && !rules.need_executable(&job("gpu", "")));
        assert_eq!(rules.0[1].to_string(), "executable lmp*: halo3d");
        for (command, want) in [("run", "run"), ("/a/b c/run.sh", "b"), ("/a/", ""), ("x\ny z", "x")] {
            assert_eq!(executable(command), want, "{command:?}");
        }
    }
}

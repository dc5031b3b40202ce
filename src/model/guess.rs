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
    /// Partition.
    pub partition: String,
    /// Name of the user.
    pub user: String,
    /// Name of the job.
    pub name: String,
}

/// Who submitted a job, until it was guessed by. Tells no job from another.
#[derive(Debug, Clone, Default)]
pub struct Submitted(pub Option<Box<Submission>>);

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
    /// Partition.
    pub partition: Option<String>,
    /// Name of the user.
    pub user: Option<String>,
    /// Name of the job.
    pub name: Option<String>,
    /// What such jobs exchange.
    pub pattern: Mix,
}

impl fmt::Display for TrafficRule {
    /// `partition gpu*, name train-*: ring`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = ["account", "partition", "user", "name"];
        let wanted = keys.into_iter().zip([&self.account, &self.partition, &self.user, &self.name]);
        let said: Vec<String> =
            wanted.filter_map(|(key, is)| Some(format!("{key} {}", is.as_ref()?))).collect();
        let who = if said.is_empty() { "all others".to_string() } else { said.join(", ") };
        write!(f, "{who}: {}", self.pattern)
    }
}

/// What a job is taken to exchange.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Traffic {
    /// What.
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
        let meets = |rule: &&TrafficRule| {
            let pairs = [
                (&rule.account, &job.account),
                (&rule.partition, &job.partition),
                (&rule.user, &job.user),
                (&rule.name, &job.name),
            ];
            pairs.iter().all(|(wanted, is)| wanted.as_ref().is_none_or(|wanted| is_like(wanted, is)))
        };
        self.0.iter().find(meets).map(|rule| Traffic { mix: rule.pattern.clone(), guessed: true })
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
            rules.guess(&Submission { account, partition, user, name }).map(|guess| guess.mix.to_string())
        };
        assert_eq!(guess("cfd", "gpu2", "anna", "train-7").as_deref(), Some("ring"));
        assert_eq!(guess("cfd", "gpu2", "anna", "test").as_deref(), Some("halo3d"));
        assert_eq!(guess("bio", "cpu", "anna", "train-7").as_deref(), Some("linear"));
        assert_eq!(guess("bio", "cpu", "ann", "train-7"), None);
        assert_eq!(rules.0[0].to_string(), "partition gpu*, name train-*: ring");
        assert_eq!(none().to_string(), "all others: default");
        assert_eq!(TrafficRules::default().guess(&Submission::default()), None);
    }
}

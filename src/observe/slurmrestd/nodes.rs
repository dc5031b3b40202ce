//! Which nodes Slurm calls idle, by its HTTP interface.
//!
//! What differs between versions: `state` is a word, with the rest in `state_flags`, or a list of words.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{NAME, Slurmrestd, beside, complaint, in_time};
use crate::model::{NodeName, plain, shown};
use crate::observe::jobs::JobsError;
use crate::observe::jobs::slurm_json::States;
use crate::observe::source::PollError;

impl Slurmrestd {
    /// The nodes that `sinfo` would call `idle`, ascending, each once. Takes no longer than its deadline.
    ///
    /// # Errors
    /// If slurmrestd does not answer or is not understood.
    pub async fn idle(&mut self) -> Result<Vec<NodeName>, PollError> {
        in_time(self.deadline, async {
            loop {
                match self.idle_once().await {
                    Err(error) if self.goes_back(&error) => {}
                    answer => return answer,
                }
            }
        })
        .await
    }

    async fn idle_once(&mut self) -> Result<Vec<NodeName>, PollError> {
        let client = self.client()?;
        let path = format!("/slurm/{}/nodes", self.version(&client).await?);
        let response = self.get(&client, &path).await?;
        self.note_version(&response);
        let text = self.text(response, &path).await?;
        Ok(beside(move || idle(&text)).await?)
    }
}

/// The answer; unknown keys are skipped.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    errors: Vec<IgnoredAny>,
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    name: String,
    state: States,
    #[serde(default)]
    state_flags: Vec<String>,
    /// `sinfo` shows no node that is in none.
    #[serde(default)]
    partitions: Option<Vec<String>>,
}

/// Flags that `sinfo` does not show: where a node comes from.
const HARMLESS: [&str; 3] = ["CLOUD", "DYNAMIC_NORM", "DYNAMIC_FUTURE"];

impl Node {
    /// Idle, and nothing else: neither drained nor reserved, asleep, or planned for a job.
    fn is_idle(&self) -> bool {
        let Some((state, flags)) = self.state.words().split_first() else { return false };
        let is_harmless = |flag: &String| HARMLESS.iter().any(|known| flag.eq_ignore_ascii_case(known));
        state.eq_ignore_ascii_case("idle")
            && flags.iter().chain(&self.state_flags).all(is_harmless)
            && self.partitions.as_ref().is_none_or(|partitions| !partitions.is_empty())
    }
}

fn idle(text: &str) -> Result<Vec<NodeName>, JobsError> {
    let wrong = |line, message| JobsError::Line { name: NAME.into(), line, message };
    let answer: Answer =
        serde_json::from_str(text).map_err(|error| wrong(error.line(), plain(&error.to_string())))?;
    if !answer.errors.is_empty() {
        return Err(JobsError::Slurm { name: NAME.into(), message: shown(&complaint(text)).into_owned() });
    }
    let idle = answer.nodes.into_iter().filter(Node::is_idle);
    let mut nodes: Vec<NodeName> = idle
        .map(|node| NodeName::new(node.name).map_err(|error| wrong(0, error.to_string())))
        .collect::<Result<_, _>>()?;
    nodes.sort_unstable();
    nodes.dedup();
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        idle(text).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_node_is_idle_if_it_is_nothing_else() {
        // As Slurm 22.05 says it.
        let node = |name: &str, state: &str, flags: &str| {
            format!(
                r#"{{"name": "{name}", "state": "{state}", "state_flags": [{flags}], "partitions": ["all"], "cpus": 1}}"#
            )
        };
        let nodes = [
            node("n2", "idle", ""),
            node("n1", "idle", "\"CLOUD\""),
            node("n3", "idle", "\"DRAIN\""),
            node("n4", "idle", "\"RESERVED\""),
            node("n5", "idle", "\"CLOUD\", \"MAINTENANCE\""),
            node("n6", "allocated", ""),
            node("n7", "down", ""),
            node("n8", "idle", "\"PLANNED\""),
            node("n9", "idle*", ""),
        ];
        let text = format!(r#"{{"meta": {{}}, "errors": [], "nodes": [{}]}}"#, nodes.join(", "));
        assert_eq!(found(&text), ["n1", "n2"]);
        // And newer versions.
        let text = r#"{"nodes": [
            {"name": "n1", "state": ["IDLE"], "partitions": ["all", "fast"]},
            {"name": "n2", "state": ["IDLE", "DRAIN"], "partitions": ["all"]},
            {"name": "n3", "state": ["IDLE", "DYNAMIC_NORM"]},
            {"name": "n4", "state": ["MIXED"], "partitions": ["all"]},
            {"name": "n5", "state": [], "partitions": ["all"]},
            {"name": "n6", "state": ["IDLE", "RESERVED"], "partitions": ["all"]},
            {"name": "n7", "state": ["IDLE"], "partitions": []}],
            "last_update": {"set": true, "number": 17}, "warnings": [], "errors": []}"#;
        assert_eq!(found(text), ["n1", "n3"]);
    }

    #[test]
    fn what_is_no_list_of_nodes_is_refused() {
        for (text, wanted) in [
            ("{", "slurmrestd:1: "),
            (r#"{"jobs": []}"#, "the key \"nodes\" is missing"),
            (r#"{"nodes": [], "errors": [{"description": "no\ncontroller"}]}"#, "Slurm reports: no"),
            (r#"{"nodes": [{"name": "a b", "state": "idle"}]}"#, "slurmrestd:0: "),
        ] {
            let error = idle(text).unwrap_err().to_string();
            assert!(error.contains(wanted) && !error.contains('\n'), "{error}");
        }
    }
}

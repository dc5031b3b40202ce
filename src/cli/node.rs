//! `sarouter node NODE`: where a node is attached, and whose it is.

use std::fmt::Write;

use serde_json::Value;

use super::state::{print_each, service};
use super::{Answer, Context, Failure};
use crate::model::NodeName;
use crate::service::client::ClientError;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Asks the service; nothing is changed. Exit 1 if it knows no such node.\n\n\
                        Example: sarouter node n17")]
pub struct Args {
    /// Slurm's name of the node
    #[arg(value_name = "NODE")]
    node: NodeName,
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    let (client, fabrics) = service(context)?;
    let (mut found, mut missing): (Vec<(Option<String>, Value)>, _) = (Vec::new(), String::new());
    for (settings, place) in fabrics {
        match client.wait(client.get(&format!("{place}/v1/nodes/{}", args.node))) {
            Err(ClientError::Refused { status: 404, message }) => missing = message,
            node => found.push((settings.name, node?)),
        }
    }
    if found.is_empty() {
        return context.no(&missing);
    }
    print_each(&found, |i| text(&found[i].1), context)?;
    Ok(Answer::Yes)
}

fn text(found: &Value) -> String {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
    let list = |key: &str| {
        let jobs: Vec<String> = found[key].as_array().into_iter().flatten().map(word).collect();
        if jobs.is_empty() { "none".to_string() } else { jobs.join(", ") }
    };
    let mut out = format!("node        {}", word(&found["node"]));
    for adapter in found["terminals"].as_array().into_iter().flatten() {
        let _ = write!(
            out,
            "\nadapter     {}, LID {}: port {} of switch {} ({})",
            word(&adapter["guid"]),
            adapter["lid"],
            adapter["port"],
            word(&adapter["switch_description"]),
            word(&adapter["switch"])
        );
    }
    if let Some(at) = found["at"].as_str() {
        let health = if found["healthy"] == true { "healthy" } else { "failed" };
        let _ = write!(out, "\nat          {at} of the torus, {health}\ntables of   {}", list("tables"));
    }
    let _ = write!(out, "\njobs        {}", list("jobs"));
    out
}

//! `sarouter verify`: a verdict on any tables.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::common::write_file_with;
use super::input;
use super::route_angara::{self, TorusArgs, is_torus};
use super::{Answer, Context, Failure};
use crate::model::{Fabric, Layer, LayerBudget, Promise, SplitLids, Tables};
use crate::observe::nodes::{NodeNames, name_hosts};
use crate::observe::{fabric, jobs};
use crate::publish::EpochNumber;
use crate::publish::dump::{read_certificate, write_certificate};
use crate::publish::handoff;
use crate::verify::{
    Beside, Certificate, Checks, Update, UpdateVerdict, Verdict, certify, judge_certified, judge_jobs,
    judge_update,
};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  sarouter verify --fabric site.ibnetdiscover --tables /var/log/opensm-lfts.dump

  sarouter verify --fabric site.ibnetdiscover \\
      --tables /var/lib/sarouter/epochs/000124 --promise any+mixed:123

  sarouter verify --fabric site.net --tables t \\
      --write-certificate t/certificate.txt
  sarouter verify --fabric site.net --tables t --certificate t/certificate.txt

  sarouter verify --fabric site.net --tables new \\
      --update-from old --high-lids updown

The exit status is 1 when the tables are rejected; the findings say why.")]
pub struct Args {
    /// Fabric: ibnetdiscover output, ibsim .net file, or a spec
    #[arg(long, value_name = "FILE|SPEC")]
    fabric: String,
    /// Tables: what `route --out` wrote, or a dump by OpenSM or infiniband-diags
    #[arg(long, value_name = "DIR|FILE")]
    tables: PathBuf,
    /// Layers of the routes; without it, those of the directory, or layer 0 for every route
    #[arg(long, value_name = "FILE")]
    layers_file: Option<PathBuf>,
    /// Virtual layers that may be used, 1 to 15
    #[arg(long, value_name = "K", default_value = "8")]
    layers: LayerBudget,
    /// What must be proved, several joined by + or commas: told (programs were told their SLs), untold (SL 0
    /// for all), any (every SL), reply (answers on the caller's SL), since:EPOCH (connections made
    /// under it), mixed:EPOCH (switches that still have its tables); EPOCH is a number beside
    /// --tables STATE/epochs/N, or a folder [default: any with a lane map, else told]
    #[arg(long, value_name = "PROMISE", value_delimiter = ',')]
    promise: Vec<AskedFor>,
    /// Instead of searching for cycles, hold each route against the order in this file, which --write-certificate
    /// wrote, or against that of an epoch's lft.bin, in time linear in the tables
    #[arg(long, value_name = "FILE", conflicts_with_all = ["layer_per_job", "write_certificate"])]
    certificate: Option<PathBuf>,
    /// Where to write such an order if the tables are accepted
    #[arg(long, value_name = "FILE")]
    write_certificate: Option<PathBuf>,
    /// Connection managers answer on the layer on which they were called: the same as --promise reply
    #[arg(long)]
    reverse_on_same_layer: bool,
    /// Judge only routes to hosts, not those to the management ports of switches and to aggregation nodes
    #[arg(long)]
    hosts_only: bool,
    /// Switches without hosts may have no way to hosts yet, nor these to them: the first of two steps to new routes,
    /// as after the loss of a cable ("halfway" in an epoch's plan.json). With mixed:EPOCH whoever is led nowhere by that
    /// epoch any more may be without a way, too
    #[arg(long, conflicts_with = "certificate")]
    first_step: bool,
    /// Also reject tables that have routes inside a job (--jobs) on several layers
    #[arg(long, requires = "jobs")]
    layer_per_job: bool,
    /// Jobs, of a direct torus or for --layer-per-job: squeue --json, a snapshot, or lines "ID HOSTLIST"
    #[arg(long, value_name = "FILE")]
    jobs: Option<String>,
    /// Judge a network update in which programs go to the high LID of each port (LMC 1) and come back: routes to
    /// base LIDs until now; --tables are the new ones. For programs that are told their SLs
    #[arg(long, value_name = "DIR|FILE", requires = "high_lids")]
    #[arg(conflicts_with_all = ["promise", "certificate", "write_certificate", "layer_per_job", "jobs", "first_step"])]
    #[arg(conflicts_with = "reverse_on_same_layer")]
    update_from: Option<PathBuf>,
    /// Routes to high LIDs, which stay, such as those of updown
    #[arg(long, value_name = "DIR|FILE", requires = "update_from")]
    high_lids: Option<PathBuf>,
    /// Layer that all routes to high LIDs are on [default: the last of --layers]
    #[arg(long, value_name = "L", requires = "high_lids")]
    high_layer: Option<u8>,
    #[command(flatten)]
    torus: TorusArgs,
}

/// Parts of `--promise`, joined as other commands take them and as the verdict prints them.
#[derive(Debug, Clone)]
struct AskedFor(Vec<Asked>);

impl FromStr for AskedFor {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut words: Vec<String> = Vec::new();
        for word in text.split('+') {
            match words.last_mut() {
                // A folder may have one in its name.
                Some(last) if last.contains(':') && word.parse::<Asked>().is_err() => {
                    last.push('+');
                    last.push_str(word);
                }
                _ => words.push(word.to_string()),
            }
        }
        words.iter().map(|word| word.parse()).collect::<Result<_, _>>().map(Self)
    }
}

/// One word of `--promise`.
#[derive(Debug, Clone)]
enum Asked {
    Part(Promise),
    Since(String),
    Mixed(String),
}

impl FromStr for Asked {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match (text.split_once(':'), text) {
            (Some(("since", epoch)), _) if !epoch.is_empty() => Ok(Self::Since(epoch.to_string())),
            (Some(("mixed", epoch)), _) if !epoch.is_empty() => Ok(Self::Mixed(epoch.to_string())),
            (None, "since" | "mixed") => Err(format!("{text} needs an epoch: {text}:17")),
            (None, _) => Promise::part(text).map(Self::Part).map_err(|e| e.to_string()),
            _ => Err(format!("{text:?} is not a promise: only since and mixed have an epoch")),
        }
    }
}

/// What is asked for, and the tables of the epochs it names.
struct Question {
    promise: Promise,
    since: Vec<Tables>,
    mixed: Vec<Tables>,
}

impl Question {
    fn new(args: &Args, fabric: &Fabric, tables: &Tables, lids: Option<&SplitLids>) -> Result<Self, Failure> {
        let mut question = Self { promise: Promise::NOTHING, since: Vec::new(), mixed: Vec::new() };
        for asked in args.promise.iter().flat_map(|asked| &asked.0) {
            let (part, epochs, epoch) = match asked {
                Asked::Part(part) => {
                    question.promise = question.promise.and(*part);
                    continue;
                }
                Asked::Since(epoch) => ("since", &mut question.since, epoch),
                Asked::Mixed(epoch) => ("mixed", &mut question.mixed, epoch),
            };
            let path = epoch_path(&args.tables, epoch);
            let (own, others) = input::read_tables_of_lids(fabric, &path, None)?;
            // Where one LID of each port keeps its routes, the other mixes with its own of before.
            let kept = lids.zip(others.as_ref()).is_some_and(|(now, before)| now.fresh != before.fresh);
            if part != "mixed" || !kept {
                epochs.push(own);
            }
            let changes = part != "mixed" || kept || lids.is_none();
            epochs.extend(others.filter(|_| changes).map(|others| (*others.kept).clone()));
            question.promise = question.promise.and(Promise::part(part)?);
        }
        question.promise.reply |= args.reverse_on_same_layer;
        if !question.promise.has_senders() {
            let part = if tables.lanes().is_some() && args.promise.is_empty() { "any" } else { "told" };
            question.promise = question.promise.and(Promise::part(part)?);
        }
        Ok(question)
    }
}

/// Where an epoch is: a number names a neighbour of the directory of tables.
fn epoch_path(tables: &Path, epoch: &str) -> PathBuf {
    let number: Option<EpochNumber> = epoch.parse().ok().filter(|_| !Path::new(epoch).is_dir());
    match number {
        Some(number) => tables.canonicalize().unwrap_or_default().with_file_name(number.directory()),
        None => epoch.into(),
    }
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    if is_torus(&args.fabric) {
        return verify_torus(&args, context);
    }
    args.torus.none_on_switches()?;
    if args.jobs.is_some() && !args.layer_per_job {
        return Err("--jobs is for a direct torus or for --layer-per-job: other checks know no jobs".into());
    }
    let fabric = fabric::load(&args.fabric)?;
    let (tables, lids) = input::read_tables_of_lids(&fabric, &args.tables, args.layers_file.as_deref())?;
    if let (Some(before), Some(high)) = (&args.update_from, &args.high_lids) {
        return update(&args, &fabric, &tables, (before, high), context);
    }
    let apart: Vec<Tables> = lids.iter().map(|lids| (*lids.kept).clone()).collect();
    let Question { promise, since, mixed } = Question::new(&args, &fabric, &tables, lids.as_ref())?;
    let checks = Checks { promise, hosts_only: args.hosts_only };
    let (answers_later, lost_later) = (args.first_step, args.first_step && !mixed.is_empty());
    let beside = Beside {
        since: &since,
        mixed: &mixed,
        apart: &apart,
        answers_later,
        lost_later,
        ..Beside::default()
    };
    let groups = match (&args.jobs, args.layer_per_job) {
        (Some(jobs), true) => {
            let nodes = name_hosts(&fabric, &NodeNames::default());
            nodes.place(&jobs::load(jobs)?).demand(&fabric, Vec::new()).groups
        }
        _ => Vec::new(),
    };
    let verdict = match &args.certificate {
        Some(_) if promise.mixed => {
            return Err(
                "--certificate is held against one epoch's tables: it cannot be judged for mixed".into()
            );
        }
        Some(path) => {
            let certificate = read(&fabric, path)?;
            let judge = |t| judge_certified(&fabric, t, args.layers, checks, &since, &certificate);
            // Those of both LIDs climb one order.
            let first = judge(&tables);
            apart.iter().map(judge).find(|verdict| first.accepted && !verdict.accepted).unwrap_or(first)
        }
        None => judge_jobs(&fabric, &tables, args.layers, checks, beside, &groups),
    };
    if let (Some(path), true) = (&args.write_certificate, verdict.accepted) {
        let certificate = certify(&fabric, &tables, args.layers, checks, beside);
        let certificate = certificate.ok_or("accepted tables have an order")?;
        write_file_with(path, |to| write_certificate(&fabric, &certificate, to))?;
    }
    context.print(&verdict, || text(&verdict, &tables, !apart.is_empty()))?;
    Ok(if verdict.accepted { Answer::Yes } else { Answer::No })
}

/// Judges tables of a direct torus, where options of switches mean nothing.
fn verify_torus(args: &Args, context: &Context) -> Result<Answer, Failure> {
    input::none_on_torus(&[
        ("--layers-file", args.layers_file.is_some()),
        ("--promise", !args.promise.is_empty()),
        ("--certificate", args.certificate.is_some()),
        ("--write-certificate", args.write_certificate.is_some()),
        ("--reverse-on-same-layer", args.reverse_on_same_layer),
        ("--hosts-only", args.hosts_only),
        ("--first-step", args.first_step),
        ("--layer-per-job", args.layer_per_job),
        ("--update-from", args.update_from.is_some()),
    ])?;
    route_angara::verify(&args.fabric, args.jobs.as_deref(), &args.tables, &args.torus, context)
}

/// Judges an update to `after`.
fn update(
    args: &Args,
    fabric: &Fabric,
    after: &Tables,
    (before, high): (&Path, &Path),
    context: &Context,
) -> Result<Answer, Failure> {
    let layer = args.high_layer.unwrap_or(args.layers.get() - 1);
    let layer = Layer::new(layer.into()).map_err(|e| format!("--high-layer: {e}"))?;
    let before = input::read_tables(fabric, before, None)?;
    let high = input::read_tables(fabric, high, None)?.on_layer(layer);
    let checks = Checks { promise: Promise::TOLD, hosts_only: args.hosts_only };
    let update = Update { before: &before, after, high: &high };
    let verdict = judge_update(fabric, update, args.layers, checks);
    context.print(&verdict, || update_text(&verdict))?;
    Ok(if verdict.accepted { Answer::Yes } else { Answer::No })
}

fn update_text(verdict: &UpdateVerdict) -> String {
    let is = |accepted: bool| if accepted { "accepted" } else { "rejected" };
    let mut text = format!("{}: property-preserving update\n", is(verdict.accepted));
    for (step, of) in &verdict.steps {
        let _ = writeln!(text, "  {step}: {}", is(of.accepted));
        for finding in &of.findings {
            let _ = writeln!(text, "    {finding}");
        }
    }
    if let Some(without) = verdict.without {
        let _ = writeln!(text, "  programs that do not take part: {without}");
    }
    text
}

fn read(fabric: &Fabric, path: &Path) -> Result<Certificate, Failure> {
    let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    if !handoff::is_handoff(&bytes) {
        return Ok(read_certificate(fabric, path, &bytes[..])?);
    }
    let epoch = handoff::decode(&bytes).map_err(|e| format!("{}: {e}", path.display()))?;
    let certificate = epoch.certificate(fabric);
    Ok(certificate.ok_or_else(|| format!("{}: there is no certificate of this fabric", path.display()))?)
}

fn text(verdict: &Verdict, tables: &Tables, both: bool) -> String {
    let promise = verdict.promise;
    let mut text = match (verdict.accepted, tables.lanes()) {
        (true, Some(_)) => format!(
            "accepted: every pair that cables join is reached, {} VLs by a lane map, no cycle (promise {promise})\n",
            tables.vls_used()
        ),
        (true, None) => format!(
            "accepted: every pair that cables join is reached, {} layers, each without a cycle (promise {promise})\n",
            tables.layers_used()
        ),
        (false, _) => format!("rejected: {} findings\n", verdict.findings_total),
    };
    if both {
        text += "  both LIDs of each port together\n";
    }
    for finding in &verdict.findings {
        let _ = writeln!(text, "  {finding}");
    }
    let listed = verdict.findings.len() as u64;
    if verdict.findings_total > listed {
        let _ = writeln!(text, "  … and {} more of these kinds", verdict.findings_total - listed);
    }
    if verdict.unreachable_pairs > 0 {
        let pairs = verdict.unreachable_pairs;
        let _ = writeln!(text, "{pairs} pairs of hosts are in different parts of the fabric");
    }
    text + match verdict.accepted {
        true => "Safe: no packet can wait for itself, and all that can be reached is.",
        false => "Not safe: OpenSM must not get these tables.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Result<Vec<String>, String> {
        let AskedFor(words) = text.parse()?;
        let say = |asked: &Asked| match asked {
            Asked::Part(part) => part.to_string(),
            Asked::Since(epoch) => format!("since {epoch}"),
            Asked::Mixed(epoch) => format!("mixed {epoch}"),
        };
        Ok(words.iter().map(say).collect())
    }

    /// What other commands call a promise, and what a verdict prints, is one here.
    #[test]
    fn parts_of_a_promise_are_joined_as_everywhere() {
        assert_eq!(said("untold+mixed:17").unwrap(), ["untold", "mixed 17"]);
        assert_eq!(said("since:a+b/c+any").unwrap(), ["since a+b/c", "any"]);
        assert!(said("any+all").unwrap_err().contains("told, untold"));
        assert!(said("any+mixed").unwrap_err().contains("mixed:17"));
    }
}

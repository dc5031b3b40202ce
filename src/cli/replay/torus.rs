//! What a replay on a direct torus takes of the arguments.

use super::{DEFAULT_ENGINES, Replay, given};
use crate::cli::input::none_on_torus;
use crate::cli::{Answer, Context, Failure, replay_direct};

/// Replays on a torus, or refuses what has a meaning on switched fabrics only.
pub(super) fn on_torus(args: &Replay, source: &str, context: &Context) -> Result<Answer, Failure> {
    args.storage.none_on_torus()?;
    // What has a default is given where it is another: the default itself changes nothing.
    none_on_torus(&[
        ("--tables", !args.given.is_empty()),
        ("--every", args.every != 600),
        ("--from", args.from.is_some()),
        ("--to", args.to.is_some()),
        ("--placement", !args.placement.is_empty()),
        ("--node-map", args.node_map.is_some()),
        ("--nodes-in-order", args.nodes_in_order),
        ("--strict", args.strict),
        ("--layers", args.layers.get() != 8),
        ("--layer-per-job", args.layer_per_job),
        ("--simulate", args.simulate > 0),
        ("--shard", args.shard.is_some()),
        ("--threads", args.threads.is_some()),
        ("--min-gain", args.min_gain > 0),
        ("--epochs-per-day", args.epochs_per_day > 0),
        ("--min-pause", args.min_pause > 0),
        ("--communication", args.communication != 30),
        ("--seed", args.seed != 1),
        ("--chunk", args.chunk != 144),
        ("--out", args.out.is_some()),
        ("--html", args.html.is_some()),
    ])?;
    let engines: &[String] = if args.engines.join(",") == DEFAULT_ENGINES { &[] } else { &args.engines };
    replay_direct::run(source, given(&args.trace), args.fields.as_deref(), engines, context)
}

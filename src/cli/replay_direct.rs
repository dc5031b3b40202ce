//! `sarouter replay` on a direct torus.

use super::input::complain_of_strangers;
use super::{Answer, Context, Failure};
use crate::lab::replay::direct::{DirectHistory, DirectSummary};
use crate::lab::replay::trace;
use crate::observe::torus_toml;
use crate::report::align;
use crate::route::angara::{ENGINES, TorusEngine, engine};

/// Lets each engine route the jobs of a trace one by one. No engines: all but the slow one.
pub fn run(
    fabric: &str,
    trace: &str,
    fields: Option<&str>,
    engines: &[String],
    context: &Context,
) -> Result<Answer, Failure> {
    let source = torus_toml::load(fabric)?;
    let trace = trace::load(trace, fields)?;
    let history = DirectHistory::new(&trace, &source.torus)?;
    let quick = || ENGINES.iter().filter(|name| **name != "angara-genetic").map(|name| name.to_string());
    let names: Vec<String> = if engines.is_empty() { quick().collect() } else { engines.to_vec() };
    let makers: Vec<_> = names.iter().map(|name| engine(name)).collect::<Result<_, _>>()?;
    let bar = context.bar(history.jobs() * makers.len(), "jobs");
    let transit = source.transit.unwrap_or_default();
    let replayed = |maker: &dyn TorusEngine| history.replay(&source.torus, transit, maker, &|| bar.inc(1));
    let summaries: Vec<DirectSummary> = makers.iter().map(|maker| replayed(maker.as_ref())).collect();
    bar.finish_and_clear();
    context.print(&summaries, || text(&source.torus.size_text(), &summaries))?;
    complain_of_strangers(&history.strangers);
    Ok(if history.strangers.is_empty() { Answer::Yes } else { Answer::No })
}

fn text(sizes: &str, summaries: &[DirectSummary]) -> String {
    let head = [
        "engine",
        "jobs",
        "refused",
        "slow-down",
        "fullest link, mean",
        "worst",
        "own",
        "beside others",
        "ms a job",
    ];
    let mut lines = vec![head.map(String::from).to_vec()];
    lines.extend(summaries.iter().map(|s| {
        // Of no job there is none.
        let slowdown = if s.routed == 0 { "-".to_string() } else { format!("{:.3}", s.slowdown_mean) };
        let ms = 1000.0 * s.seconds / (s.routed + s.refused.len()).max(1) as f64;
        vec![
            s.engine.clone(),
            s.routed.to_string(),
            s.refused.len().to_string(),
            slowdown,
            format!("{:.1}", s.max_mean),
            s.max_worst.to_string(),
            format!("{:.1}", s.own_mean),
            format!("{:.1}", s.busiest_mean),
            format!("{ms:.1}"),
        ]
    }));
    let refused = summaries.iter().find_map(|s| s.refused.first_key_value());
    let refused = refused.map(|(id, why)| format!("job {id} gets no tables: {why}\n")).unwrap_or_default();
    format!("direct torus {sizes}, each job routed when it starts\n{}{refused}", align(&lines))
}

//! What a run says to people.

use super::changes;
use super::printed::More;
use crate::report::align;
use crate::simulate::run::Outcome;

/// The runs, after the head.
pub fn runs(outcomes: &[Outcome]) -> Vec<Vec<String>> {
    let head = ["offered", "accepted", "worst", "best", "Gbyte/s", "latency µs", "99 % µs", "hops", "ended"];
    let mut lines = vec![head.map(String::from).to_vec()];
    let share = |v: Option<f64>| v.map_or("-".to_string(), |v| format!("{v:.3}"));
    for o in outcomes {
        let s = o.steady;
        lines.push(vec![
            share(s.and_then(|s| s.offered)),
            share(s.map(|s| s.accepted)),
            share(s.map(|s| s.quartiles[0])),
            share(s.map(|s| s.quartiles[4])),
            format!("{:.2}", o.throughput),
            format!("{:.3}", o.latency_mean_ns / 1000.0),
            format!("{:.3}", o.latency_p99_ns / 1000.0),
            format!("{:.2}", o.mean_hops),
            format!("{:?} after {:.1} µs", o.ended, o.time_ns / 1000.0),
        ]);
    }
    lines
}

/// A row for each run, and what more is known of jobs, pairs, changes and deadlocks.
pub fn of(outcomes: &[Outcome], more: &More) -> String {
    let mut text = align(&runs(outcomes));
    for mean in more.means.iter().flatten() {
        let offered = mean.offered.map_or(String::new(), |offered| format!(", offered {offered:.3}"));
        let ci95 = mean.ci95.map_or("-".to_string(), |ci95| format!("{ci95:.4}"));
        text += &format!(
            "mean of {} seeds{offered}: accepted {:.4} ± {ci95} (95 %)\n",
            mean.seeds, mean.accepted
        );
    }
    for job in more.jobs.iter().flatten() {
        let Some(id) = &job.id else { continue };
        let ms = job.finished_ns.map_or("never".to_string(), |ns| format!("{:.4} ms", ns / 1e6));
        let what = job.storage.map_or(String::new(), |what| format!(" {what}"));
        text += &format!("job \"{id}\"{what} on {} terminals: finished after {ms}\n", job.terminals);
    }
    for (what, values, unit) in
        [("latency_ns", &more.latency_ns, "ns"), ("bandwidth", &more.bandwidth, "Gbyte/s")]
    {
        let values = values.as_deref().unwrap_or_default();
        if let Some(last) = values.last() {
            let at = |share: f64| values[((values.len() - 1) as f64 * share) as usize];
            text += &format!(
                "{what}: 0 % {:.2}, 25 % {:.2}, 50 % {:.2}, 75 % {:.2}, 100 % {last:.2} {unit}\n",
                at(0.0),
                at(0.25),
                at(0.5),
                at(0.75)
            );
        }
    }
    text.extend(outcomes.iter().map(changes::text));
    for w in outcomes.iter().flat_map(|o| &o.deadlock) {
        text += &format!(
            "  {} packets behind one from terminal {} to {}: on {} layer {}, want {} layer {}\n",
            w.wait.packets, w.wait.src, w.wait.dst, w.channel, w.wait.lane, w.wanted, w.wait.wants_lane
        );
    }
    text
}

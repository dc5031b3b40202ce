//! The cables of an epoch that most routes inside jobs lead over.

use schemars::JsonSchema;
use serde::Serialize;

use crate::measure::effective_loads;
use crate::model::{ChannelId, Fabric, JobId, PlacedJob};
use crate::publish::{Epoch, StoreError};
use crate::report::align;
use crate::service::look::Named;

/// One direction of a cable.
#[derive(Debug, JsonSchema, Serialize)]
pub(in super::super) struct Cable {
    /// Its ends, with their ports.
    channel: String,
    /// Routes inside jobs that lead over it.
    routes: u64,
    /// Whose they are, most first.
    jobs: Vec<Share>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Share {
    job: JobId,
    routes: u64,
}

/// The fullest channels, at most so many, the fullest first; those that no job uses are not there.
///
/// # Errors
/// If the tables of the epoch cannot be read.
pub(super) fn fullest(epoch: &Epoch, named: &Named, most: usize) -> Result<Vec<Cable>, StoreError> {
    let fabric: &Fabric = &named.fabric;
    let tables = epoch.tables(fabric)?;
    let jobs = &epoch.plan().jobs;
    let placed = named.nodes.place(jobs).jobs;
    let multi: Vec<_> = placed.iter().filter(|job| job.ranks.is_multi_switch(fabric)).collect();
    let of = |job: &&PlacedJob| {
        (job.id.clone(), effective_loads(fabric, &tables, std::slice::from_ref(&job.ranks.group())))
    };
    let own: Vec<(JobId, Vec<u64>)> = multi.iter().map(of).collect();
    let routes = |c: usize| own.iter().map(|(_, loads)| loads[c]).sum::<u64>();
    let mut order: Vec<(u64, usize)> = (0..fabric.channels().len()).map(|c| (routes(c), c)).collect();
    order.retain(|(routes, _)| *routes > 0);
    order.sort_by_key(|(routes, c)| (std::cmp::Reverse(*routes), *c));
    let cable = |(routes, c): (u64, usize)| {
        let mut jobs: Vec<Share> =
            own.iter().map(|(job, loads)| Share { job: job.clone(), routes: loads[c] }).collect();
        jobs.retain(|share| share.routes > 0);
        jobs.sort_by(|a, b| b.routes.cmp(&a.routes).then_with(|| a.job.cmp(&b.job)));
        Cable { channel: fabric.channel_name(ChannelId::at(c)), routes, jobs }
    };
    Ok(order.into_iter().take(most).map(cable).collect())
}

/// A line for each.
pub(super) fn text(cables: &[Cable]) -> String {
    if cables.is_empty() {
        return "no job is on several switches: no cable carries routes inside jobs".to_string();
    }
    let mut rows = vec![["routes", "from -> to", "jobs (routes)"].map(String::from).to_vec()];
    for Cable { channel, routes, jobs } in cables {
        let jobs: Vec<String> = jobs.iter().map(|s| format!("{} ({})", s.job, s.routes)).collect();
        rows.push(vec![routes.to_string(), channel.clone(), jobs.join(", ")]);
    }
    align(&rows)
}

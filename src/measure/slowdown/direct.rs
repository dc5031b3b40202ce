//! The same on a direct torus, whose routes belong to pairs of nodes.
//!
//! A node is a terminal, its channels are the cables that the others compete for, and there is one lane. What
//! a job's exchange needs at least is the time of one message of each step on one cable.

use super::step::Flows;
use super::{MOST_STEPS, Paths, Time, mixed};
use crate::model::{Adapters, Mix, Routes, Torus, TorusJob};

/// Slow-down of each of these jobs, all at work at once, with its routes. Infinite if a pair that exchanges
/// has none. As [`super::slowdowns`].
pub fn of_routes<'a>(torus: &Torus, jobs: impl IntoIterator<Item = (&'a TorusJob, &'a Routes)>) -> Vec<f64> {
    let (jobs, routes): (Vec<&TorusJob>, Vec<&Routes>) = jobs.into_iter().unzip();
    let mixes: Vec<&Mix> = jobs.iter().map(|job| &job.mix).collect();
    mixed(&OnTorus::new(torus, jobs.into_iter().zip(routes)), &mixes, MOST_STEPS)
}

/// Geometric mean of the slow-downs of those jobs that have their routes already; 1 of none. As [`of_routes`].
pub fn mean_of_kept<'a>(torus: &Torus, jobs: impl IntoIterator<Item = &'a TorusJob>) -> f64 {
    let with_routes = jobs.into_iter().filter_map(|job| Some((job, job.kept()?)));
    Time::of(&of_routes(torus, with_routes)).slowdown_mean
}

/// Jobs with their routes.
pub(super) struct OnTorus<'a> {
    torus: &'a Torus,
    routes: Vec<&'a Routes>,
    /// By job and rank: place in the nodes of the job's routes.
    places: Vec<Vec<u32>>,
}

impl<'a> OnTorus<'a> {
    pub(super) fn new(torus: &'a Torus, jobs: impl IntoIterator<Item = (&'a TorusJob, &'a Routes)>) -> Self {
        let place = |(job, routes): (&TorusJob, &'a Routes)| {
            let at = |node| routes.nodes().binary_search(node).map_or(u32::MAX, |at| at as u32);
            (routes, job.ranks().iter().map(at).collect())
        };
        let (routes, places) = jobs.into_iter().map(place).unzip();
        Self { torus, routes, places }
    }

    /// Of a job's ranks.
    pub(super) fn places(&self, job: usize) -> &[u32] {
        &self.places[job]
    }

    /// Adds the flow from one place in the nodes of a job's routes to another; `None` if it does not arrive.
    pub(super) fn way(&self, job: usize, from: usize, to: usize, flows: &mut Flows) -> Option<()> {
        let routes = self.routes[job];
        let (source, sink) = (routes.nodes().get(from)?, routes.nodes().get(to)?);
        if from == to {
            flows.stay(job);
            return Some(());
        }
        let steps = routes.route(from, to);
        if steps.is_empty() {
            return None;
        }
        for (node, direction) in self.torus.walk(*source, steps) {
            flows.hop(self.torus.channel(node, direction) as u32, 0);
        }
        flows.end(job, sink.index() as u32);
        Some(())
    }
}

impl Paths for OnTorus<'_> {
    fn size(&self) -> [usize; 2] {
        [self.torus.channel_slots(), self.torus.len()]
    }

    fn ranks(&self) -> Vec<(usize, Adapters)> {
        self.places.iter().map(|places| (places.len(), Adapters::default())).collect()
    }

    fn walk(&self, group: usize, from: u32, to: u32, flows: &mut Flows) -> Option<()> {
        let [from, to] = [from, to].map(|rank| self.places[group][rank as usize] as usize);
        self.way(group, from, to, flows)
    }
}

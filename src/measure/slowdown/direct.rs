//! The same on a direct torus, whose routes belong to pairs of nodes.
//!
//! A node is a terminal, its channels are the cables that the others compete for, and there is one lane. What
//! a job's exchange needs at least is the time of one message of each step on one cable.

use super::step::Flows;
use super::{Paths, Time, mixed};
use crate::model::{Adapters, Mix, Routes, Torus, TorusJob};

/// Slow-down of each of these jobs, all at work at once, with its routes. Infinite if a pair that exchanges
/// has none. As [`super::slowdowns`].
pub fn of_routes<'a>(torus: &Torus, jobs: impl IntoIterator<Item = (&'a TorusJob, &'a Routes)>) -> Vec<f64> {
    let (jobs, routes): (Vec<&TorusJob>, Vec<&Routes>) = jobs.into_iter().unzip();
    let place = |routes: &Routes, job: &TorusJob| {
        let at = |node| routes.nodes().binary_search(node).map_or(u32::MAX, |at| at as u32);
        job.ranks().iter().map(at).collect()
    };
    let places = routes.iter().zip(&jobs).map(|(routes, job)| place(routes, job)).collect();
    let mixes: Vec<&Mix> = jobs.iter().map(|job| &job.mix).collect();
    mixed(&OnTorus { torus, routes, places }, &mixes)
}

/// Geometric mean of the slow-downs of those jobs that have their routes already; 1 of none. As [`of_routes`].
pub fn mean_of_kept<'a>(torus: &Torus, jobs: impl IntoIterator<Item = &'a TorusJob>) -> f64 {
    let with_routes = jobs.into_iter().filter_map(|job| Some((job, job.kept()?)));
    Time::of(&of_routes(torus, with_routes)).slowdown_mean
}

struct OnTorus<'a> {
    torus: &'a Torus,
    routes: Vec<&'a Routes>,
    /// By job and rank: place in the nodes of the job's routes.
    places: Vec<Vec<u32>>,
}

impl Paths for OnTorus<'_> {
    fn size(&self) -> [usize; 2] {
        [self.torus.channel_slots(), self.torus.len()]
    }

    fn ranks(&self) -> Vec<(usize, Adapters)> {
        self.places.iter().map(|places| (places.len(), Adapters::default())).collect()
    }

    fn walk(&self, group: usize, from: u32, to: u32, flows: &mut Flows) -> Option<()> {
        let (routes, places) = (self.routes[group], &self.places[group]);
        let [from, to] = [from, to].map(|rank| places[rank as usize] as usize);
        let (source, sink) = (routes.nodes().get(from)?, routes.nodes().get(to)?);
        let steps = routes.route(from, to);
        if steps.is_empty() {
            return None;
        }
        for (node, direction) in self.torus.walk(*source, steps) {
            flows.hop(self.torus.channel(node, direction) as u32, 0);
        }
        flows.end(group, sink.index() as u32);
        Some(())
    }
}

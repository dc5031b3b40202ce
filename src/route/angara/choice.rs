//! The choice every engine makes: one legal minimal route per pair. Pairs with a single one are
//! settled at once (the first stage of Algorithm 3); the others keep their alternatives.

use super::augment::Turns;
use super::minimal::Legal;
use super::shape::{MAX_HOPS, Shape};
use super::{MAX_JOB_NODES, TorusRouteError};
use crate::model::{Direction, NodeId, Routes, Step, Torus, TorusDemand, TorusJob, TorusTables};

/// A pair with several legal minimal routes.
#[derive(Debug, Clone, Copy)]
pub struct Flexible {
    /// Who sends.
    pub source: NodeId,
    /// Place of the pair in its job: source place × nodes + destination place.
    pub pair: u32,
    /// Its alternatives are `shapes[start..start + count]`.
    pub start: u32,
    /// Number of alternatives, at least 2.
    pub count: u16,
    /// Fewest changes of direction among the alternatives.
    pub turns: u8,
    /// Hops.
    pub length: u16,
    /// Directions of the first hops of its alternatives, one bit each.
    pub exits: u8,
}

/// All routes of one job: settled ones and alternatives.
pub struct Choice<'a> {
    /// The job's legal routes.
    pub legal: Legal<'a>,
    nodes: Vec<NodeId>,
    /// By pair: the route in force. Flexible pairs start with their first alternative.
    pub chosen: Vec<Shape>,
    /// Pairs with alternatives: sources by descending coordinates, the last dimension most
    /// significant, then destinations in descending order.
    pub flexible: Vec<Flexible>,
    /// Alternatives of all flexible pairs.
    pub shapes: Vec<Shape>,
    /// Routes that stay. Their pairs are neither in `flexible` nor have they a shape.
    kept: Option<&'a Routes>,
}

impl<'a> Choice<'a> {
    /// Enumerates every pair's routes and adds those of settled pairs, and those that stay, to the channel loads
    /// (in [`super::lanes::Lanes`]; an empty vector is sized).
    /// O(pairs × alternatives × dimensions + hops).
    ///
    /// # Errors
    /// The first pair without a route; a job that is too large.
    pub fn new(
        torus: &'a Torus,
        demand: &'a TorusDemand,
        job: usize,
        turns: &'a Turns,
        load: &mut Vec<u32>,
    ) -> Result<Self, TorusRouteError> {
        let the_job = &demand.jobs[job];
        check_size(the_job)?;
        let nodes = the_job.nodes().to_vec();
        let legal = Legal::new(torus, &demand.usable(torus, Some(job)), turns);
        let chosen = vec![Shape::default(); nodes.len() * nodes.len()];
        load.resize(legal.lanes.slots(), 0);
        let kept = the_job.kept();
        let mut choice = Self { legal, nodes, chosen, flexible: Vec::new(), shapes: Vec::new(), kept };
        choice.add_kept(torus, load);
        let mut found = Vec::new();
        for source in choice.source_order(torus) {
            let stays = |d: usize| kept.is_some_and(|kept| !kept.route(source, d).is_empty());
            for destination in (0..choice.nodes.len()).rev().filter(|d| *d != source && !stays(*d)) {
                choice.legal.minimal(choice.nodes[source], choice.nodes[destination], &mut found);
                if found.is_empty() {
                    return Err(choice.first_unroutable(torus, the_job));
                }
                choice.add(source, destination, &found, load);
            }
        }
        Ok(choice)
    }

    /// Sources by descending coordinates, the last dimension most significant.
    fn source_order(&self, torus: &Torus) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.sort_by_cached_key(|place| {
            let mut at = torus.coords(self.nodes[*place]).all();
            at.reverse();
            std::cmp::Reverse(at)
        });
        order
    }

    fn add(&mut self, source: usize, destination: usize, found: &[Shape], load: &mut [u32]) {
        let pair = source * self.nodes.len() + destination;
        self.chosen[pair] = found[0];
        if let [only] = found {
            self.legal.spans(self.nodes[source], only, |s| s.each(|c| load[c] += 1));
            return;
        }
        self.flexible.push(Flexible {
            source: self.nodes[source],
            pair: pair as u32,
            start: self.shapes.len() as u32,
            count: found.len() as u16,
            turns: found.iter().map(Shape::turns).min().unwrap_or(0) as u8,
            length: found[0].len() as u16,
            exits: found.iter().map(Shape::exit).fold(0, |set, exit| set | exit.bit()),
        });
        self.shapes.extend_from_slice(found);
    }

    fn first_unroutable(&self, torus: &Torus, job: &TorusJob) -> TorusRouteError {
        let mut found = Vec::new();
        for from in &self.nodes {
            for to in self.nodes.iter().filter(|to| *to != from) {
                self.legal.minimal(*from, *to, &mut found);
                if found.is_empty() {
                    return unroutable(torus, job, *from, *to);
                }
            }
        }
        unreachable!("called only when a pair has no route")
    }

    /// Alternatives of a flexible pair.
    #[inline]
    pub fn alternatives(&self, flexible: &Flexible) -> &[Shape] {
        &self.shapes[flexible.start as usize..flexible.start as usize + usize::from(flexible.count)]
    }

    /// Channels that are looked at when each route is taken up and laid again.
    pub fn visits(&self) -> u64 {
        let of_pair = |pair: &Flexible| u64::from(pair.length) * (u64::from(pair.count) + 2);
        self.flexible.iter().map(of_pair).sum()
    }

    /// Adds the routes that stay to channel loads. O(routes × hops).
    fn add_kept(&self, torus: &Torus, load: &mut [u32]) {
        for (source, _, steps) in self.kept.iter().flat_map(|kept| kept.pairs()) {
            for (at, direction) in torus.walk(source, steps) {
                let c = torus.coords(at).all()[direction.dim()];
                self.legal.lanes.span(at.0, c, direction, 1).each(|slot| load[slot] += 1);
            }
        }
    }

    /// Number of ordered pairs of different nodes.
    pub fn pairs(&self) -> usize {
        self.nodes.len() * self.nodes.len().saturating_sub(1)
    }

    /// Calls `visit` with every channel of the route from one place to another, in order.
    pub fn channels(&self, torus: &Torus, [from, to]: [usize; 2], mut visit: impl FnMut(usize)) {
        match self.kept.map(|kept| kept.route(from, to)).filter(|steps| !steps.is_empty()) {
            Some(steps) => {
                torus.walk(self.nodes[from], steps).for_each(|(at, to)| visit(torus.channel(at, to)));
            }
            None => {
                self.legal.channels(self.nodes[from], &self.chosen[from * self.nodes.len() + to], visit);
            }
        }
    }

    /// Chooses the alternatives over the channels that another table of the same job has; pairs that it leads otherwise
    /// stay. O(pairs × alternatives × hops).
    pub fn choose(&mut self, torus: &Torus, table: &Routes) {
        let width = self.nodes.len();
        let (mut wanted, mut own) = (Vec::new(), Vec::new());
        for place in 0..self.flexible.len() {
            let flexible = self.flexible[place];
            let pair = flexible.pair as usize;
            let steps = table.route(pair / width, pair % width);
            wanted.clear();
            wanted.extend(torus.walk(flexible.source, steps).map(|(at, to)| torus.channel(at, to)));
            let same = self.alternatives(&flexible).iter().find(|shape| {
                own.clear();
                self.legal.channels(flexible.source, shape, |c| own.push(c));
                own == wanted
            });
            self.chosen[pair] = same.copied().unwrap_or(self.chosen[pair]);
        }
    }

    /// The table of the chosen routes and those that stay. O(routes × hops).
    pub fn into_routes(mut self) -> Routes {
        // The table is as large as these: they go first.
        (self.flexible, self.shapes) = (Vec::new(), Vec::new());
        self.routes()
    }

    /// As [`Choice::into_routes`], beside what is needed to go on.
    pub fn routes(&self) -> Routes {
        let Self { nodes, chosen, kept, .. } = self;
        let mut routes = Routes::new(nodes.clone());
        routes.reserve(chosen.iter().map(Shape::len).sum());
        let mut steps = [Step::plain(Direction::at(0)); MAX_HOPS];
        let width = routes.nodes().len().max(1);
        for (pair, shape) in chosen.iter().enumerate() {
            let kept = kept.map_or(&[][..], |kept| kept.route(pair / width, pair % width));
            let steps = if kept.is_empty() { shape.steps(&mut steps) } else { kept };
            routes.push(steps.iter().copied());
        }
        routes
    }
}

/// The routes of a job, with those that stay in place of what an engine found.
pub(super) fn keeping(job: &TorusJob, found: Routes) -> Routes {
    let Some(kept) = job.kept() else { return found };
    let mut routes = Routes::new(found.nodes().to_vec());
    let places = 0..found.nodes().len();
    for (s, d) in places.clone().flat_map(|s| places.clone().map(move |d| (s, d))) {
        let stays = kept.route(s, d);
        let steps = if stays.is_empty() { found.route(s, d) } else { stays };
        routes.push(steps.iter().copied());
    }
    routes
}

/// Refuses jobs above [`MAX_JOB_NODES`].
pub(super) fn check_size(job: &TorusJob) -> Result<(), TorusRouteError> {
    if job.nodes().len() > MAX_JOB_NODES {
        return Err(TorusRouteError::TooLarge { job: label(job), nodes: job.nodes().len() });
    }
    Ok(())
}

/// The error for a pair without a route.
pub(super) fn unroutable(torus: &Torus, job: &TorusJob, from: NodeId, to: NodeId) -> TorusRouteError {
    TorusRouteError::Unroutable {
        job: label(job),
        source_name: torus.name(from).to_string(),
        source_at: torus.coords(from).to_string(),
        destination_name: torus.name(to).to_string(),
        destination_at: torus.coords(to).to_string(),
    }
}

fn label(job: &TorusJob) -> String {
    job.id.as_ref().map_or_else(|| "-".to_string(), |id| id.to_string())
}

/// The turns all jobs of a demand share, after checking the demand.
pub(super) fn turns(torus: &Torus, demand: &TorusDemand) -> Result<Turns, TorusRouteError> {
    demand.check(torus)?;
    Ok(Turns::of(torus, demand))
}

/// Wraps the routes of all jobs.
pub(super) fn tables(torus: &Torus, demand: &TorusDemand, engine: &str, routes: Vec<Routes>) -> TorusTables {
    TorusTables { torus: torus.fingerprint(), engine: engine.to_string(), demand: demand.clone(), routes }
}

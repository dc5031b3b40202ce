//! `angara-bfs`: Algorithms 1 and 2. One breadth-first search of the routing graph per source;
//! the tree is the table. Load is heeded only in the order in which a level is expanded.
//!
//! Where the paper leaves freedom:
//! - A vertex is sorted by the mean weight of its outgoing hops (without any, 0), equal ones last
//!   found first; edges are tried by direction, direction bits before first and last steps. Of the
//!   orders tried this one comes closest to Table 2 (48 on 32 nodes).
//! - Of the vertices of the first level that reaches a node, the first in order ends the route.
//! - The next source is the unprocessed node with the longest route from the last one, the first
//!   of several; the first source is the job's first node.
//! - Each job is routed as if alone.

use super::augment::Turns;
use super::choice;
use super::graph::{NONE, RoutingGraph, Vertex};
use super::{Limits, TorusEngine, TorusRouteError};
use crate::model::{NodeId, Routes, Step, Torus, TorusDemand, TorusTables};

/// See the module.
pub struct Bfs;

impl TorusEngine for Bfs {
    fn name(&self) -> &'static str {
        "angara-bfs"
    }

    fn route(
        &self,
        torus: &Torus,
        demand: &TorusDemand,
        _limits: &Limits<'_>,
    ) -> Result<TorusTables, TorusRouteError> {
        let turns = choice::turns(torus, demand)?;
        let routes = (0..demand.jobs.len()).map(|job| routes_of(torus, demand, job, &turns));
        Ok(choice::tables(torus, demand, self.name(), routes.collect::<Result<_, _>>()?))
    }
}

/// The routes of one job.
pub(super) fn routes_of(
    torus: &Torus,
    demand: &TorusDemand,
    job: usize,
    turns: &Turns,
) -> Result<Routes, TorusRouteError> {
    let usable = demand.usable(torus, Some(job));
    let job = &demand.jobs[job];
    choice::check_size(job)?;
    let graph = RoutingGraph::new(torus, &usable, turns);
    let found = BreadthFirst::new(torus, &graph).run(job.nodes());
    let found = found.map_err(|(from, to)| choice::unroutable(torus, job, from, to))?;
    Ok(choice::keeping(job, found))
}

struct BreadthFirst<'a> {
    graph: &'a RoutingGraph<'a>,
    load: Vec<u32>,
    parent: Vec<Vertex>,
    /// By vertex: channel and step that led to it.
    by: Vec<(u32, Step)>,
    /// By node: the vertex from which its end vertex was reached.
    ended: Vec<Vertex>,
}

impl<'a> BreadthFirst<'a> {
    fn new(torus: &Torus, graph: &'a RoutingGraph<'a>) -> Self {
        Self {
            graph,
            load: vec![0; torus.channel_slots()],
            parent: vec![NONE; graph.len()],
            by: vec![(0, Step::plain(crate::model::Direction::at(0))); graph.len()],
            ended: vec![NONE; torus.len()],
        }
    }

    /// Algorithm 1. The error is the first pair in order that has no route.
    fn run(mut self, nodes: &[NodeId]) -> Result<Routes, (NodeId, NodeId)> {
        let mut rows: Vec<Vec<Vec<Step>>> = vec![Vec::new(); nodes.len()];
        let mut next = (!nodes.is_empty()).then_some(0);
        while let Some(source) = next {
            self.tree(nodes[source]);
            let row: Vec<Vec<Step>> = nodes.iter().map(|d| self.take(*d)).collect();
            // Only the end of the whole run knows which unroutable pair is the first.
            let lengths: Vec<usize> = row.iter().map(Vec::len).collect();
            rows[source] = row;
            let waiting = (0..nodes.len()).filter(|p| rows[*p].is_empty());
            next = waiting.max_by_key(|p| (lengths[*p], std::cmp::Reverse(*p)));
        }
        let mut routes = Routes::new(nodes.to_vec());
        for (s, row) in rows.into_iter().enumerate() {
            for (d, steps) in row.into_iter().enumerate() {
                if steps.is_empty() && s != d {
                    return Err((nodes[s], nodes[d]));
                }
                routes.push(steps);
            }
        }
        Ok(routes)
    }

    /// Algorithm 2, the tree.
    fn tree(&mut self, source: NodeId) {
        self.parent.fill(NONE);
        self.ended.fill(NONE);
        let begin = self.graph.begin(source);
        self.parent[begin as usize] = begin;
        let mut level = vec![begin];
        let mut weighed: Vec<(u64, Vertex)> = Vec::new();
        while !level.is_empty() {
            weighed.clear();
            for vertex in &level {
                let (mut weight, mut hops) = (0, 0);
                self.graph.hops(*vertex, |_, channel, _| {
                    weight += u64::from(self.load[channel]);
                    hops += 1;
                });
                // In thousandths, so that means compare without fractions.
                weighed.push((weight * 1000 / hops.max(1), *vertex));
            }
            weighed.reverse();
            weighed.sort_by_key(|(weight, _)| *weight);
            level.clear();
            for (_, vertex) in &weighed {
                let node = self.graph.node(*vertex).index();
                if self.ended[node] == NONE {
                    self.ended[node] = *vertex;
                }
                self.graph.hops(*vertex, |to, channel, step| {
                    if self.parent[to as usize] == NONE {
                        self.parent[to as usize] = *vertex;
                        self.by[to as usize] = (channel as u32, step);
                        level.push(to);
                    }
                });
            }
        }
    }

    /// Algorithm 2, one path of the tree: its steps, counted in the load.
    fn take(&mut self, destination: NodeId) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut vertex = self.ended[destination.index()];
        while vertex != NONE && self.parent[vertex as usize] != vertex {
            let (channel, step) = self.by[vertex as usize];
            self.load[channel as usize] += 1;
            steps.push(step);
            vertex = self.parent[vertex as usize];
        }
        steps.reverse();
        steps
    }
}

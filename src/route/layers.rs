//! Spreading finished routes over virtual layers (thesis Algorithm 3.6, Domke et al. 2011): search
//! a cycle in the layer's dependency graph, move all routes on the cycle's weakest dependency to
//! the next layer, until no layer has a cycle.
//!
//! What moves is a route from all terminals of one switch to one destination. Dependencies carry
//! the number of routes that cause them; a destination's in-tree gives these numbers by one sweep,
//! and a moved subtree costs its own size and the way from it to the destination.

use super::cdg::Dependencies;
use super::forest::Forest;
use super::graph::Graph;

/// A deadlock-free assignment of routes to layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layering {
    /// `[dest * switches + switch]`, for the trees that were looked at, in their order.
    pub layers: Vec<u8>,
    /// Number of layers in use.
    pub used: usize,
}

/// Give up here: far beyond any hardware.
const MOST_LAYERS: u8 = 250;

/// Spreads the routes of the first `trees` trees of a forest over as many layers as it takes
/// (whatever the budget, so that the caller can say what would be needed).
///
/// Time: O(trees × switches) for an acyclic forest; each move costs its own dependencies; a
/// broken cycle costs O(trees) byte comparisons. Memory: 5 bytes per tree and switch, only if
/// there is a cycle at all.
pub fn assign(graph: &Graph, deps: &Dependencies, forest: &Forest, trees: usize) -> Layering {
    let switches = graph.switches();
    let mut sweep = Sweep::new(graph);
    let mut weight = vec![0; deps.len()];
    let mut row = vec![0; switches];
    for t in 0..trees {
        sweep.run(graph, deps, forest.tree(t), &mut row, Some(&mut weight));
    }
    let mut layering = Layering { layers: vec![0; trees * switches], used: 1 };
    let mut search = CycleSearch::new(graph);
    if search.is_acyclic(graph, deps, &weight) {
        return layering;
    }
    let mut flow = vec![0; trees * switches];
    for (t, row) in flow.chunks_mut(switches).enumerate() {
        sweep.run(graph, deps, forest.tree(t), row, None);
    }
    let mut spread = Spread {
        graph,
        deps,
        forest,
        by_switch: transpose(forest, trees),
        trees,
        layer: 0,
        layers: &mut layering.layers,
        here: Layer { weight, flow },
        next: Layer { weight: vec![0; deps.len()], flow: vec![0; trees * switches] },
        stack: Vec::new(),
    };
    loop {
        let moved = search.break_all(graph, deps, &mut spread);
        if !moved || spread.layer == MOST_LAYERS {
            break;
        }
        spread.descend();
    }
    layering.used = usize::from(spread.layer) + 1;
    layering
}

/// Sums the terminals of each subtree from the leaves of an in-tree.
struct Sweep {
    children: Vec<u16>,
    order: Vec<u32>,
}

impl Sweep {
    fn new(graph: &Graph) -> Self {
        Self { children: vec![0; graph.switches()], order: Vec::with_capacity(graph.switches()) }
    }

    /// Fills `flow[s]` with the number of routes that pass `s` and adds them to the dependencies.
    fn run(
        &mut self,
        graph: &Graph,
        deps: &Dependencies,
        tree: &[u8],
        flow: &mut [u16],
        mut weight: Option<&mut Vec<u32>>,
    ) {
        self.leaves_first(graph, tree);
        for (flow, own) in flow.iter_mut().zip(graph.terminals()) {
            *flow = *own as u16;
        }
        for &s in &self.order {
            let s = s as usize;
            let channel = graph.channel(s, tree[s]);
            let to = graph.to(channel);
            if tree[to] < Forest::HOME {
                flow[to] += flow[s];
                if let Some(weight) = weight.as_deref_mut() {
                    weight[deps.id(channel, tree[to])] += u32::from(flow[s]);
                }
            }
        }
    }

    /// All switches that forward, each before the one it forwards to.
    fn leaves_first(&mut self, graph: &Graph, tree: &[u8]) {
        self.children.fill(0);
        for s in 0..tree.len() {
            if let Some(to) = Forest::step(graph, tree, s) {
                self.children[to] += 1;
            }
        }
        self.order.clear();
        for s in 0..tree.len() {
            // Follow a path down as long as it only waits for what was just listed.
            let mut at = s;
            while self.children[at] == 0 {
                let Some(to) = Forest::step(graph, tree, at) else { break };
                self.children[at] = u16::MAX;
                self.order.push(at as u32);
                self.children[to] -= 1;
                if to > s {
                    break;
                }
                at = to;
            }
        }
    }
}

/// `[switch * trees + tree]`: a scan over all trees at one switch reads consecutive bytes.
fn transpose(forest: &Forest, trees: usize) -> Vec<u8> {
    const BLOCK: usize = 64;
    let switches = forest.switches();
    let mut turned = vec![0; trees * switches];
    for start in (0..trees).step_by(BLOCK) {
        let block = start..(start + BLOCK).min(trees);
        for s in 0..switches {
            for t in block.clone() {
                turned[s * trees + t] = forest.tree(t)[s];
            }
        }
    }
    turned
}

/// What one layer carries.
struct Layer {
    /// Routes per dependency.
    weight: Vec<u32>,
    /// Routes of the layer that pass a switch: `[tree * switches + switch]`; not kept at home.
    flow: Vec<u16>,
}

/// The layer at hand, and the next one that takes what must leave.
struct Spread<'a> {
    graph: &'a Graph,
    deps: &'a Dependencies,
    forest: &'a Forest,
    by_switch: Vec<u8>,
    trees: usize,
    layer: u8,
    layers: &'a mut [u8],
    here: Layer,
    next: Layer,
    stack: Vec<u32>,
}

impl Spread<'_> {
    /// Goes on to the next layer.
    fn descend(&mut self) {
        std::mem::swap(&mut self.here, &mut self.next);
        self.next.weight.fill(0);
        self.next.flow.fill(0);
        self.layer += 1;
    }

    /// Moves all routes that cause a dependency.
    fn move_dependency(&mut self, channel: usize, slot: u8) {
        let (from, to) = (self.graph.from(channel), self.graph.to(channel));
        let switches = self.forest.switches();
        let first = self.graph.slot(channel);
        let d = self.deps.id(channel, slot);
        let (from_row, to_row) = (from * self.trees, to * self.trees);
        for t in 0..self.trees {
            if self.by_switch[from_row + t] == first
                && self.by_switch[to_row + t] == slot
                && self.here.flow[t * switches + from] > 0
            {
                self.move_subtree(t, from);
                if self.here.weight[d] == 0 {
                    return;
                }
            }
        }
    }

    /// Moves all routes of one tree that pass a switch.
    fn move_subtree(&mut self, t: usize, top: usize) {
        let (graph, tree) = (self.graph, self.forest.tree(t));
        let row = t * tree.len()..(t + 1) * tree.len();
        let here = &mut self.here.flow[row.clone()];
        let next = &mut self.next.flow[row.clone()];
        let layers = &mut self.layers[row];
        let total = here[top];
        // From the top to the home switch.
        let mut channel = graph.channel(top, tree[top]);
        loop {
            let at = graph.to(channel);
            if tree[at] >= Forest::HOME {
                break;
            }
            let d = self.deps.id(channel, tree[at]);
            self.here.weight[d] -= u32::from(total);
            self.next.weight[d] += u32::from(total);
            here[at] -= total;
            next[at] += total;
            channel = graph.channel(at, tree[at]);
        }
        // Everything behind the top.
        self.stack.push(top as u32);
        while let Some(s) = self.stack.pop() {
            let s = s as usize;
            next[s] += here[s];
            here[s] = 0;
            if layers[s] == self.layer {
                layers[s] = self.layer + 1;
            }
            for leaving in graph.out(s) {
                let (child, entering) = (graph.to(leaving), graph.reverse(leaving));
                if here[child] > 0 && tree[child] == graph.slot(entering) {
                    let d = self.deps.id(entering, tree[s]);
                    self.here.weight[d] -= u32::from(here[child]);
                    self.next.weight[d] += u32::from(here[child]);
                    self.stack.push(child as u32);
                }
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Color {
    White,
    /// On the current path of the search.
    Grey,
    /// Leads to no cycle; stays so, because the layer only loses dependencies.
    Black,
}

/// Depth-first search that survives the removal of dependencies: what is known to lead to no cycle
/// stays known, and the current path is cut back only to its first dependency that is gone.
struct CycleSearch {
    color: Vec<Color>,
    /// Position on the path, for grey channels.
    position: Vec<u32>,
    /// Channel, and the next of its dependencies to look at, relative to its first.
    path: Vec<(u32, u32)>,
}

impl CycleSearch {
    fn new(graph: &Graph) -> Self {
        let n = graph.channels();
        Self { color: vec![Color::White; n], position: vec![0; n], path: Vec::new() }
    }

    fn is_acyclic(&mut self, graph: &Graph, deps: &Dependencies, weight: &[u32]) -> bool {
        self.color.fill(Color::White);
        for root in 0..graph.channels() {
            self.start(root);
            if self.advance(graph, deps, weight).is_some() {
                self.path.clear();
                return false;
            }
        }
        true
    }

    /// Breaks all cycles of the current layer; whether there were any.
    fn break_all(&mut self, graph: &Graph, deps: &Dependencies, spread: &mut Spread<'_>) -> bool {
        let mut moved = false;
        self.color.fill(Color::White);
        for root in 0..graph.channels() {
            self.start(root);
            while let Some(start) = self.advance(graph, deps, &spread.here.weight) {
                moved = true;
                let (channel, slot) = self.weakest(deps, &spread.here.weight, start);
                spread.move_dependency(channel, slot);
                self.cut_back(deps, &spread.here.weight);
            }
        }
        moved
    }

    fn start(&mut self, root: usize) {
        if self.color[root] == Color::White {
            self.push(root);
        }
    }

    fn push(&mut self, channel: usize) {
        self.color[channel] = Color::Grey;
        self.position[channel] = self.path.len() as u32;
        self.path.push((channel as u32, 0));
    }

    /// Searches on until the path closes: returns where on the path the cycle starts (it ends with
    /// the last channel's last dependency), or `None` when the path is exhausted.
    fn advance(&mut self, graph: &Graph, deps: &Dependencies, weight: &[u32]) -> Option<usize> {
        while let Some((channel, next)) = self.path.last_mut() {
            let c = *channel as usize;
            let all = deps.of(c);
            let rest = &weight[all.start + *next as usize..all.end];
            let Some(skip) = rest.iter().position(|w| *w > 0) else {
                self.color[c] = Color::Black;
                self.path.pop();
                continue;
            };
            let slot = *next + skip as u32;
            *next = slot + 1;
            let target = graph.channel(graph.to(c), slot as u8);
            match self.color[target] {
                Color::White => self.push(target),
                Color::Grey => return Some(self.position[target] as usize),
                Color::Black => {}
            }
        }
        None
    }

    /// The dependency of the cycle with the fewest routes, the first of several.
    fn weakest(&self, deps: &Dependencies, weight: &[u32], start: usize) -> (usize, u8) {
        let (mut best, mut least) = ((0, 0), u32::MAX);
        for &(channel, next) in &self.path[start..] {
            let (channel, slot) = (channel as usize, (next - 1) as u8);
            let w = weight[deps.id(channel, slot)];
            if w < least {
                (best, least) = ((channel, slot), w);
            }
        }
        best
    }

    /// Drops the part of the path behind its first missing dependency.
    fn cut_back(&mut self, deps: &Dependencies, weight: &[u32]) {
        let missing =
            |&(channel, next): &(u32, u32)| weight[deps.id(channel as usize, (next - 1) as u8)] == 0;
        if let Some(keep) = self.path.iter().position(missing) {
            for (channel, _) in self.path.drain(keep + 1..) {
                self.color[channel as usize] = Color::White;
            }
        }
    }
}

//! Multilevel k-way partitioning of the switches (after Karypis and Kumar, "Multilevel k-way
//! partitioning scheme for irregular graphs", 1998): coarsen by heavy-edge matching, grow the
//! parts greedily, refine at the boundary while uncoarsening. Deterministic.

use crate::model::Fabric;

/// Weighted undirected graph: `adjacent[v]` lists (neighbour, cables), ascending.
struct Graph {
    weight: Vec<u64>,
    adjacent: Vec<Vec<(u32, u64)>>,
}

/// Cuts the switches into `k` parts of nearly equal weight with few cables between them:
/// `result[switch]` is its part. `weight[switch]` is what balance counts.
/// O(channels × passes).
pub(super) fn partition(fabric: &Fabric, weight: &[u64], k: usize) -> Vec<usize> {
    let mut adjacent = vec![Vec::new(); weight.len()];
    for s in fabric.switch_ids() {
        let mut far: Vec<u32> = fabric.out(s).iter().map(|c| fabric.channel(*c).to.0).collect();
        far.sort_unstable();
        adjacent[s.index()] = far.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u64)).collect();
    }
    split(&Graph { weight: weight.to_vec(), adjacent }, k)
}

fn split(graph: &Graph, k: usize) -> Vec<usize> {
    if k <= 1 {
        return vec![0; graph.weight.len()];
    }
    let (coarse, parent) = coarsen(graph);
    let mut part = if coarse.weight.len() < 12 * k || coarse.weight.len() * 10 > graph.weight.len() * 9 {
        grow(graph, k)
    } else {
        let above = split(&coarse, k);
        parent.iter().map(|p| above[*p]).collect()
    };
    refine(graph, &mut part, k);
    part
}

/// Contracts a heavy-edge matching: the smaller graph, and for each vertex its parent there.
fn coarsen(graph: &Graph) -> (Graph, Vec<usize>) {
    let n = graph.weight.len();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_key(|v| (graph.adjacent[*v].len(), *v));
    let limit = graph.weight.iter().sum::<u64>() / 20 + 1;
    let mut parent = vec![usize::MAX; n];
    let mut count = 0;
    for v in order {
        if parent[v] != usize::MAX {
            continue;
        }
        let free = graph.adjacent[v].iter().filter(|(u, _)| {
            let u = *u as usize;
            u != v && parent[u] == usize::MAX && graph.weight[u] + graph.weight[v] <= limit
        });
        // The heaviest edge; among equals the lightest neighbour, so that vertices stay even.
        let best = free.max_by_key(|(u, w)| (*w, std::cmp::Reverse((graph.weight[*u as usize], *u))));
        parent[v] = count;
        if let Some((u, _)) = best {
            parent[*u as usize] = count;
        }
        count += 1;
    }
    let mut coarse = Graph { weight: vec![0; count], adjacent: vec![Vec::new(); count] };
    for v in 0..n {
        coarse.weight[parent[v]] += graph.weight[v];
        let edges = graph.adjacent[v].iter().map(|(u, w)| (parent[*u as usize] as u32, *w));
        coarse.adjacent[parent[v]].extend(edges.filter(|(u, _)| *u as usize != parent[v]));
    }
    for edges in &mut coarse.adjacent {
        edges.sort_unstable();
        let merged = edges.chunk_by(|a, b| a.0 == b.0).map(|run| (run[0].0, run.iter().map(|e| e.1).sum()));
        *edges = merged.collect();
    }
    (coarse, parent)
}

/// Grows one part after the other from the vertex that is least connected to the rest.
fn grow(graph: &Graph, k: usize) -> Vec<usize> {
    let n = graph.weight.len();
    let mut part = vec![usize::MAX; n];
    let mut left: u64 = graph.weight.iter().sum();
    for p in 0..k {
        let goal = left / (k - p) as u64;
        let mut grown = 0;
        // Cables into the growing part, by vertex.
        let mut pull = vec![0u64; n];
        while p + 1 == k || grown < goal.max(1) {
            let free = (0..n).filter(|v| part[*v] == usize::MAX);
            let rest = |v: usize| -> u64 {
                let open = graph.adjacent[v].iter().filter(|(u, _)| part[*u as usize] == usize::MAX);
                open.map(|e| e.1).sum()
            };
            let next = free.max_by_key(|v| (pull[*v], std::cmp::Reverse((rest(*v), *v))));
            let Some(v) = next else { break };
            part[v] = p;
            grown += graph.weight[v];
            graph.adjacent[v].iter().for_each(|(u, w)| pull[*u as usize] += w);
        }
        left -= grown.min(left);
    }
    part
}

/// Moves boundary vertices where that cuts fewer cables or evens out the parts.
fn refine(graph: &Graph, part: &mut [usize], k: usize) {
    let total: u64 = graph.weight.iter().sum();
    let heaviest = graph.weight.iter().max().copied().unwrap_or(0);
    let limit = (total / k as u64 + heaviest).max(total * 103 / (100 * k as u64));
    let mut load = vec![0u64; k];
    part.iter().zip(&graph.weight).for_each(|(p, w)| load[*p] += w);
    for _ in 0..8 {
        let mut moved = false;
        for v in 0..part.len() {
            let mut link = vec![0u64; k];
            graph.adjacent[v].iter().for_each(|(u, w)| link[part[*u as usize]] += w);
            let (own, weight) = (part[v], graph.weight[v]);
            let fits = |p: usize| load[p] + weight <= limit || load[p] + weight < load[own];
            let target = (0..k).filter(|p| *p != own && link[*p] > 0 && fits(*p));
            let Some(p) = target.max_by_key(|p| (link[*p], std::cmp::Reverse((load[*p], *p)))) else {
                continue;
            };
            let evens = link[p] == link[own] && load[p] + weight < load[own];
            if link[p] > link[own] || evens || load[own] > limit {
                part[v] = p;
                load[own] -= weight;
                load[p] += weight;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;

    fn cut(fabric: &Fabric, part: &[usize]) -> usize {
        let crosses = |c: &&crate::model::Channel| part[c.from.index()] != part[c.to.index()];
        fabric.channels().iter().filter(crosses).count() / 2
    }

    #[test]
    fn parts_are_even_and_the_cut_is_small() {
        let fabric = generate("torus:8x8x8,hosts=4").unwrap();
        let part = partition(&fabric, &vec![4; 512], 8);
        for p in 0..8 {
            let size = part.iter().filter(|q| **q == p).count();
            assert!((52..=76).contains(&size), "part {p} has {size} of 512 switches");
        }
        // Eight 4x4x4 cubes cut 8 x 96 / 2 = 384 cables; a random assignment would cut 1344.
        let cut = cut(&fabric, &part);
        assert!(cut <= 640, "{cut} cables cut");
    }

    #[test]
    fn more_parts_than_switches_and_one_part_work() {
        let fabric = generate("torus:3").unwrap();
        assert_eq!(partition(&fabric, &[1; 3], 1), [0, 0, 0]);
        assert!(partition(&fabric, &[1; 3], 8).iter().all(|p| *p < 8));
    }
}

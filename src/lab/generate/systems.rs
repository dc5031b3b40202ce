//! Three real systems, as far as thesis section 3.2.6 and Table 6.1 fix them. The counts are
//! theirs; what is assumed beyond them is said at each.

use super::builder::Net;
use super::spec::{Refusal, Words};

/// A director switch as a two-level tree.
struct Director {
    first: usize,
    leaves: usize,
    /// Front ports taken so far.
    taken: usize,
}

impl Director {
    /// `leaves` line boards, then `spines`; `up` cables from each board, spread over the spines.
    fn build(net: &mut Net, first: usize, leaves: usize, spines: usize, up: usize) -> Result<Self, Refusal> {
        for leaf in 0..leaves {
            for cable in 0..up {
                net.cable(first + leaf, first + leaves + (leaf * up + cable) % spines)?;
            }
        }
        Ok(Self { first, leaves, taken: 0 })
    }
    /// The board of the next front port, round-robin.
    fn next(&mut self) -> usize {
        self.taken += 1;
        self.first + (self.taken - 1) % self.leaves
    }
}

/// Shares `total` out over `parts`, the first ones getting one more.
fn share(total: usize, parts: usize, part: usize) -> usize {
    total / parts + usize::from(part < total % parts)
}

fn no_sizes(words: &Words) -> Result<(), Refusal> {
    if words.plain.is_empty() { Ok(()) } else { Err("takes no sizes".into()) }
}

/// `taurus`: 211 switches of 36 ports, 2,090 adapters, 2,490 inter-switch cables (Table 6.1); six
/// islands, each a two-level tree with full bisection, one of 180 hosts; a director of 216 ports.
///
/// Assumed: the director has 12 boards and 6 spines. A leaf has 18 uplinks, and 28 cables lead from each island's
/// spines to the director. With the counts this leaves 117 leaves and 76 spines in the islands. 10 and 6 of them are
/// for the island of 180 hosts (five spines would have no port left), and 21 or 22 and 14 for each other one. Hosts
/// are spread evenly over the leaves of those.
pub(super) fn taurus(words: &mut Words) -> Result<Net, Refusal> {
    const ISLANDS: [(usize, usize); 6] = [(10, 6), (22, 14), (22, 14), (21, 14), (21, 14), (21, 14)];
    no_sizes(words)?;
    let mut net = words.net(211)?;
    let mut director = Director::build(&mut net, 193, 12, 6, 18)?;
    let (mut first, mut other_leaf) = (0, 0);
    for (island, (leaves, spines)) in ISLANDS.into_iter().enumerate() {
        for leaf in 0..leaves {
            let hosts = if island == 0 { 18 } else { share(2_090 - 180, 107, other_leaf) };
            other_leaf += usize::from(island > 0);
            net.hosts(first + leaf, hosts)?;
            for up in 0..18 {
                net.cable(first + leaf, first + leaves + (leaf * 18 + up) % spines)?;
            }
        }
        for up in 0..28 {
            let board = director.next();
            net.cable(first + leaves + up % spines, board)?;
        }
        first += leaves + spines;
    }
    Ok(net)
}

/// `tsubame2[:rail=2][,spread=0]`: the second rail with 243 switches of 36 ports, 1,408 hosts and 3,384
/// inter-switch cables (Table 6.1), or the first with 258, 1,555 and 3,621 (section 4.4.4).
///
/// Assumed: six directors of 324 ports, each with 18 boards and 9 spines. Hosts are spread evenly over the edge
/// switches. So are, over the directors, the cables that the counts leave, 17 or 18 per edge switch. Those to one
/// director are all on one board, which agrees with the thesis' Table 5.2 far better than all on different ones
/// (`spread=1`).
pub(super) fn tsubame2(words: &mut Words) -> Result<Net, Refusal> {
    const DIRECTORS: usize = 6;
    const BOARDS: usize = 18;
    const SPINES: usize = 9;
    no_sizes(words)?;
    let (switches, hosts, cables) = match words.take("rail", 2)? {
        1 => (258, 1_555, 3_621),
        2 => (243, 1_408, 3_384),
        _ => return Err("rail is 1 or 2".into()),
    };
    let edges = switches - DIRECTORS * (BOARDS + SPINES);
    let spread = match words.take("spread", 0)? {
        0 => false,
        1 => true,
        _ => return Err("spread is 0 or 1".into()),
    };
    let mut net = words.net(switches)?;
    let mut directors = Vec::with_capacity(DIRECTORS);
    for d in 0..DIRECTORS {
        let first = edges + d * (BOARDS + SPINES);
        directors.push(Director::build(&mut net, first, BOARDS, SPINES, BOARDS)?);
    }
    let uplinks = cables - DIRECTORS * BOARDS * BOARDS;
    for edge in 0..edges {
        net.hosts(edge, share(hosts, edges, edge))?;
        for up in 0..share(uplinks, edges, edge) {
            let director = &mut directors[(edge + up) % DIRECTORS];
            let board = if spread { director.next() } else { director.first + edge % BOARDS };
            net.cable(edge, board)?;
        }
    }
    Ok(net)
}

/// `deimos`: three directors of 288 ports in series, 30 cables between neighbours, each a 24-ary
/// 2-tree of 24-port switches: 108 switches, 924 inter-switch cables.
///
/// Assumed: 729 adapters, which makes the 1,653 links of section 3.2.6 (it names 726 nodes,
/// section 4.1 names 728), shared out by front ports; those and the 30 cables go round the boards.
pub(super) fn deimos(words: &mut Words) -> Result<Net, Refusal> {
    const BOARDS: usize = 24;
    const SPINES: usize = 12;
    const BETWEEN: usize = 30;
    const HOSTS: [usize; 3] = [253, 223, 253];
    no_sizes(words)?;
    let mut net = words.net(3 * (BOARDS + SPINES))?;
    let mut directors = Vec::with_capacity(3);
    for d in 0..3 {
        directors.push(Director::build(&mut net, d * (BOARDS + SPINES), BOARDS, SPINES, SPINES)?);
    }
    for left in 0..2 {
        for _ in 0..BETWEEN {
            let (a, b) = (directors[left].next(), directors[left + 1].next());
            net.cable(a, b)?;
        }
    }
    for (director, hosts) in directors.iter_mut().zip(HOSTS) {
        for _ in 0..hosts {
            let board = director.next();
            net.hosts(board, 1)?;
        }
    }
    Ok(net)
}

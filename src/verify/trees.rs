//! The in-tree of a destination, rebuilt from the tables alone. Shared with `measure`.

use crate::model::{DestId, Fabric, PortPeer, Tables, Wiring};

/// No channel: a hole, a fault or the home switch.
pub const NO_CHANNEL: u32 = Wiring::NONE;
/// Depth of a switch from which the destination is not reached.
pub const LOST: u32 = u32::MAX;
const UNSEEN: u32 = u32::MAX - 1;
const ON_STACK: u32 = u32::MAX - 2;

/// A fabric and its tables in flat arrays, for one sweep per destination.
pub struct Trees<'a> {
    /// Where the routes are.
    pub fabric: &'a Fabric,
    /// What is judged.
    pub tables: &'a Tables,
    /// Its channels by switch and port.
    pub wiring: Wiring,
}

/// Routes of all switches to one destination. Reused from destination to destination.
pub struct Tree {
    /// The switch where the destination is.
    pub home: usize,
    /// Channel by which each switch forwards; [`NO_CHANNEL`] at home and where the port leads nowhere.
    pub next: Vec<u32>,
    /// Channels from each switch to home, or [`LOST`].
    pub depth: Vec<u32>,
    /// Switches that reach home: home first, each after the switch it forwards to.
    pub order: Vec<u32>,
    /// A switch on a forwarding loop, the first one found.
    pub looping: Option<u32>,
    stack: Vec<u32>,
}

impl<'a> Trees<'a> {
    /// O(ports of all switches).
    pub fn new(fabric: &'a Fabric, tables: &'a Tables) -> Self {
        Self { fabric, tables, wiring: fabric.wiring() }
    }

    /// Room for one tree.
    pub fn room(&self) -> Tree {
        let switches = self.fabric.switches().len();
        Tree {
            home: 0,
            next: vec![NO_CHANNEL; switches],
            depth: vec![LOST; switches],
            order: Vec::with_capacity(switches),
            looping: None,
            stack: Vec::new(),
        }
    }

    /// Fills `tree` for a destination. O(switches).
    pub fn trace(&self, d: DestId, tree: &mut Tree) {
        tree.home = self.fabric.home(d).index();
        tree.looping = None;
        tree.order.clear();
        for (s, port) in self.tables.ports_to(d).iter().enumerate() {
            let c = self.wiring.channel(s, *port);
            tree.next[s] = c;
            tree.depth[s] = if c == NO_CHANNEL { LOST } else { UNSEEN };
        }
        tree.next[tree.home] = NO_CHANNEL;
        tree.depth[tree.home] = 0;
        tree.order.push(tree.home as u32);
        for s in 0..tree.next.len() {
            if tree.depth[s] == UNSEEN {
                self.follow(s, tree);
            }
        }
    }

    /// Follows the route from `s` until a switch whose depth is known, then unwinds.
    fn follow(&self, s: usize, tree: &mut Tree) {
        let mut at = s;
        while tree.depth[at] == UNSEEN {
            tree.depth[at] = ON_STACK;
            tree.stack.push(at as u32);
            at = self.wiring.to[tree.next[at] as usize] as usize;
        }
        let mut depth = tree.depth[at];
        if depth == ON_STACK {
            tree.looping.get_or_insert(at as u32);
            depth = LOST;
        }
        while let Some(up) = tree.stack.pop() {
            if depth != LOST {
                depth += 1;
                tree.order.push(up);
            }
            tree.depth[up as usize] = depth;
        }
    }

    /// What the port that the tables name leads to; `None` if the switch has no such port.
    pub fn peer(&self, switch: usize, d: DestId) -> Option<PortPeer> {
        let s = crate::model::SwitchId::at(switch);
        self.tables.port(s, d).and_then(|port| self.fabric.peer(s, port))
    }
}

impl Tree {
    /// The switch that `s` forwards to; only for switches with a channel.
    #[inline]
    pub fn parent(&self, trees: &Trees<'_>, s: usize) -> usize {
        trees.wiring.to[self.next[s] as usize] as usize
    }
}

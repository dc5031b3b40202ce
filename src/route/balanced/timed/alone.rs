//! Routes of a tree from the choices of ways to sweeps over next hops; for a job that is alone again and again, until its
//! messages meet nowhere.

use super::super::routing::Routing;
use super::exchange::{Job, Unit};
use super::polish::Room;
use super::shape::Shape;
use super::tree::{self, Choices, Filler};
use super::{HEATS_TREE, HEATS_TREE_AGAIN};

/// Messages of a job times searches, at most.
const MESSAGES: usize = 1 << 16;
/// Entries of tables times searches, at most.
const ENTRIES: usize = 1 << 24;
/// Searches, at most.
const SEARCHES: usize = 64;

/// What is to be routed in a tree.
pub(super) struct Scene<'a> {
    pub(super) shape: &'a Shape,
    pub(super) jobs: &'a [Job],
    pub(super) units: &'a [Unit],
    /// Terminals whose routes stay.
    pub(super) settled: &'a [bool],
}

impl Routing<'_> {
    /// Routes the terminals that are not settled, beside the `choices` that were made. `None` if leaves are kept from
    /// each other by cables that are cut.
    pub(super) fn lead(
        &mut self,
        scene: &Scene<'_>,
        choices: &Choices,
        (seed, heats): (u64, &[f32]),
    ) -> Option<()> {
        let Scene { shape, jobs, units, settled } = *scene;
        let (net, switches) = (self.net, self.net.switches());
        let mut choices = choices.clone();
        tree::choose(shape, jobs, &self.home, &mut choices, seed);
        tree::choose_rest(shape, &self.home, &mut choices);
        let mut filler = Filler::new(net, shape);
        for t in (0..self.home.len()).filter(|t| !settled[*t]) {
            let row = &mut self.rows[t * switches..(t + 1) * switches];
            if !filler.fill(self.home[t] as usize, choices.ways[t], &choices.planes_of(t), t, row) {
                return None;
            }
        }
        let free: Vec<bool> = settled.iter().map(|s| !s).collect();
        let own = std::mem::replace(&mut self.seed, seed);
        self.polish(units, &free, &Room::Tree { levels: &shape.levels }, heats);
        self.seed = own;
        Some(())
    }

    /// Where one job is alone, and messages of one of its steps meet, searches again, cold and warm in turn. The routes
    /// with the fewest messages of one step on a channel stay, of these those with the least cost.
    pub(super) fn lead_alone(&mut self, scene: &Scene<'_>, choices: &Choices) -> Option<()> {
        let [unit] = scene.units else { return Some(()) };
        let searches =
            (MESSAGES / unit.messages().max(1)).min(ENTRIES / self.rows.len().max(1)).min(SEARCHES);
        if searches == 0 {
            return Some(());
        }
        let mut best = (self.met(unit), self.rows.clone());
        for again in 1..=searches as u64 {
            if best.0.0 <= 1 {
                break;
            }
            let heats = if again % 2 == 0 { &HEATS_TREE[..] } else { &HEATS_TREE_AGAIN[..] };
            self.lead(scene, choices, (self.seed + again, heats))?;
            let met = self.met(unit);
            if met < best.0 {
                best = (met, self.rows.clone());
            }
        }
        self.rows = best.1;
        Some(())
    }
}

//! Which dimension and direction the classes of parallel cables are of.

use std::collections::VecDeque;

use super::classes::{Classes, Net};
use super::{Layout, MOST_DIMENSIONS, NotAGrid, name};
use crate::model::{Fabric, Shape, SwitchId};

/// Directions as bits: `2 * dimension` down, `2 * dimension + 1` up.
type Directions = u32;

/// The bits of all ways down.
const DOWNS: Directions = 0x5555_5555;

fn opposite(of: Directions) -> Directions {
    (of & DOWNS) << 1 | of >> 1 & DOWNS
}

/// Switches from whose cables dimensions may be told, the best surrounded first: most neighbours, then most squares.
/// O(cables × neighbours).
pub(super) fn seeds(net: &Net, classes: &Classes) -> Vec<usize> {
    let corners = |s: usize| -> usize {
        let near = &net.near[s];
        near.iter().map(|(_, a)| near.iter().filter(|(_, b)| classes.share_a_square(*a, *b)).count()).sum()
    };
    let mut all: Vec<usize> = (0..net.near.len()).collect();
    all.sort_by_cached_key(|s| std::cmp::Reverse((net.near[*s].len(), corners(*s))));
    all
}

/// What is known of the classes.
#[derive(Clone)]
pub(super) struct Labels<'a> {
    fabric: &'a Fabric,
    net: &'a Net,
    classes: &'a Classes,
    seed: usize,
    all: Directions,
    /// By class: the bit of its direction.
    label: Vec<Option<u8>>,
    /// By class: both bits of the dimensions of classes across it.
    across: Vec<Directions>,
    /// By switch: where labelled cables lead.
    taken: Vec<Directions>,
    /// Classes to look at again.
    queue: VecDeque<usize>,
    is_queued: Vec<bool>,
}

impl<'a> Labels<'a> {
    /// Labels the cables of a switch. Two lead to two sides of a dimension if they share no square and each shares
    /// one with all others.
    pub fn new(
        (fabric, net, classes): (&'a Fabric, &'a Net, &'a Classes),
        seed: usize,
    ) -> Result<Self, NotAGrid> {
        let square = |a: usize, b: usize| classes.share_a_square(a, b);
        let mut labels = Self {
            fabric,
            net,
            classes,
            seed,
            all: 0,
            label: vec![None; classes.cables.len()],
            across: vec![0; classes.cables.len()],
            taken: vec![0; net.near.len()],
            queue: (0..classes.cables.len()).collect(),
            is_queued: vec![true; classes.cables.len()],
        };
        let unclear = || NotAGrid::Dimensions(name(fabric, seed));
        let mut dimension = 0;
        let mut near: Vec<(usize, usize)> = Vec::new();
        for c in fabric.out(SwitchId::at(seed)) {
            let to = fabric.channel(*c).to.index();
            near.extend(net.near[seed].iter().find(|n| n.0 == to && !near.contains(n)).copied());
        }
        if near.is_empty() {
            return Err(unclear());
        }
        for &(to, cable) in &near {
            let others: Vec<_> = near.iter().filter(|n| n.1 != cable && !square(n.1, cable)).collect();
            if others.len() > 1 {
                return Err(unclear());
            }
            if labels.label[classes.of[cable].0].is_some() {
                continue;
            }
            let ends = others.first().map(|n| (n.0, n.1, false));
            for (to, cable, up) in [(to, cable, true)].into_iter().chain(ends) {
                let (class, turned) = classes.of[cable];
                labels.all |= 3 << (2 * dimension);
                labels.set(class, 2 * dimension + u8::from(up ^ turned ^ (seed > to)))?;
            }
            dimension += 1;
        }
        Ok(labels)
    }

    pub fn seed(&self) -> usize {
        self.seed
    }

    pub fn dimensions(&self) -> usize {
        self.all.count_ones() as usize / 2
    }

    /// Dimension and whether it leads up, of a cable from its lower switch, or from its higher.
    pub fn step(&self, cable: usize, from_higher: bool) -> Option<(usize, bool)> {
        let (class, turned) = self.classes.of[cable];
        let label = self.label[class]?;
        Some((usize::from(label / 2), (label % 2 == 1) ^ turned ^ from_higher))
    }

    /// First and last switch of a cable in the direction of its class.
    fn ends(&self, cable: usize) -> (usize, usize) {
        let (a, b) = self.net.cables[cable];
        if self.classes.of[cable].1 { (b, a) } else { (a, b) }
    }

    fn look_again(&mut self, class: usize) {
        if !std::mem::replace(&mut self.is_queued[class], true) {
            self.queue.push_back(class);
        }
    }

    fn set(&mut self, class: usize, label: u8) -> Result<(), NotAGrid> {
        self.label[class] = Some(label);
        let (classes, net) = (self.classes, self.net);
        let bit = 1 << label;
        for &cable in &classes.cables[class] {
            let (from, to) = self.ends(cable);
            for (s, bit) in [(from, bit), (to, opposite(bit))] {
                if self.taken[s] & bit != 0 {
                    return Err(NotAGrid::Cable(name(self.fabric, from), name(self.fabric, to)));
                }
                self.taken[s] |= bit;
                net.near[s].iter().for_each(|(_, c)| self.look_again(classes.of[*c].0));
            }
        }
        for &other in &classes.across[class] {
            let both = bit | opposite(bit);
            if self.across[other] & both == 0 {
                self.across[other] |= both;
                self.look_again(other);
            }
        }
        Ok(())
    }

    /// Directions in which a class may lead.
    fn possible(&self, class: usize) -> Directions {
        let mut free = self.all & !self.across[class];
        for &cable in &self.classes.cables[class] {
            let (from, to) = self.ends(cable);
            free &= !self.taken[from] & !opposite(self.taken[to]);
        }
        free
    }

    /// Labels classes with one possible direction until there is none.
    fn conclude(&mut self) -> Result<(), NotAGrid> {
        while let Some(class) = self.queue.pop_front() {
            self.is_queued[class] = false;
            if self.label[class].is_some() {
                continue;
            }
            let possible = self.possible(class);
            if possible == 0 {
                return Err(self.unfit(class));
            }
            if possible.count_ones() == 1 {
                self.set(class, possible.trailing_zeros() as u8)?;
            }
        }
        Ok(())
    }

    /// The grid: labels all classes and places all switches. Where nothing can be concluded any more,
    /// each direction of one class is tried, the likeliest first. `tries` bounds their number.
    pub fn solve(mut self, tries: &mut usize) -> Result<Shape, NotAGrid> {
        self.conclude()?;
        let layout = Layout::new(self.net, &self);
        let Some(open) = self.label.iter().position(Option::is_none) else {
            return layout.shape(self.fabric, self.net);
        };
        let mut failed = self.unfit(open);
        let Some((class, labels)) = self.choice(&layout) else { return Err(failed) };
        drop(layout);
        for label in labels {
            if *tries == 0 {
                break;
            }
            *tries -= 1;
            let mut next = self.clone();
            match next.set(class, label).and_then(|()| next.solve(tries)) {
                Ok(shape) => return Ok(shape),
                Err(why) => failed = why,
            }
        }
        Err(failed)
    }

    fn unfit(&self, class: usize) -> NotAGrid {
        let (from, to) = self.net.cables[self.classes.cables[class][0]];
        NotAGrid::Cable(name(self.fabric, from), name(self.fabric, to))
    }

    /// The open class whose direction is clearest, and its directions, likeliest first.
    fn choice(&self, layout: &Layout) -> Option<(usize, Vec<u8>)> {
        let mut best: Option<(u8, usize, Vec<u8>)> = None;
        for class in (0..self.label.len()).filter(|c| self.label[*c].is_none()) {
            let possible = self.possible(class);
            let labels = (0..2 * MOST_DIMENSIONS as u8).filter(|l| possible & 1 << l != 0);
            let mut rated: Vec<(u8, u8)> = labels.map(|l| (self.likely(class, l, layout), l)).collect();
            rated.sort_by_key(|(likely, _)| std::cmp::Reverse(*likely));
            let Some(&(likely, _)) = rated.first() else { continue };
            if likely > best.as_ref().map_or(0, |b| b.0) {
                best = Some((likely, class, rated.into_iter().map(|(_, l)| l).collect()));
            }
        }
        best.map(|(_, class, labels)| (class, labels))
    }

    /// 5: leads from one placed switch to another. 4, 3: from a placed switch to a free place, straight
    /// on or not. 2, 1: to no free place that is known. 0: no switch of the class has its place.
    fn likely(&self, class: usize, label: u8, layout: &Layout) -> u8 {
        let (dimension, up) = (usize::from(label / 2), label % 2 == 1);
        let of = |cable: &usize| {
            let (from, to) = self.ends(*cable);
            let (s, up) = match (layout.at[from].is_empty(), layout.at[to].is_empty()) {
                (false, false) if layout.step(from, to) == Some((dimension, up)) => return 5,
                (true, true) | (false, false) => return 0,
                (false, true) => (from, up),
                (true, false) => (to, !up),
            };
            let back = 1 << (2 * dimension + usize::from(!up));
            let straight = u8::from(self.taken[s] & back != 0);
            1 + straight + if layout.is_free(s, dimension, up) { 2 } else { 0 }
        };
        self.classes.cables[class].iter().map(of).max().unwrap_or(0)
    }
}

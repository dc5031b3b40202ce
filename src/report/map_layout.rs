//! Where switches are drawn: levels of a tree, slices of a torus or mesh, else a circle.

use super::layout::rows;
use crate::model::{Channel, ChannelId, Fabric, Shape, SwitchId};

/// Width of every picture.
pub const WIDTH: f64 = 960.0;
const TOP: f64 = 46.0;
const BELOW: f64 = 70.0;
const ROW: f64 = 190.0;

/// How cables are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// As two lines side by side, one per direction.
    Lines,
    /// As two halves: each direction is the half that leaves its switch.
    Halves,
}

/// Places of all switches.
#[derive(Debug, Clone)]
pub struct Layout {
    /// `place[switch]`: centre of its circle.
    pub place: Vec<(f64, f64)>,
    /// Height of the picture.
    pub height: f64,
    /// Radius of a switch.
    pub radius: f64,
    /// How cables are drawn.
    pub style: Style,
    /// `ends[channel]`, for halves: where the half ends.
    ends: Vec<(f64, f64)>,
}

impl Layout {
    /// Of a fabric. O(size of the fabric).
    pub fn new(fabric: &Fabric) -> Self {
        match fabric.shape() {
            Shape::Grid { sizes, coords, .. } => Self::slices(fabric, sizes, coords),
            Shape::Unknown | Shape::Irregular(_) => match levels(fabric) {
                Some(rows) => Self::rows(fabric, &rows),
                None => Self::circle(fabric),
            },
        }
    }

    /// Start and end of a channel's line, `shift` pixels to the side.
    pub fn line(&self, fabric: &Fabric, c: ChannelId, shift: f64) -> [(f64, f64); 2] {
        let ch = fabric.channel(c);
        let (from, to) = (self.place[ch.from.index()], self.place[ch.to.index()]);
        let end = if self.style == Style::Halves { self.ends[c.index()] } else { to };
        let (dx, dy) = (end.0 - from.0, end.1 - from.1);
        // The normal is that of the cable, so that both directions of it lie beside each other.
        let side = if self.style == Style::Lines && c.index() % 2 == 1 { -1.0 } else { 1.0 };
        let length = dx.hypot(dy).max(1.0) * side;
        let (ox, oy) = (-dy / length * shift, dx / length * shift);
        [(from.0 + ox, from.1 + oy), (end.0 + ox, end.1 + oy)]
    }

    fn rows(fabric: &Fabric, rows: &[Vec<SwitchId>]) -> Self {
        let mut place = vec![(6.0, TOP); fabric.switches().len()];
        let mut narrowest = WIDTH;
        for (r, row) in rows.iter().enumerate() {
            let step = (WIDTH - 60.0) / row.len() as f64;
            narrowest = narrowest.min(step);
            for (i, s) in row.iter().enumerate() {
                place[s.index()] = (30.0 + step * (i as f64 + 0.5), TOP + ROW * r as f64 + 16.0);
            }
        }
        let height = TOP + ROW * (rows.len().max(2) - 1) as f64 + BELOW;
        let radius = (0.4 * narrowest).clamp(1.2, 9.0);
        Self { place, height, radius, style: Style::Lines, ends: Vec::new() }
    }

    /// Switches in the order of a search from the first, which keeps groups together.
    fn circle(fabric: &Fabric) -> Self {
        let n = fabric.switches().len();
        let mut seen = vec![false; n];
        let mut order = Vec::with_capacity(n);
        for start in fabric.switch_ids() {
            let mut stack = vec![start];
            while let Some(s) = stack.pop() {
                if std::mem::replace(&mut seen[s.index()], true) {
                    continue;
                }
                order.push(s);
                stack.extend(fabric.out(s).iter().rev().map(|c| fabric.channel(*c).to));
            }
        }
        let ring = 400.0;
        let mut place = vec![(0.0, 0.0); n];
        for (i, s) in order.iter().enumerate() {
            let angle = std::f64::consts::TAU * i as f64 / n as f64;
            place[s.index()] = (WIDTH / 2.0 + ring * angle.sin(), TOP + ring + 10.0 - ring * angle.cos());
        }
        let radius = (0.4 * std::f64::consts::TAU * ring / n.max(1) as f64).clamp(1.2, 9.0);
        let height = TOP + 2.0 * ring + BELOW;
        Self { place, height, radius, style: Style::Lines, ends: Vec::new() }
    }

    /// The first two dimensions as they are, the others as slices beside each other.
    fn slices(fabric: &Fabric, sizes: &[u16], coords: &[u16]) -> Self {
        let size = |d: usize| sizes.get(d).map_or(1, |s| usize::from(*s));
        let (columns, rows) = (size(0), size(1));
        let slices: usize = (2..sizes.len()).map(size).product();
        let wanted = (slices as f64 * rows as f64 / columns as f64).sqrt() * 1.4;
        let across = (wanted.ceil() as usize).clamp(1, slices.max(1));
        let cell = ((WIDTH - 40.0) / (across * (columns + 1)) as f64).min(48.0);
        let left = (WIDTH - cell * (across * (columns + 1)) as f64) / 2.0;
        let dims = sizes.len().max(1);
        let at = |s: usize| &coords[s * dims..(s + 1) * dims];
        let place = fabric.switch_ids().map(|s| {
            let own = at(s.index());
            let slice = own
                .iter()
                .zip(sizes)
                .skip(2)
                .rev()
                .fold(0, |n, (c, size)| n * usize::from(*size) + usize::from(*c));
            let x = (slice % across) * (columns + 1) + usize::from(own[0]);
            let y = (slice / across) * (rows + 1) + own.get(1).map_or(0, |y| usize::from(*y));
            (left + cell * (x as f64 + 1.0), TOP + cell * (y as f64 + 0.8))
        });
        let place: Vec<(f64, f64)> = place.collect();
        let ends = fabric.channels().iter().map(|ch| {
            let (from, to) = (at(ch.from.index()), at(ch.to.index()));
            let dim = from.iter().zip(to).position(|(a, b)| a != b).unwrap_or(0);
            let (a, b) = (i32::from(from[dim]), i32::from(to[dim]));
            // Round the ring, the other way.
            let up = if (a - b).abs() > 1 { b < a } else { b > a };
            let sign = if up { 1.0 } else { -1.0 };
            let (dx, dy) = match dim {
                0 => (0.5, 0.0),
                1 => (0.0, 0.5),
                2 => (0.3, -0.3),
                _ => (0.3, 0.3),
            };
            let (x, y) = place[ch.from.index()];
            (x + sign * dx * cell, y + sign * dy * cell)
        });
        let ends = ends.collect();
        let height = TOP + cell * (slices.div_ceil(across) * (rows + 1)) as f64 + BELOW;
        Self { place, height, radius: (0.16 * cell).clamp(1.2, 9.0), style: Style::Halves, ends }
    }
}

/// The rows of a tree; `None` if a cable joins two switches of one row: then it is no tree.
fn levels(fabric: &Fabric) -> Option<Vec<Vec<SwitchId>>> {
    let rows = rows(fabric);
    let mut level = vec![usize::MAX; fabric.switches().len()];
    for (i, row) in rows.iter().enumerate() {
        row.iter().for_each(|s| level[s.index()] = i);
    }
    let is_flat = |c: &Channel| level[c.from.index()] == level[c.to.index()];
    (rows.len() > 1 && !fabric.channels().iter().any(is_flat)).then_some(rows)
}

//! Jobs that say their pattern: what routes for it, orders of ranks, and both together are worth.

use super::{Accepted, Board, BoardError, Cell, Contender, Scene, WITH_PATTERN, Way};
use crate::measure::{Time, effective_loads, slowdowns_of};
use crate::model::{Group, Mix, Pattern, Tables};
use crate::placement::order::{Movable, WORK, order_all, together};

impl Board {
    /// A cell for each of [`WITH_PATTERN`] whose engine has routes. Orders alone are for the routes of those
    /// without jobs that are predicted best for the orders as given.
    pub(super) fn with_pattern(
        &self,
        scene: Scene<'_>,
        oblivious: &[(String, Tables)],
        accepted: &Accepted,
        groups: &[Group],
        pattern: Pattern,
    ) -> Result<Vec<Cell>, BoardError> {
        let fabric = scene.fabric;
        let groups: Vec<Group> = groups.iter().map(|g| g.clone().exchanging(Mix::only(pattern))).collect();
        let movable: Vec<Movable> = (0..groups.len()).map(|job| Movable { job, unit: 1 }).collect();
        let cell = |engine, tables: &Tables, groups: &[Group]| {
            let efi_max = effective_loads(fabric, tables, groups).into_iter().max().unwrap_or(0);
            let contender = Contender { engine, knows_jobs: true, efi_max, way: Way::Tables(tables) };
            self.cell(scene, pattern, &contender, groups)
        };
        let predicted =
            |tables: &Tables| Time::of(&slowdowns_of(fabric, tables, &groups, pattern)).slowdown_mean;
        let [routes, order, both] = WITH_PATTERN;
        let mut cells = Vec::new();
        let best = oblivious.iter().map(|(_, t)| (predicted(t), t)).min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((_, usual)) = best else { return Ok(cells) };
        let ordered = order_all(fabric, usual, &groups, &movable, WORK);
        cells.push(cell(order, usual, &ordered)?);
        let mut first = None;
        let found = together(fabric, &groups, &movable, WORK, usual, |demand| {
            let tables = accepted.route(self.engines.first().ok_or(())?, fabric, demand).ok_or(())?;
            first.get_or_insert_with(|| tables.clone());
            Ok::<_, ()>(tables)
        });
        if let (Some(tables), Ok(found)) = (first, found) {
            cells.push(cell(routes, &tables, &groups)?);
            cells.push(cell(both, &found.tables, &found.groups)?);
        }
        Ok(cells)
    }
}

//! What does not depend on jobs is found once per fabric: a service asks for tables again and again while its fabric
//! stays. The answer is the same as if it was found again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::layers::Layers;
use super::net::Net;
use crate::model::{Demand, Fabric, LayerBudget, SwitchId, Tables};
use crate::route::{Engine, RouteError};

/// Fabrics that are remembered: a service asks with aggregation nodes and without.
const FABRICS: usize = 2;
/// Layers, and tables, that are remembered of each.
const EACH: usize = 8;

/// What engines' tables without jobs depend on beside the fabric: engine, layers, roots.
type Asked = (&'static str, LayerBudget, Vec<SwitchId>);

/// What was found for a fabric, the last first.
struct Known {
    fabric: Fabric,
    /// By budget, and whether there are jobs.
    layers: VecDeque<((u8, bool), Arc<Layers>)>,
    tables: VecDeque<(Asked, Arc<Tables>)>,
}

fn last() -> MutexGuard<'static, VecDeque<Known>> {
    static LAST: Mutex<VecDeque<Known>> = Mutex::new(VecDeque::new());
    LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether two fabrics are the same to an engine, numbers and names too.
fn is_same(a: &Fabric, b: &Fabric) -> bool {
    a.fingerprint() == b.fingerprint()
        && a.switches() == b.switches()
        && a.terminals() == b.terminals()
        && a.channels() == b.channels()
        && a.shape() == b.shape()
}

/// What is remembered in one of the lists of a fabric, or else what is found, which is remembered then. The lock is
/// not held meanwhile: two threads may find the same.
fn remembered<K: PartialEq, V, E>(
    fabric: &Fabric,
    key: K,
    list: impl Fn(&mut Known) -> &mut VecDeque<(K, Arc<V>)>,
    find: impl FnOnce() -> Result<V, E>,
) -> Result<Arc<V>, E> {
    if let Some(known) = last().iter_mut().find(|known| is_same(&known.fabric, fabric)) {
        if let Some((_, value)) = list(known).iter().find(|(of, _)| *of == key) {
            return Ok(Arc::clone(value));
        }
    }
    let value = Arc::new(find()?);
    let mut last = last();
    if !last.iter().any(|known| is_same(&known.fabric, fabric)) {
        last.truncate(FABRICS - 1);
        let (layers, tables) = (VecDeque::new(), VecDeque::new());
        last.push_front(Known { fabric: fabric.clone(), layers, tables });
    }
    if let Some(known) = last.iter_mut().find(|known| is_same(&known.fabric, fabric)) {
        let list = list(known);
        list.truncate(EACH - 1);
        list.push_front((key, Arc::clone(&value)));
    }
    Ok(value)
}

impl Layers {
    /// As [`Layers::new`].
    pub(super) fn once(fabric: &Fabric, net: &Net, budget: u8, has_jobs: bool) -> Arc<Self> {
        let find = || Ok::<_, RouteError>(Self::new(fabric, net, budget, has_jobs));
        let found = remembered(fabric, (budget, has_jobs), |known| &mut known.layers, find);
        found.unwrap_or_else(|_| Arc::new(Self::new(fabric, net, budget, has_jobs)))
    }
}

/// Tables of an engine that knows no jobs, by these roots where it takes some. Those of large fabrics would take much
/// memory.
///
/// # Errors
/// As [`Engine::route`].
pub(super) fn tables(
    engine: &dyn Engine,
    roots: &[SwitchId],
    fabric: &Fabric,
    budget: LayerBudget,
) -> Result<Tables, RouteError> {
    let find = || engine.route(fabric, &Demand::oblivious(), budget);
    let key = (engine.name(), budget, roots.to_vec());
    remembered(fabric, key, |known| &mut known.tables, find).map(|tables| tables.as_ref().clone())
}

//! What does not depend on jobs is found once per fabric: a service asks for tables again and again while its fabric
//! stays. The answer is the same as if it was found again.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::graft::Core;
use super::layers::Layers;
use super::net::Net;
use crate::model::{Closure, Demand, Fabric, LayerBudget, SwitchId, Tables};
use crate::route::lanes::fabric_lanes;
use crate::route::{Engine, RouteError};

/// Fabrics that are remembered: a service asks with aggregation nodes and without.
const FABRICS: usize = 2;
/// Layers, tables and loads that are remembered of each.
const EACH: usize = 8;

/// What engines' tables without jobs depend on beside the fabric: engine, layers, roots.
type Asked = (&'static str, LayerBudget, Vec<SwitchId>);

/// What was found for a fabric, the last first.
struct Known {
    fabric: Fabric,
    /// By budget, and whether there are jobs.
    layers: VecDeque<((u8, bool), Arc<Layers>)>,
    tables: VecDeque<(Asked, Arc<Tables>)>,
    /// Routes between hosts on each channel, by what is hashed of tables whose routes to hosts all climb and then descend.
    loads: VecDeque<(u64, Arc<Vec<u32>>)>,
    /// The tree in it, if it is one to which something is attached.
    cores: VecDeque<((), Arc<Option<Core>>)>,
    /// By number of VLs.
    closures: VecDeque<(u8, Arc<Closure>)>,
}

impl Known {
    fn new(fabric: &Fabric) -> Self {
        Self {
            fabric: fabric.clone(),
            layers: VecDeque::new(),
            tables: VecDeque::new(),
            loads: VecDeque::new(),
            cores: VecDeque::new(),
            closures: VecDeque::new(),
        }
    }
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
    if let Some(value) = known(fabric, &key, &list) {
        return Ok(value);
    }
    let value = Arc::new(find()?);
    let mut last = last();
    if !last.iter().any(|known| is_same(&known.fabric, fabric)) {
        last.truncate(FABRICS - 1);
        last.push_front(Known::new(fabric));
    }
    if let Some(known) = last.iter_mut().find(|known| is_same(&known.fabric, fabric)) {
        let list = list(known);
        list.truncate(EACH - 1);
        list.push_front((key, Arc::clone(&value)));
    }
    Ok(value)
}

/// What is remembered in one of the lists of a fabric.
fn known<K: PartialEq, V>(
    fabric: &Fabric,
    key: &K,
    list: impl Fn(&mut Known) -> &mut VecDeque<(K, Arc<V>)>,
) -> Option<Arc<V>> {
    let mut last = last();
    let known = last.iter_mut().find(|known| is_same(&known.fabric, fabric))?;
    list(known).iter().find(|(of, _)| of == key).map(|(_, value)| Arc::clone(value))
}

/// Of next hops, not of layers: the same ones put the same on the channels.
fn hash(fabric: &Fabric, tables: &Tables) -> u64 {
    let mut hasher = DefaultHasher::new();
    fabric.dest_ids().for_each(|d| hasher.write(tables.ports_to(d)));
    hasher.finish()
}

/// Routes between hosts on each channel, if tables were made here whose routes to hosts all climb and then descend.
/// O(entries), far less than counting.
pub(super) fn climbing_loads(fabric: &Fabric, tables: &Tables) -> Option<Arc<Vec<u32>>> {
    known(fabric, &hash(fabric, tables), |known| &mut known.loads)
}

/// Notes these of such tables.
pub(super) fn note_climbing(fabric: &Fabric, tables: &Tables, loads: Vec<u32>) {
    let find = || Ok::<_, Infallible>(loads);
    let Ok(_) = remembered(fabric, hash(fabric, tables), |known| &mut known.loads, find);
}

/// The closure for so many VLs, as [`fabric_lanes`] finds it.
pub(super) fn closure(fabric: &Fabric, vls: LayerBudget) -> Arc<Closure> {
    let find = || Ok::<_, Infallible>(Arc::unwrap_or_clone(fabric_lanes(fabric, vls).lanes.closure));
    let Ok(closure) = remembered(fabric, vls.get(), |known| &mut known.closures, find);
    closure
}

/// As [`Core::of`].
pub(super) fn core(fabric: &Fabric, net: &Net) -> Arc<Option<Core>> {
    let find = || Ok::<_, Infallible>(Core::of(fabric, net));
    let Ok(core) = remembered(fabric, (), |known| &mut known.cores, find);
    core
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

#[cfg(test)]
mod tests {
    use super::super::portfolio::Scene;
    use super::super::{Aim, Balanced, Search, counted};
    use super::*;
    use crate::lab::board::mix;
    use crate::lab::generate::generate;
    use crate::model::Storage;
    use crate::route::EngineOptions;

    /// What tables of a tree put on the channels is what is remembered of them, fresh and beside tables in force,
    /// and a next hop that is another says that they are others.
    #[test]
    fn what_is_remembered_of_a_trees_tables_is_what_they_put_on_the_channels() {
        let (fabric, budget) = (generate("kary:5,3,hosts=6").unwrap(), LayerBudget::MOST);
        let net = Net::new(&fabric);
        let jobs = mix(&fabric, 3, &[8, 16]);
        let (mut previous, mut served) = (None, None);
        for n in [jobs.len() - 1, jobs.len(), 2] {
            let demand = Demand::new(jobs[..n].to_vec(), Storage::default());
            let options = EngineOptions { previous, served, ..EngineOptions::default() };
            let engine = Balanced { options, aim: Aim::Time, search: Search::FIRST };
            let own = engine.own(&fabric, &net, &demand, budget).unwrap();
            let (tables, loads) = (own.tables, own.climbing.expect("all climb and descend"));
            let scene = Scene { fabric: &fabric, net: &net, demand: &demand, budget, fullest: None };
            assert_eq!(Some(&loads), counted::loads(&scene, &tables).as_ref());
            let (first, of) = (net.sources[0] as usize, hash(&fabric, &tables));
            assert_ne!(hash(&fabric, &tables.clone().edited(|ports, _| ports[first] ^= 1)), of);
            assert_eq!(hash(&fabric, &tables.clone().edited(|_, layers| layers[first] ^= 1)), of);
            (previous, served) = (Some(Arc::new(tables)), Some(demand));
        }
    }
}

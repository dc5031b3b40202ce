use super::*;
use crate::lab::generate::generate;
use crate::pass::tests::group;

/// A tree that lost some cables: engines differ.
fn fabric() -> Fabric {
    generate("fattree:6x4,3,faults=10%,seed=3").unwrap()
}

fn jobs() -> Vec<Group> {
    vec![group(&[0, 5, 10, 15, 20, 3]), group(&[1, 4, 9, 13, 18, 22, 7])]
}

#[test]
fn the_best_of_those_that_know_no_jobs_is_compared_with_unless_one_is_named() {
    let (fabric, jobs) = (fabric(), jobs());
    let named = |name| Baseline::of(&fabric, &jobs, Some(name), LayerBudget::MOST);
    assert!(named("torus").is_none(), "the fabric is none");
    let all: Vec<_> = ENGINES.iter().filter_map(|(name, _)| named(name)).collect();
    assert!(all.len() == 4 && all.iter().all(|one| one.named && one.slowdowns.len() == 2));
    let best = Baseline::of(&fabric, &jobs, None, LayerBudget::MOST).unwrap();
    let least = all.iter().map(|one| one.time.slowdown_mean).fold(f64::INFINITY, f64::min);
    assert!(!best.named && best.time.slowdown_mean == least, "{best:?} {all:?}");
    assert!(all.iter().any(|one| one.time.slowdown_mean > least), "{all:?}");
    assert!(
        Baseline::of(&fabric, &[], None, LayerBudget::MOST).is_none()
            && Baseline::of(&fabric, &jobs, Some("none"), LayerBudget::MOST).is_none()
    );
    // The tables are those of the engine that is named.
    let (engine, tables) = Baseline::tables(&fabric, &jobs, None, LayerBudget::MOST).unwrap();
    assert_eq!((engine, tables.engine()), (best.engine, best.engine));
    let (engine, _) = Baseline::tables(&fabric, &jobs, Some("updown"), LayerBudget::MOST).unwrap();
    assert_eq!(engine, "updown");
    let (engine, _) = Baseline::tables(&fabric, &[], None, LayerBudget::MOST).unwrap();
    assert_eq!(engine, "fattree", "the first, as none is better");
}

#[test]
fn tables_that_are_kept_are_those_of_the_engine_that_is_named_now() {
    let (fabric, jobs) = (fabric(), jobs());
    let kept = Oblivious::default();
    for named in [None, Some("updown"), Some("updown"), Some("dfsssp"), None] {
        let found = kept.baseline(&fabric, &jobs, named, LayerBudget::MOST).unwrap();
        assert_eq!(found, Baseline::of(&fabric, &jobs, named, LayerBudget::MOST).unwrap(), "{named:?}");
        assert_eq!(kept.0.lock().unwrap().as_ref().map(|kept| kept.named.as_deref()), Some(named));
    }
    assert!(kept.baseline(&fabric, &[], None, LayerBudget::MOST).is_none());
}

/// 972 switches and 5,832 hosts.
#[test]
fn tables_of_a_large_fabric_are_kept_only_if_an_engine_is_named() {
    let large = generate("kary:18,3").unwrap();
    assert!(size(&large) > MOST_KEPT && size(&fabric()) == fabric().switches().len() * 24);
    let kept = Oblivious::default();
    assert!(kept.baseline(&large, &jobs(), None, LayerBudget::MOST).is_none());
    let found = kept.baseline(&large, &jobs(), Some("fattree"), LayerBudget::MOST).unwrap();
    assert!(found.named && found.slowdowns.len() == 2);
}

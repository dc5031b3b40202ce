//! Laws for any fabric and any demand.

use std::sync::Arc;

use proptest::prelude::*;

use super::fixture::{accepted, at, plan, report};
use crate::lab::generate::generate;
use crate::model::Fingerprint;
use crate::publish::EpochStore;
use crate::route::{self, EngineOptions};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_in_force_comes_back_as_it_was(
        spec in prop::sample::select(vec!["torus:3x3,hosts=2", "fattree:4x4,2", "random:8,24,14,seed=3", "kary:2,3"]),
        jobs in prop::collection::vec(prop::collection::vec(0usize..8, 1..8), 0..5),
        turn in 0usize..7,
    ) {
        let fabric = generate(spec).unwrap();
        let mut plan = plan(&fabric, &jobs, turn);
        let engine = route::engine("dfsssp", &EngineOptions::default()).unwrap();
        plan.engine = engine.name().to_string();
        plan.tables = Arc::new(engine.route(&fabric, &plan.demand, plan.budget).unwrap());
        let report = report(&fabric, &plan);
        let dir = tempfile::tempdir().unwrap();
        let store = EpochStore::open(dir.path()).unwrap();
        let plan = accepted(&fabric, plan);
        let epoch = store.lock().unwrap().publish(&fabric, &plan, &report, at(turn as i64)).unwrap();
        let published = store.published(&fabric).unwrap().unwrap();
        prop_assert_eq!(&published.demand, &plan.get().demand);
        prop_assert_eq!(&published.tables, &plan.get().tables);
        prop_assert_eq!(published.fabric, fabric.fingerprint());
        let epoch = store.epoch(epoch).unwrap();
        prop_assert_eq!(&epoch.plan().jobs, &plan.get().jobs);
        prop_assert_eq!(epoch.plan().after, plan.get().after);
    }

    #[test]
    fn a_fingerprint_reads_as_it_prints(bytes in any::<[u8; 32]>(), at in 0usize..64, other in "[^0-9a-f]") {
        let text = Fingerprint(bytes).to_string();
        prop_assert_eq!(text.parse::<Fingerprint>(), Ok(Fingerprint(bytes)));
        let wrong = format!("{}{other}{}", &text[..at], &text[at + 1..]);
        prop_assert!(wrong.parse::<Fingerprint>().is_err());
        prop_assert!(text[..at].parse::<Fingerprint>().is_err());
    }
}

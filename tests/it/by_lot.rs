//! The service on fabrics by lot, whole or damaged, that lose cables and switches and get them back while jobs come
//! and go. What it publishes is safe with every program, on as many layers as there are.

use proptest::prelude::*;
use sarouter::lab::generate::generate;
use sarouter::model::rng::Rng;
use sarouter::model::{LayerBudget, Promise};

use crate::live::Site;
use crate::losses::{Damaged, step};

fn spec() -> impl Strategy<Value = String> {
    prop_oneof![
        (6usize..16, 0usize..16, any::<u16>()).prop_map(|(s, more, seed)| format!(
            "random:{s},{},{},seed={seed}",
            2 * s,
            s + more
        )),
        (2usize..6, 2usize..6).prop_map(|(x, y)| format!("torus:{x}x{y},hosts=2")),
        (2usize..4, 2usize..4, 2usize..4).prop_map(|(x, y, z)| format!("torus:{x}x{y}x{z}")),
        (2usize..5, 2usize..5).prop_map(|(x, y)| format!("mesh:{x}x{y},hosts=2")),
        (2usize..5, 2usize..4).prop_map(|(k, n)| format!("kary:{k},{n}")),
        (3usize..7, 2usize..4).prop_map(|(x, y)| format!("hyperx:{x}x{y},hosts=2")),
        (3usize..7, 1usize..5, 2usize..5).prop_map(|(l, h, s)| format!("fattree:{l}x{h},{s}")),
        (2usize..4, 2usize..4).prop_map(|(x, y)| format!("xgft:3;{x},{y},2;2,{x},{y},hosts=2")),
        (3usize..6, 3usize..7).prop_map(|(a, g)| format!("dragonfly:{a},1,2,{g}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_published_is_safe_with_every_program(
        spec in spec(),
        layers in prop_oneof![Just(1u64), Just(2), Just(8)],
        seed in any::<u64>(),
    ) {
        let mut rng = Rng::new(seed);
        let mut damaged = Damaged::new(generate(&spec).unwrap());
        for _ in 0..rng.below(3) {
            damaged.change(&mut rng);
        }
        let mut site = Site::new("balanced", Promise::EVERYTHING, seed);
        site.policy.budget = LayerBudget::new(layers).unwrap();
        let mut fabric = damaged.now();
        site.pass(&fabric).unwrap();
        for n in 0..4 {
            let last = fabric.fingerprint();
            damaged.change(&mut rng);
            fabric = damaged.now();
            if fabric.fingerprint() == last {
                continue;
            }
            let what = format!("{spec}, {layers} layers, seed {seed}, change {n}");
            while step(&mut site, &fabric, &what).halfway {}
            let (_, tables, _) = site.in_force(&fabric);
            prop_assert!(u64::from(tables.layers_used()) <= layers || tables.lanes().is_some(), "{}", what);
        }
    }
}

//! Whatever comes from outside, damaged at random: every parser answers, none panics or hangs.
//!
//! Each case takes a good text, changes some bytes, and hands it to the parser.

use std::path::Path;

use chrono::{DateTime, Utc};
use proptest::prelude::*;
use sarouter::config::Settings;
use sarouter::observe::{fabric, hostlist, ibnetdiscover, jobs, nodes, topology_conf, torus_toml};
use sarouter::publish::handoff;
use sarouter::service::health::Health;
use sarouter::service::record::replay;

use crate::often::often;

/// One change of a text.
#[derive(Debug, Clone)]
enum Change {
    Set(usize, u8),
    Insert(usize, Vec<u8>),
    Delete(usize, usize),
    /// Copies a piece to another place.
    Copy(usize, usize, usize),
    Cut(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let piece = prop_oneof![
        proptest::collection::vec(any::<u8>(), 1..8),
        prop_oneof!["[0-9]{1,25}", "[\\[\\]{},:|\"'/.-]{1,6}", "\\.\\./"].prop_map(String::into_bytes),
    ];
    prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (any::<usize>(), piece).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (any::<usize>(), 1usize..40).prop_map(|(at, n)| Change::Delete(at, n)),
        (any::<usize>(), 1usize..200, any::<usize>()).prop_map(|(from, n, to)| Change::Copy(from, n, to)),
        any::<usize>().prop_map(Change::Cut),
    ]
}

fn damaged(good: &[u8], changes: &[Change]) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for change in changes {
        let place = |at: usize| at % (bytes.len() + 1);
        match change {
            Change::Set(at, byte) => {
                let at = place(*at);
                if let Some(b) = bytes.get_mut(at) {
                    *b = *byte;
                }
            }
            Change::Insert(at, piece) => {
                let at = place(*at);
                bytes.splice(at..at, piece.iter().copied());
            }
            Change::Delete(at, n) => {
                let at = place(*at);
                let end = (at + n).min(bytes.len());
                bytes.drain(at..end);
            }
            Change::Copy(from, n, to) => {
                let (from, to) = (place(*from), place(*to));
                let piece = bytes[from..(from + n).min(bytes.len())].to_vec();
                bytes.splice(to..to, piece);
            }
            Change::Cut(at) => {
                let at = place(*at);
                bytes.truncate(at);
            }
        }
    }
    bytes
}

/// A parser's name, something it accepts, and the parser.
type Parser = (&'static str, Vec<u8>, fn(&[u8]));

/// Good texts, and who reads them.
fn corpus() -> Vec<Parser> {
    let site = sarouter::lab::generate::generate("fattree:2x3,2").unwrap();
    fn lossy(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }
    let tables = {
        let routed = sarouter::route::engine("minhop", &Default::default()).unwrap();
        let budget = sarouter::model::LayerBudget::new(1).unwrap();
        routed.route(&site, &Default::default(), budget).unwrap()
    };
    let recorded = "{\"event\":\"seen\",\"time\":\"2026-01-01T00:00:00Z\",\"snapshot\":\"2026-01-01T00:00:00Z\",\
        \"whole\":true,\"jobs\":[{\"id\":\"1\",\"state\":\"RUNNING\",\"nodes\":[\"n1\",\"n2\"]}],\"ended\":[\"2\"]}";
    vec![
        ("squeue lines", b"1|RUNNING|n[1,5,9-12]|100\n2_3|COMPLETING|a[001-010]b|N/A\n".to_vec(), |b| {
            let _ = jobs::squeue_lines(&lossy(b), "damaged", DateTime::<Utc>::UNIX_EPOCH);
        }),
        ("squeue --json", include_bytes!("../data/slurm/squeue-22.05.json").to_vec(), |b| {
            let _ = jobs::parse(&lossy(b), "damaged", DateTime::<Utc>::UNIX_EPOCH);
        }),
        ("job lines", b"17 n[1-4,9]\n18 x # comment\n".to_vec(), |b| {
            let _ = jobs::parse(&lossy(b), "damaged", DateTime::<Utc>::UNIX_EPOCH);
        }),
        ("host list", b"n[1-4,09],rack[1-2]node[001-003],x".to_vec(), |b| {
            let _ = hostlist::expand(&lossy(b));
        }),
        ("ibnetdiscover", ibnetdiscover::to_ibnetdiscover(&site).into_bytes(), |b| {
            let _ = fabric::parse(Path::new("damaged"), &lossy(b));
        }),
        ("net", ibnetdiscover::to_net(&site).into_bytes(), |b| {
            let _ = fabric::parse(Path::new("damaged"), &lossy(b));
        }),
        ("topology.conf", include_bytes!("../data/topologies/psmn-X5.topology.conf").to_vec(), |b| {
            let _ = topology_conf::Topology::parse(Path::new("damaged"), &lossy(b));
        }),
        ("torus", include_bytes!("../../config/angara-torus.toml").to_vec(), |b| {
            let _ = torus_toml::parse(Path::new("damaged"), &lossy(b));
        }),
        ("node map", b"n1 0x2c90300001234\nn2 0x2c90300001235 # two\n".to_vec(), |b| {
            let _ = nodes::NodeNames::parse(Path::new("damaged"), &lossy(b));
        }),
        ("settings", include_bytes!("../../config/sarouter.toml").to_vec(), |b| {
            let _ = Settings::parse(&lossy(b), Path::new("/damaged.toml"));
        }),
        ("lft.bin", handoff::encode(&site, &tables, 1), |b| {
            let _ = handoff::decode(b);
        }),
        ("recording", recorded.as_bytes().to_vec(), |b| {
            let _ = replay::parse(&lossy(b));
        }),
        ("health.json", serde_json::to_vec(&Health::new(DateTime::UNIX_EPOCH, true)).unwrap(), |b| {
            let _ = serde_json::from_slice::<Health>(b);
        }),
    ]
}

fn damage(cases: u32) {
    for (name, good, read) in corpus() {
        let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
        let mut runner = proptest::test_runner::TestRunner::new(config);
        let strategy = proptest::collection::vec(change(), 1..6);
        let result = runner.run(&strategy, |changes| {
            let bytes = damaged(&good, &changes);
            read(&bytes);
            Ok(())
        });
        result.unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

#[test]
fn damaged_input_is_answered_by_every_parser() {
    damage(60);
}

#[test]
#[ignore = "takes minutes: run scripts/test"]
fn much_damaged_input_is_answered_by_every_parser() {
    damage(often(20_000, 2_000) as u32);
}

//! Certificates in hand-off files: what the plugin makes of those of every engine, of damaged ones, and what OpenSM
//! then does.

use std::fmt::Write;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use sarouter::lab::generate::generate;
use sarouter::model::rng::Rng;
use sarouter::model::{ChannelId, Demand, Fabric, LayerBudget, Promise, Tables, Vl};
use sarouter::publish::handoff::{Handoff, decode, encode_lids};
use sarouter::route::lanes::fabric_lanes;
use sarouter::route::{self, EngineOptions};
use sarouter::verify::{Beside, Certificate, Checks, Finding, certify, judge_beside, judge_certified};

use crate::often::often;
use crate::testbed::{Testbed, assert_in_force, root, run};

pub const ANY: Promise = Promise { any: true, ..Promise::NOTHING };
pub const REPLY: Promise = Promise { reply: true, ..Promise::TOLD };

pub fn budget() -> LayerBudget {
    LayerBudget::new(8).unwrap()
}

/// Tables of an engine for a promise; `None` where it has none for this fabric.
pub fn tables(fabric: &Fabric, name: &str, promise: Promise) -> Option<Tables> {
    let lanes = || Some(fabric_lanes(fabric, budget())).filter(|found| found.needs_map());
    let lanes = (promise.any && route::reads_lanes(name)).then(lanes).flatten();
    let lanes = lanes.map(|found| Arc::new(found.lanes));
    let engine = route::engine(name, &EngineOptions { lanes, promise, ..EngineOptions::default() }).unwrap();
    engine.route(fabric, &Demand::oblivious(), budget()).ok()
}

/// Tables that the checker accepts, those of high LIDs, and their certificate; `None` if there is none.
fn certified(fabric: &Fabric, sets: &[Tables], promise: Promise) -> Option<Certificate> {
    let checks = Checks { promise, hosts_only: false };
    let (base, beside) = (&sets[..1], Beside { apart: &sets[1..], ..Beside::default() });
    let accepted = judge_beside(fabric, base, budget(), checks, beside).accepted;
    accepted
        .then(|| certify(fabric, &sets[0], budget(), checks, beside).expect("accepted tables have an order"))
}

fn handed_off(fabric: &Fabric, sets: &[Tables], promise: Promise, certificate: &Certificate) -> Vec<u8> {
    encode_lids(fabric, &sets[0], sets.get(1), None, Some((certificate, promise)), 1)
}

/// The verdicts of `handoff_check`, built with the sanitizers, on files in this directory: one line for each,
/// without its name.
fn verdicts(directory: &Path, files: &[Vec<u8>]) -> Vec<String> {
    let names: Vec<_> = (0..files.len()).map(|i| directory.join(format!("{i}.bin"))).collect();
    names.iter().zip(files).for_each(|(name, bytes)| fs::write(name, bytes).unwrap());
    let tool = root().join("plugin/opensm/sanitize/handoff_check");
    let output = Command::new(tool).arg("--certificate").args(&names).output().unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(matches!(output.status.code(), Some(0 | 1)) && !errors.contains("ERROR"), "{errors}");
    let lines: Vec<String> = text.lines().map(|l| l.split_once(": ").unwrap().1.to_string()).collect();
    assert_eq!(lines.len(), files.len(), "{text}");
    lines
}

fn make() {
    run(Command::new("make")
        .args(["--silent", "-C", "plugin/opensm", "all", "sanitize"])
        .current_dir(root()));
}

/// Trees, tori with lanes, dragonflies, random and damaged fabrics, aggregation nodes, parallel cables.
const FABRICS: [&str; 12] = [
    "kary:3,3",
    "fattree:6x4,2",
    "kary:4,2,hosts=3,faults=5%,seed=2",
    "torus:4x4,hosts=2",
    "torus:3x3x3,hosts=1",
    "torus:5x4,hosts=2,faults=5%,seed=7",
    "mesh:4x3,hosts=2",
    "hyperx:3x3,hosts=2",
    "dragonfly:4,2,2,5",
    "dragonfly:4,2,2,5,faults=3%,seed=2",
    "random:16,40,40,seed=3",
    "random:10,20,30,seed=5",
];

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn the_plugin_accepts_the_certificates_of_all_engines() {
    make();
    let directory = tempfile::tempdir().unwrap();
    let (mut files, mut names) = (Vec::new(), Vec::new());
    for spec in FABRICS {
        let fabric = generate(spec).unwrap();
        for engine in route::names() {
            let before = files.len();
            for promise in [Promise::TOLD, REPLY, ANY, route::default_promise(engine, false)] {
                let Some(own) = tables(&fabric, engine, promise) else { continue };
                // Each alone, and with those of another engine for high LIDs on the same lanes.
                let other = if route::reads_lanes(engine) { "balanced-efi" } else { "updown" };
                let other = tables(&fabric, other, promise).map(|t| t.with_lanes(own.lanes().cloned()));
                for sets in [vec![own.clone()], [own].into_iter().chain(other).collect()] {
                    if let Some(certificate) = certified(&fabric, &sets, promise) {
                        files.push(handed_off(&fabric, &sets, promise, &certificate));
                        names.push(format!("{spec} {engine} {promise} {}", sets.len()));
                    }
                }
            }
            let is_due = ["balanced", "nue", "sar-nue", "updown"].contains(&engine);
            assert!(!is_due || files.len() > before, "{spec} {engine}");
        }
    }
    for (verdict, name) in verdicts(directory.path(), &files).iter().zip(&names) {
        assert_eq!(verdict, "certified", "{name}");
    }
    let wanted = ["torus:4x4,hosts=2 balanced any+mixed 2", "hyperx:3x3,hosts=2 dfsssp told+reply 2"];
    assert!(wanted.iter().all(|wanted| names.iter().any(|name| name == wanted)));
    println!("{} epochs", names.len());
}

/// What a file's own judge says: whether all packets climb, whatever else may be wrong. `None` if it cannot be read.
fn climbs(fabric: &Fabric, bytes: &[u8]) -> Option<bool> {
    let found: Handoff = decode(bytes).ok()?;
    let Some(certificate) = found.certificate(fabric) else { return Some(false) };
    let checks = Checks { promise: Promise { mixed: false, ..found.promise? }, hosts_only: false };
    let map = found.map_on(fabric);
    let high = found.high.clone();
    let base = (found.ports.clone(), found.layers.clone());
    let sets = std::iter::once(base).chain(high);
    Some(sets.into_iter().all(|(ports, layers)| {
        let tables = Tables::new(fabric, "file", ports, layers).unwrap().with_lanes(map.clone());
        let verdict = judge_certified(fabric, &tables, LayerBudget::MOST, checks, &[], &certificate);
        !verdict.findings.iter().any(|f| matches!(f, Finding::NotCertified { .. }))
    }))
}

/// Where a section of a hand-off file is.
fn section(bytes: &[u8], kind: u32) -> Option<Range<usize>> {
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let header = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let entry = (128..header).step_by(32).find(|at| bytes[*at..*at + 4] == kind.to_le_bytes())?;
    Some(number(entry + 8)..number(entry + 8) + number(entry + 16))
}

/// The same file with the sum that it should have: CRC-64/XZ.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.len() - 8;
    let step = |r: u64| if r & 1 == 1 { r >> 1 ^ 0xC96C_5795_D787_0F42 } else { r >> 1 };
    let table: [u64; 256] = std::array::from_fn(|b| (0..8).fold(b as u64, |r, _| step(r)));
    let next = |rest: u64, byte: &u8| rest >> 8 ^ table[((rest ^ u64::from(*byte)) & 0xFF) as usize];
    let sum = bytes[..end].iter().fold(u64::MAX, next);
    bytes[end..].copy_from_slice(&(!sum).to_le_bytes());
    bytes
}

/// What is done to a good file.
const DAMAGES: [&str; 10] = [
    "two buffers change places",
    "a buffer is not there",
    "a buffer comes later",
    "a buffer is another",
    "a buffer comes twice",
    "the order is cut short",
    "an entry leads elsewhere",
    "a route has another layer",
    "a turn has another lane",
    "more is promised",
];

/// A good hand-off.
struct Case {
    fabric: Fabric,
    sets: Vec<Tables>,
    promise: Promise,
    order: Vec<(ChannelId, Vl)>,
    bytes: Vec<u8>,
}

impl Case {
    fn new(spec: &str, engines: &[&str], promise: Promise) -> Self {
        let fabric = generate(spec).unwrap();
        let of = |name: &&str| tables(&fabric, name, promise).unwrap_or_else(|| panic!("{spec} {name}"));
        let mut sets: Vec<Tables> = engines.iter().map(of).collect();
        let map = sets[0].lanes().cloned();
        sets = sets.into_iter().map(|t| t.with_lanes(map.clone())).collect();
        let certificate = certified(&fabric, &sets, promise).unwrap_or_else(|| panic!("{spec} {engines:?}"));
        let bytes = handed_off(&fabric, &sets, promise, &certificate);
        Self { order: certificate.order().to_vec(), fabric, sets, promise, bytes }
    }

    fn reordered(&self, change: impl FnOnce(&mut Vec<(ChannelId, Vl)>)) -> Vec<u8> {
        let mut order = self.order.clone();
        change(&mut order);
        let certificate = Certificate::new(&self.fabric, order).unwrap();
        handed_off(&self.fabric, &self.sets, self.promise, &certificate)
    }

    /// The file with the bytes of one section changed; `None` if it has no such section.
    fn patched(&self, kind: u32, change: impl FnOnce(&mut [u8])) -> Option<Vec<u8>> {
        let mut bytes = self.bytes.clone();
        change(&mut bytes[section(&self.bytes, kind)?]);
        Some(sealed(bytes))
    }

    /// A damage by its place in [`DAMAGES`]; `None` if this file cannot have it.
    fn damaged(&self, damage: usize, rng: &mut Rng) -> Option<Vec<u8>> {
        let (n, high) = (self.order.len(), 7 * u32::from(self.sets.len() == 2 && rng.below(2) == 1));
        let (i, j) = (rng.below(n), rng.below(n));
        let buffer = |bytes: &[u8], i: usize| <[u8; 4]>::try_from(&bytes[4 * i..4 * i + 4]).unwrap();
        match damage {
            0 => Some(self.reordered(|o| o.swap(i, j))),
            1 => Some(self.reordered(|o| _ = o.remove(i))),
            2 => Some(self.reordered(|o| {
                let moved = o.remove(i.min(j));
                o.insert(i.max(j), moved);
            })),
            3 => self.patched(9, |o| {
                let wild = (rng.next_u64() as u32 >> rng.below(32)).to_le_bytes();
                o[4 * i..4 * i + 4].copy_from_slice(&wild);
            }),
            4 => self.patched(9, |o| {
                let twice = buffer(o, j);
                o[4 * i..4 * i + 4].copy_from_slice(&twice);
            }),
            5 => Some(self.reordered(|o| o.truncate(i))),
            6 => self.patched(4 + high, |ports| self.redirect(ports, rng)),
            7 => self.patched(5 + high, |layers| {
                let used = self.bytes[76];
                let routes: Vec<usize> =
                    (0..layers.len()).filter(|i| layers[*i] != Tables::NO_LAYER).collect();
                layers[routes[rng.below(routes.len())]] = rng.below(used.into()) as u8;
            }),
            8 => self.patched(6, |rows| rows[rng.below(rows.len())] = rng.below(4) as u8),
            _ => self.patched(13, |promise| promise[0] = rng.below(16) as u8),
        }
    }

    /// Gives an entry the port of another cable of its switch.
    fn redirect(&self, ports: &mut [u8], rng: &mut Rng) {
        let s = self.fabric.switch_ids().nth(rng.below(self.fabric.switches().len())).unwrap();
        let d = self.fabric.dest_ids().nth(rng.below(self.fabric.dest_count())).unwrap();
        let out = self.fabric.out(s);
        let port = self.fabric.channel(out[rng.below(out.len())]).from_port.get();
        let entry = &mut ports[s.index() * self.fabric.dest_count() + d.index()];
        if self.fabric.home(d) != s {
            *entry = port;
        }
    }
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn thirty_thousand_damaged_certificates_are_refused() {
    make();
    let directory = tempfile::tempdir().unwrap();
    let cases = [
        Case::new("torus:4x4,hosts=2", &["nue"], Promise::TOLD),
        Case::new("torus:4x4,hosts=1", &["balanced", "balanced-efi"], ANY),
        Case::new("hyperx:3x3,hosts=2", &["nue", "updown"], Promise::TOLD),
        Case::new("hyperx:3x3,hosts=2", &["dfsssp"], REPLY),
        Case::new("kary:3,2", &["balanced"], Promise::EVERYTHING),
        Case::new("torus:3x3x3,hosts=1", &["balanced"], ANY),
        Case::new("dragonfly:4,2,2,5,faults=3%,seed=2", &["balanced"], Promise::EVERYTHING),
    ];
    let mut rng = Rng::new(20);
    let most = often(30_000, 5_000);
    let (mut refused, mut accepted) = ([0usize; DAMAGES.len()], [0usize; DAMAGES.len()]);
    while refused.iter().sum::<usize>() < most {
        for case in &cases {
            let (mut files, mut kinds) = (Vec::new(), Vec::new());
            for turn in 0..600 {
                if let Some(bytes) = case.damaged(turn % DAMAGES.len(), &mut rng) {
                    files.push(bytes);
                    kinds.push(turn % DAMAGES.len());
                }
            }
            for (i, verdict) in verdicts(directory.path(), &files).iter().enumerate() {
                let wanted = climbs(&case.fabric, &files[i]) == Some(true);
                let what = DAMAGES[kinds[i]];
                assert_eq!(verdict == "certified", wanted, "{what}: {verdict}");
                *if wanted { &mut accepted } else { &mut refused }.get_mut(kinds[i]).unwrap() += 1;
            }
        }
    }
    let mut told = String::new();
    for (i, what) in DAMAGES.iter().enumerate() {
        let _ = writeln!(told, "{what}: {} refused, {} still certified", refused[i], accepted[i]);
        assert!(refused[i] * 300 > most, "{told}");
    }
    println!("{told}");
}

/// Whoever promises nothing to nobody would have any tables certified.
#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn a_promise_without_a_sender_is_no_certificate() {
    make();
    let directory = tempfile::tempdir().unwrap();
    let fabric = generate("torus:4x4,hosts=2").unwrap();
    let routes = [tables(&fabric, "nue", Promise::TOLD).unwrap()];
    let order = certified(&fabric, &routes, Promise::TOLD).unwrap();
    let nobody = [
        Promise::NOTHING,
        Promise { reply: true, ..Promise::NOTHING },
        Promise { since: true, ..Promise::NOTHING },
        Promise { mixed: true, ..Promise::NOTHING },
    ];
    let files = nobody.map(|promise| handed_off(&fabric, &routes, promise, &order));
    for verdict in verdicts(directory.path(), &files) {
        assert!(verdict.contains("names no sender"), "{verdict}");
    }
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn opensm_declines_an_epoch_whose_certificate_is_damaged() {
    make();
    let fabric = generate("fattree:3x4,2").unwrap();
    let routes = [tables(&fabric, "updown", Promise::TOLD).unwrap()];
    let good = certified(&fabric, &routes, Promise::TOLD).unwrap();
    let backwards = good.order().iter().rev().copied().collect();
    let backwards = Certificate::new(&fabric, backwards).unwrap();
    let bytes = |c: Option<&Certificate>, epoch| {
        let proof = c.map(|c| (c, Promise::TOLD));
        encode_lids(&fabric, &routes[0], None, None, proof, epoch)
    };
    let bed = Testbed::fabric(&fabric, &[]);
    let refused = |epoch: u64, in_force: Option<u64>| {
        bed.publish_bytes(&format!("{epoch:06}"), &bytes(Some(&backwards), epoch));
        let status = bed.await_status("a refusal", |s| s.refused_generation == Some(epoch) && s.routings > 0);
        let reason = status.refused_reason.unwrap();
        assert!(reason.starts_with("not certified: switch 0x"), "{reason}");
        assert_eq!(status.generation, in_force);
        status.engine
    };
    // With nothing in force the next engine routes.
    assert_eq!(refused(1, None).as_deref(), Some("updn"));
    bed.publish_bytes("000002", &bytes(Some(&good), 2));
    let status = bed.await_epoch(2);
    assert_eq!((status.certified, status.refused_reason), (Some(true), None));
    assert_in_force(&bed, &fabric, &routes[0]);
    // One of a service that wrote none.
    bed.publish_bytes("000003", &bytes(None, 3));
    assert_eq!(bed.await_epoch(3).certified, Some(false));
    assert_eq!(refused(4, Some(3)).as_deref(), Some("sarouter"));
    assert_in_force(&bed, &fabric, &routes[0]);
}

use super::*;
use crate::lab::generate::generate;
use crate::model::rng::Rng;
use crate::model::{Demand, Layer, SwitchId};
use crate::route::lanes::fabric_lanes;
use crate::route::{self, EngineOptions};
use crate::verify::{Beside, Checks, accept_promise};

/// Tables with what else carries them, as a plan does.
#[derive(Debug)]
struct Carried(Arc<Tables>);

impl AsRef<Tables> for Carried {
    fn as_ref(&self) -> &Tables {
        &self.0
    }
}

impl AsRef<Arc<Tables>> for Carried {
    fn as_ref(&self) -> &Arc<Tables> {
        &self.0
    }
}

const MOST: LayerBudget = LayerBudget::MOST;

/// Tables, proved for any program and any mixture.
fn proved(fabric: &Fabric, tables: Tables) -> Proved {
    let any = Promise::EVERYTHING;
    let carried = Carried(Arc::new(tables));
    accept_promise(fabric, carried, MOST, any, Beside::default(), &[]).unwrap().proved().unwrap()
}

/// A tree in which each host has a way down of its own, and its tables.
fn tree() -> (Fabric, Proved) {
    let fabric = generate("kary:4,3").unwrap();
    let engine = route::engine("balanced", &EngineOptions::default()).unwrap();
    let tables = engine.route(&fabric, &Demand::default(), MOST).unwrap();
    let proved = proved(&fabric, tables);
    (fabric, proved)
}

/// Whether tables beside the proved ones are shown to be accepted by what differs, and whether they are in full.
fn shown(fabric: &Fabric, proved: &Proved, tables: &Tables, checks: Checks) -> (bool, bool) {
    let beside = Beside { mixed: std::slice::from_ref(&*proved.tables), ..Beside::default() };
    let case = Case { fabric, tables: std::slice::from_ref(tables), budget: MOST, checks, beside };
    let full = super::super::judge_beside(fabric, case.tables, MOST, checks, beside);
    (proved.shows(&case), full.accepted)
}

fn anything() -> Checks {
    Checks { promise: Promise::EVERYTHING, hosts_only: false }
}

/// The tables with another port at each switch of some towards a destination.
fn with(tables: &Tables, d: DestId, change: impl Fn(usize, u8) -> u8) -> Tables {
    let switches = tables.ports_to(d).len();
    tables.clone().edited(|ports, _| {
        let to = &mut ports[d.index() * switches..(d.index() + 1) * switches];
        to.iter_mut().enumerate().for_each(|(s, port)| *port = change(s, *port));
    })
}

/// Host of the same leaf, whose way is as good.
fn neighbour(fabric: &Fabric, n: usize) -> (DestId, DestId) {
    let leaf = fabric.switch_ids().filter(|s| fabric.has_hosts(*s)).nth(n).unwrap();
    let of = |i: usize| fabric.dest_of_terminal(fabric.attached(leaf)[i]);
    (of(0), of(1))
}

#[test]
fn other_ways_up_and_down_are_shown_by_what_differs() {
    let (fabric, proved) = tree();
    for n in 0..16 {
        let (d, other) = neighbour(&fabric, n);
        let home = fabric.home(d).index();
        let ways = proved.tables.ports_to(other).to_vec();
        let tables = with(&proved.tables, d, |s, port| if s == home { port } else { ways[s] });
        assert!(tables != *proved.tables, "leaf {n}");
        assert_eq!(shown(&fabric, &proved, &tables, anything()), (true, true), "leaf {n}");
    }
    // Nothing differs at all.
    assert_eq!(shown(&fabric, &proved, &proved.tables, anything()), (true, true));
}

#[test]
fn what_is_wrong_among_what_differs_is_never_shown() {
    let (fabric, proved) = tree();
    let (d, other) = neighbour(&fabric, 3);
    let home = fabric.home(d);
    let own = proved.tables.port(home, d).unwrap().get();
    let hole = Tables::UNREACHABLE;
    let up = fabric.out(home)[0];
    let above = fabric.channel(up).to.index();
    let first = fabric.switch_ids().find(|s| fabric.has_hosts(*s) && *s != home).unwrap().index();
    let wrong = [
        ("a hole", with(&proved.tables, d, |s, port| if s == first { hole } else { port })),
        (
            "another host's port",
            with(&proved.tables, d, |s, port| if s == home.index() { own ^ 1 } else { port }),
        ),
        ("a port that is none", with(&proved.tables, d, |s, port| if s == first { 200 } else { port })),
        // Up again from the home switch's own neighbour: nobody comes back.
        ("a loop", {
            let back = fabric.channel(up).from_port.get();
            let down = fabric.channel(up).to_port.get();
            let lost = |s: usize, port| match s {
                s if s == home.index() => back,
                s if s == above => down,
                _ => port,
            };
            with(&proved.tables, d, lost)
        }),
    ];
    for (what, tables) in wrong {
        assert_eq!(shown(&fabric, &proved, &tables, anything()), (false, false), "{what}");
    }
    assert_ne!(d, other);
}

/// Rings closed by one destination more on the same layer.
#[test]
fn a_cycle_that_what_differs_closes_is_not_shown() {
    let fabric = generate("torus:5,hosts=1").unwrap();
    let engine = route::engine("nue", &EngineOptions::default()).unwrap();
    let one = engine.route(&fabric, &Demand::default(), LayerBudget::new(1).unwrap()).unwrap();
    let proved = proved(&fabric, one);
    let shortest = route::engine("sssp", &EngineOptions::default()).unwrap();
    let shortest = shortest.route(&fabric, &Demand::default(), MOST).unwrap().on_layer(Layer::ZERO);
    assert_eq!(shown(&fabric, &proved, &shortest, anything()), (false, false));
}

/// What the proof does not reach to is judged in full.
#[test]
fn another_question_is_not_answered_by_the_proof() {
    let (fabric, proved) = tree();
    let tables = (*proved.tables).clone();
    let told = Checks { promise: Promise::TOLD, hosts_only: false };
    assert!(shown(&fabric, &proved, &tables, told).0, "anything includes it");
    let answers = Checks { promise: Promise { reply: true, ..Promise::TOLD }, hosts_only: false };
    assert!(!shown(&fabric, &proved, &tables, answers).0, "answers travel on SLs of other destinations");
    let less = Proved { promise: Promise::TOLD, ..proved.clone() };
    assert!(!shown(&fabric, &less, &tables, anything()).0);
    let each = Shown { is_together: false, ..proved.shown.clone() };
    assert!(!shown(&fabric, &Proved { shown: each, ..proved.clone() }, &tables, anything()).0);
    let wider = Proved { budget: MOST, ..proved.clone() };
    let case = |budget, mixed| Case {
        fabric: &fabric,
        tables: std::slice::from_ref(&tables),
        budget,
        checks: anything(),
        beside: Beside { mixed, ..Beside::default() },
    };
    assert!(wider.shows(&case(MOST, &[])) && !wider.shows(&case(LayerBudget::new(1).unwrap(), &[])));
    let (once, kept) = ([tables.clone()], [tables.clone()]);
    let besides = [
        Beside { since: &once, ..Beside::default() },
        Beside { apart: &kept, ..Beside::default() },
        Beside { answers_later: true, ..Beside::default() },
        Beside { lost_later: true, ..Beside::default() },
    ];
    for beside in besides {
        assert!(!proved.shows(&Case { beside, ..case(MOST, &[]) }), "{beside:?}");
    }
    let hosts_only = Checks { hosts_only: true, ..anything() };
    assert!(!proved.shows(&Case { checks: hosts_only, ..case(MOST, &[]) }));
    let lanes = [tables.clone().with_lanes(Some(fabric_lanes(&fabric, MOST).lanes.map))];
    assert!(!proved.shows(&Case { tables: &lanes, ..case(MOST, &[]) }), "other lanes");
    let (d, other) = neighbour(&fabric, 0);
    let ways = tables.ports_to(other).to_vec();
    let home = fabric.home(d).index();
    let third = [with(&tables, d, |s, port| if s == home { port } else { ways[s] })];
    assert!(!proved.shows(&case(MOST, &third)), "beside tables that are not the proved ones");
    let cut = fabric.without(|c| c.index() < 2, |_| false).unwrap();
    assert!(!proved.shows(&Case { fabric: &cut, ..case(MOST, &[]) }));
}

/// Tables of a first step, whose holes are excused, show nothing of the second one; nor does what was shown while a host
/// was an aggregation node.
#[test]
fn what_was_excused_or_of_another_role_is_judged_anew() {
    let (fabric, proved) = tree();
    let case = |fabric| Case {
        fabric,
        tables: std::slice::from_ref(&*proved.tables),
        budget: MOST,
        checks: anything(),
        beside: Beside::default(),
    };
    assert!(proved.shows(&case(&fabric)));
    let mut other = proved.clone();
    other.shown.hosts[0] ^= true;
    assert!(!other.shows(&case(&fabric)));
    for (answers_later, lost_later) in [(true, false), (false, true)] {
        let beside = Beside { answers_later, lost_later, ..Beside::default() };
        let tables = Carried(Arc::clone(&proved.tables));
        let first = accept_promise(&fabric, tables, MOST, Promise::EVERYTHING, beside, &[]).unwrap();
        assert!(!first.proved().unwrap().shows(&case(&fabric)));
    }
}

/// The order of the epoch before is kept where all climbs it, however the tables were judged: the same epoch is made
/// by a service that remembers and by one that has just begun.
#[test]
fn the_order_of_before_is_kept_by_both_ways_of_judging() {
    let (fabric, proved) = tree();
    let (d, other) = neighbour(&fabric, 5);
    let (home, ways) = (fabric.home(d).index(), proved.tables.ports_to(other).to_vec());
    let tables = with(&proved.tables, d, |s, port| if s == home { port } else { ways[s] });
    let before = std::slice::from_ref(&*proved.tables);
    // Neither of the first two buffers is waited for in the other.
    let mut order = proved.shown.certificate.order().to_vec();
    order.swap(0, 1);
    let read = Arc::new(Certificate::new(&fabric, order).unwrap());
    let shown = Shown { certificate: Arc::clone(&read), ..proved.shown.clone() };
    let proved = Proved { shown, ..proved.clone() };
    let order = |proved, order| {
        let beside = Beside { mixed: before, proved, order, ..Beside::default() };
        let any = Promise::EVERYTHING;
        let accepted = accept_promise(&fabric, tables.clone(), MOST, any, beside, &[]).unwrap();
        accepted.certificate().unwrap().clone()
    };
    assert_eq!(order(Some(&proved), Some(&read)), *read);
    assert_eq!(order(None, Some(&read)), *read);
    assert_ne!(order(None, None), *read, "a search finds another one");
    // One that does not show it is not kept.
    let mut wrong = read.order().to_vec();
    wrong.reverse();
    let wrong = Arc::new(Certificate::new(&fabric, wrong).unwrap());
    assert_eq!(order(None, Some(&wrong)), order(None, None));
}

/// Any switch may get any port of its own towards any destination, or several do: what is shown is accepted in full, and
/// much of what is accepted is shown.
#[test]
fn what_is_shown_of_random_changes_is_accepted_in_full() {
    for spec in ["kary:3,3", "torus:4x4,hosts=1", "dragonfly:4,2,2,9", "random:12,24,30,seed=5"] {
        let fabric = generate(spec).unwrap();
        let eight = LayerBudget::new(8).unwrap();
        let lanes = (spec != "kary:3,3").then(|| Arc::new(fabric_lanes(&fabric, eight).lanes));
        let options = EngineOptions { lanes, promise: Promise::EVERYTHING, ..EngineOptions::default() };
        let tables =
            route::engine("balanced", &options).unwrap().route(&fabric, &Demand::default(), eight).unwrap();
        let proved = proved(&fabric, tables);
        let (mut rng, mut counts) = (Rng::new(7), [[0; 2]; 2]);
        for _ in 0..400 {
            let d = DestId::at(rng.below(fabric.dest_count()));
            let home = fabric.home(d).index();
            let mut changed: Vec<(usize, u8)> = Vec::new();
            for _ in 0..1 + rng.below(2) {
                let s = SwitchId::at(rng.below(fabric.switches().len()));
                let out = fabric.out(s)[rng.below(fabric.out(s).len())];
                changed.push((s.index(), fabric.channel(out).from_port.get()));
            }
            changed.retain(|(s, _)| *s != home);
            let own = |s: usize, port| changed.iter().find(|c| c.0 == s).map_or(port, |c| c.1);
            let (shown, full) = shown(&fabric, &proved, &with(&proved.tables, d, own), anything());
            counts[usize::from(shown)][usize::from(full)] += 1;
        }
        assert!(counts[1][0] == 0 && counts[1][1] > 20 && counts[0][0] > 20, "{spec}: {counts:?}");
    }
}

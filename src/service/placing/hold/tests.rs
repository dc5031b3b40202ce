use proptest::prelude::*;

use super::*;
use crate::observe::hostlist::expand;

/// Slurm, as far as this machine sees it: jobs wait, are held, get nodes.
#[derive(Default)]
struct Slurm {
    jobs: BTreeMap<u32, Pending>,
    idle: BTreeSet<NodeName>,
    /// Commands that get lost from now on.
    lose: usize,
}

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
}

fn id(n: u32) -> JobId {
    JobId::new(n.to_string()).unwrap()
}

fn rules() -> Rules {
    Rules { deadline: TimeDelta::seconds(100), start: TimeDelta::seconds(10), most: 8 }
}

impl Slurm {
    fn new(idle: &str) -> Self {
        Self { idle: expand(idle).unwrap().into_iter().collect(), ..Self::default() }
    }

    fn submit(&mut self, n: u32, nodes: usize, tag: &str) {
        let (partition, features) = ("all".to_string(), String::new());
        let job = Pending {
            id: id(n),
            wants: Wants { nodes, partition, features, excluded: Vec::new(), mix: None },
            required: Vec::new(),
            admin_comment: format!("{TAG}{tag}"),
            held: None,
            reason: "None".into(),
            eligible: Some(at(0)),
            simple: true,
            submission: Default::default(),
        };
        self.jobs.insert(n, job);
    }

    fn look(&self) -> Look {
        let idle = self.idle.iter().map(|n| (n.clone(), Vec::new())).collect();
        let idle = Idle::from([("all".into(), idle)]);
        Look { jobs: self.jobs.values().cloned().collect(), idle, unknown: BTreeSet::new() }
    }

    fn job(&mut self, id: &JobId) -> &mut Pending {
        self.jobs.get_mut(&id.as_str().parse::<u32>().unwrap()).unwrap()
    }

    /// What the commands of control.rs do.
    fn act(&mut self, acts: &[Act]) {
        for act in acts {
            if self.lose > 0 {
                self.lose -= 1;
                continue;
            }
            match act {
                Act::Hold(id) => self.job(id).held = Some(Held::Admin),
                Act::Place(id, nodes) => {
                    self.job(id).required.clone_from(nodes);
                    self.job(id).held = None;
                }
                Act::Take(id, _) => {
                    self.job(id).required.clear();
                    self.job(id).held = Some(Held::Admin);
                }
                Act::Free(id, _) => {
                    self.job(id).required.clear();
                    self.job(id).held = None;
                }
            }
        }
    }

    fn step(&mut self, holds: &mut Holds, now: i64) -> Vec<Act> {
        let acts = holds.step(at(now), &self.look(), &rules(), first);
        self.act(&acts);
        acts
    }
}

/// The brain of these tests: the first nodes.
fn first(wants: &Wants, _: Insist, candidates: &[NodeName]) -> Advice {
    Advice::Nodes(candidates[..wants.nodes].to_vec())
}

fn nodes(list: &str) -> Vec<NodeName> {
    expand(list).unwrap()
}

#[test]
fn a_tagged_job_is_held_placed_and_forgotten_once_it_runs() {
    let (mut slurm, mut holds) = (Slurm::new("n[1-4]"), Holds::default());
    slurm.submit(7, 2, "prefer");
    slurm.submit(8, 2, "prefer");
    slurm.job(&id(8)).admin_comment = "other words".into();
    assert_eq!(slurm.step(&mut holds, 0), [Act::Hold(id(7))]);
    assert_eq!(slurm.step(&mut holds, 1), [Act::Place(id(7), nodes("n[1-2]"))]);
    assert_eq!(slurm.step(&mut holds, 2), []);
    slurm.jobs.remove(&7);
    slurm.step(&mut holds, 3);
    assert!(holds.records.is_empty());
}

#[test]
fn two_jobs_never_get_the_same_nodes_and_one_waits_for_enough() {
    let (mut slurm, mut holds) = (Slurm::new("n[1-5]"), Holds::default());
    [7, 8, 9].into_iter().for_each(|n| slurm.submit(n, 2, "prefer"));
    slurm.step(&mut holds, 0);
    let acts = slurm.step(&mut holds, 1);
    assert_eq!(acts, [Act::Place(id(7), nodes("n[1-2]")), Act::Place(id(8), nodes("n[3-4]"))]);
    assert_eq!(slurm.step(&mut holds, 2), []);
    slurm.idle.extend(nodes("n6"));
    assert_eq!(slurm.step(&mut holds, 3), [Act::Place(id(9), nodes("n[5-6]"))]);
}

#[test]
fn nodes_taken_in_between_are_given_up_for_others() {
    let (mut slurm, mut holds) = (Slurm::new("n[1-4]"), Holds::default());
    slurm.submit(7, 2, "prefer");
    slurm.step(&mut holds, 0);
    slurm.step(&mut holds, 1);
    slurm.idle.remove(&nodes("n1")[0]);
    assert_eq!(slurm.step(&mut holds, 2), [Act::Take(id(7), "its nodes were taken")]);
    assert_eq!(slurm.step(&mut holds, 3), [Act::Place(id(7), nodes("n[2-3]"))]);
}

#[test]
fn a_job_that_is_changed_is_placed_for_what_it_wants_now() {
    let (mut slurm, mut holds) = (Slurm::new("n[1-4]"), Holds::default());
    slurm.submit(7, 2, "prefer");
    slurm.step(&mut holds, 0);
    slurm.step(&mut holds, 1);
    slurm.job(&id(7)).wants.nodes = 3;
    assert_eq!(slurm.step(&mut holds, 2), [Act::Take(id(7), "the job was changed")]);
    assert_eq!(slurm.step(&mut holds, 3), [Act::Place(id(7), nodes("n[1-3]"))]);
}

#[test]
fn a_cancelled_job_leaves_nothing() {
    let (mut slurm, mut holds) = (Slurm::new("n1"), Holds::default());
    slurm.submit(7, 2, "prefer");
    slurm.step(&mut holds, 0);
    slurm.jobs.clear();
    assert_eq!(slurm.step(&mut holds, 1), []);
    assert!(holds.records.is_empty());
}

#[test]
fn nobody_is_held_beyond_the_deadline_whoever_serves_then() {
    let (mut slurm, mut holds) = (Slurm::new("n1"), Holds::default());
    slurm.submit(7, 2, "require");
    slurm.step(&mut holds, 0);
    assert_eq!(slurm.step(&mut holds, 99), []);
    // Another service, with what is on the disk.
    let mut holds: Holds = serde_json::from_str(&serde_json::to_string(&holds).unwrap()).unwrap();
    assert_eq!(slurm.step(&mut holds, 100), [Act::Free(id(7), "its deadline has passed")]);
    // And it is never held again, even when there are enough nodes.
    slurm.idle.extend(nodes("n[2-4]"));
    assert_eq!(slurm.step(&mut holds, 101), []);
    let mut holds: Holds = serde_json::from_str(&serde_json::to_string(&holds).unwrap()).unwrap();
    assert_eq!(slurm.step(&mut holds, 102), []);
}

#[test]
fn a_released_job_that_does_not_start_is_let_go_in_the_end() {
    let (mut slurm, mut holds) = (Slurm::new("n[1-4]"), Holds::default());
    slurm.submit(7, 2, "prefer");
    let mut last = Vec::new();
    for now in 0..90 {
        let acts = slurm.step(&mut holds, now);
        last = if acts.is_empty() { last } else { acts };
    }
    assert_eq!(last, [Act::Free(id(7), "it has not started")]);
    // Slurm refuses the nodes outright.
    slurm.submit(8, 2, "prefer");
    slurm.step(&mut holds, 90);
    slurm.step(&mut holds, 91);
    slurm.job(&id(8)).reason = "BadConstraints".into();
    assert_eq!(slurm.step(&mut holds, 92), [Act::Free(id(8), "Slurm refuses the nodes")]);
}

#[test]
fn lost_commands_are_repeated_and_other_peoples_holds_respected() {
    let (mut slurm, mut holds) = (Slurm::new("n[1-4]"), Holds::default());
    slurm.submit(7, 2, "prefer");
    slurm.lose = 1;
    slurm.step(&mut holds, 0);
    assert_eq!(slurm.step(&mut holds, 1), [Act::Hold(id(7))]);
    slurm.lose = 1;
    slurm.step(&mut holds, 2);
    assert_eq!(slurm.step(&mut holds, 3), [Act::Place(id(7), nodes("n[1-2]"))]);
    // Held by its owner before we see it, or released by somebody while we hold it.
    slurm.submit(8, 2, "prefer");
    slurm.job(&id(8)).held = Some(Held::User);
    slurm.submit(9, 4, "prefer");
    assert_eq!(slurm.step(&mut holds, 4), [Act::Hold(id(9))]);
    slurm.job(&id(9)).held = None;
    assert_eq!(slurm.step(&mut holds, 5), [Act::Hold(id(9))], "the command may have been lost");
    slurm.step(&mut holds, 6);
    slurm.job(&id(9)).held = None;
    assert_eq!(slurm.step(&mut holds, 7), [], "it was held, so somebody released it");
}

#[test]
fn no_more_than_allowed_are_held_and_with_none_allowed_all_go() {
    let (mut slurm, mut holds) = (Slurm::new("n1"), Holds::default());
    (0..12).for_each(|n| slurm.submit(n, 2, "prefer"));
    assert_eq!(slurm.step(&mut holds, 0).len(), 8);
    let none = Rules { most: 0, ..rules() };
    slurm.step(&mut holds, 1);
    let acts = holds.step(at(2), &slurm.look(), &none, first);
    assert_eq!(acts.len(), 8);
    assert!(acts.iter().all(|a| matches!(a, Act::Free(..))));
    assert_eq!(Holds::default().close(None), []);
}

#[test]
fn closing_frees_what_is_due_or_everything() {
    let (mut slurm, mut holds) = (Slurm::new("n[1-2]"), Holds::default());
    slurm.submit(7, 2, "prefer");
    slurm.step(&mut holds, 0);
    slurm.submit(8, 2, "prefer");
    slurm.step(&mut holds, 50);
    assert_eq!(holds.close(Some(at(99))).len(), 0);
    assert_eq!(holds.close(Some(at(100))).len(), 1);
    assert_eq!(holds.close(None).len(), 2);
    // Let go, but the command was lost: it is not over before it was seen free.
    slurm.step(&mut holds, 200);
    slurm.jobs.values_mut().for_each(|job| job.held = Some(Held::Admin));
    assert_eq!(holds.close(None).len(), 2);
    slurm.step(&mut holds, 201);
    slurm.step(&mut holds, 202);
    assert_eq!(holds.close(None).len(), 0);
}

/// Whatever happens, and whatever gets lost: after its deadline nobody is held by us, nobody has nodes
/// of ours that it waits for, and nodes are only ever given that are idle.
fn everybody_is_free(events: &[(u32, u8)], lost: usize) {
    let (mut slurm, mut holds) = (Slurm::new("n[1-8]"), Holds::default());
    let mut now = 0;
    for (n, event) in events.iter().copied() {
        now += 1;
        match event {
            0 | 1 => slurm.submit(n, 2 + n as usize, "prefer"),
            2 => drop(slurm.jobs.remove(&n)),
            3 => drop(slurm.idle.pop_first()),
            4 => slurm.idle.extend(nodes("n[1-8]")),
            5 => {
                if let Some(job) = slurm.jobs.get_mut(&n) {
                    job.wants.nodes = 3;
                }
            }
            6 => slurm.lose = lost,
            // The service is replaced by another.
            _ => holds = serde_json::from_str(&serde_json::to_string(&holds).unwrap()).unwrap(),
        }
        let idle = slurm.idle.clone();
        for act in slurm.step(&mut holds, now) {
            if let Act::Place(_, nodes) = act {
                assert!(nodes.iter().all(|n| idle.contains(n)));
            }
        }
    }
    // Nothing is lost any more, and nobody is new.
    slurm.lose = 0;
    let known: Vec<u32> = slurm.jobs.keys().copied().collect();
    for later in 0..4 {
        slurm.step(&mut holds, now + 200 + later);
    }
    slurm.jobs.retain(|n, _| known.contains(n));
    for later in 0..4 {
        slurm.step(&mut holds, now + 400 + later);
    }
    for job in slurm.jobs.values() {
        assert_eq!(job.held, None);
        assert_eq!(&job.required, &Vec::<NodeName>::new());
    }
}

/// The command that took a set back was lost, and so was the one that gave another.
#[test]
fn a_set_given_before_the_last_one_is_taken_back_too() {
    let (mut slurm, mut holds) = (Slurm::new("n[1-4]"), Holds::default());
    slurm.submit(7, 2, "prefer");
    slurm.step(&mut holds, 0);
    assert_eq!(slurm.step(&mut holds, 1), [Act::Place(id(7), nodes("n[1-2]"))]);
    slurm.idle.pop_first();
    assert_eq!(slurm.step(&mut holds, 2), [Act::Take(id(7), "its nodes were taken")]);
    assert_eq!(slurm.step(&mut holds, 3), [Act::Place(id(7), nodes("n[2-3]"))]);
    slurm.job(&id(7)).required = nodes("n[1-2]");
    slurm.lose = 1;
    assert_eq!(slurm.step(&mut holds, 200), [Act::Free(id(7), "its deadline has passed")]);
    assert_eq!(slurm.step(&mut holds, 201), [Act::Free(id(7), "it is not free yet")]);
}

/// Slurm does not hear us while a job is let go, more often than anything else is repeated.
#[test]
fn a_job_is_let_go_however_often_slurm_does_not_hear_it() {
    let events = [0, 3, 0, 0, 4, 4, 3, 0, 6, 4, 0, 3, 6, 3, 6, 3];
    let jobs = [0, 0, 0, 4, 0, 0, 0, 4, 0, 4, 0, 0, 0, 0, 0, 0];
    let events: Vec<(u32, u8)> = jobs.into_iter().zip(events).collect();
    everybody_is_free(&events, 2);
}

proptest! {
    #[test]
    fn after_the_deadline_everybody_is_free(
        events in proptest::collection::vec((0u32..6, 0u8..8), 1..60), lost in 0usize..3,
    ) {
        everybody_is_free(&events, lost);
    }
}

/// Users' comments can hide the lines of others' jobs.
#[test]
fn a_held_job_of_which_slurm_says_nothing_is_let_go_at_its_deadline() {
    let (mut slurm, mut holds) = (Slurm::new("n[1-4]"), Holds::default());
    slurm.submit(7, 5, "prefer");
    slurm.submit(8, 5, "prefer");
    assert_eq!(slurm.step(&mut holds, 0).len(), 2);
    let hidden = Look { jobs: Vec::new(), unknown: BTreeSet::from([id(7)]), ..slurm.look() };
    assert_eq!(holds.step(at(50), &hidden, &rules(), first), []);
    assert_eq!(holds.records.keys().cloned().collect::<Vec<_>>(), [id(7)], "the other one is over");
    assert_eq!(holds.step(at(100), &hidden, &rules(), first), [Act::Free(id(7), "its deadline has passed")]);
    // What came of it is not seen.
    for second in 101..104 {
        let again = holds.step(at(second), &hidden, &rules(), first);
        assert_eq!(again, [Act::Free(id(7), "it may not be free yet")]);
    }
    assert_eq!(holds.step(at(104), &hidden, &rules(), first), []);
    // All commands were lost.
    assert_eq!(slurm.step(&mut holds, 105)[..1], [Act::Free(id(7), "it is not free yet")]);
}

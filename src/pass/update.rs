//! The manager's side of the thesis' property-preserving network update (section 5.2.3, Figure 5.7).
//!
//! Every port has two LIDs (LMC 1). Routes to base LIDs change with the jobs; those to high LIDs (base + 1)
//! are Up*/Down* on a virtual layer of their own and stay. No switch is written for base LIDs before every
//! subscriber has said that none of its connections uses them:
//!
//! | phase | the manager | subscribers |
//! |---|---|---|
//! | [`Phase::Rest`] | waits for new routes | send to base LIDs |
//! | [`Phase::Unpath`] | has sent all an unpath notice | drain each connection, move it to high LIDs, confirm |
//! | [`Phase::Write`] | has switches written | send to high LIDs |
//! | [`Phase::Repath`] | has sent all a repath notice | drain each connection, move it back, confirm |
//!
//! A pure machine: an [`Event`] goes in, [`Action`]s come out. It has no clock and sends nothing. Who runs it
//! repeats notices to those in [`Manager::awaited`], and gives up on one that never answers with
//! [`Event::Unsubscribe`], as the thesis does.

use schemars::JsonSchema;
use std::collections::BTreeSet;
use std::fmt;

/// One program that was promised to be asked: an application, or a service such as a file system.
pub type Subscriber = u32;

/// Which LIDs a program sends to. Never from the one kind to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lids {
    /// Those whose routes change.
    Base,
    /// Those whose routes stay.
    High,
}

/// Where an update is. See the [module](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// None is under way.
    Rest,
    /// Programs leave base LIDs.
    Unpath,
    /// Switches get new routes to base LIDs.
    Write,
    /// Programs come back to base LIDs.
    Repath,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rest => "rest",
            Self::Unpath => "unpath",
            Self::Write => "write",
            Self::Repath => "repath",
        })
    }
}

/// What the manager learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// There are new routes to base LIDs.
    Routes,
    /// A program begins; it sends nothing before the answer, [`Action::Begin`], has come.
    Subscribe(Subscriber),
    /// A program has ended, or is taken to have.
    Unsubscribe(Subscriber),
    /// A program has done what the notice of that round asked.
    Confirm {
        /// The subscriber whose connection it is.
        who: Subscriber,
        /// That of the notice.
        round: u64,
    },
    /// Every switch has the newest routes.
    Written,
}

/// What the manager does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Answers a subscription.
    Begin {
        /// To whom.
        who: Subscriber,
        /// Where its connections begin.
        lids: Lids,
    },
    /// Sends all of them a notice to move their connections.
    Notice {
        /// Its number, which confirmations repeat.
        round: u64,
        /// Where to: [`Lids::High`] is the thesis' unpath, [`Lids::Base`] its repath.
        lids: Lids,
    },
    /// Has every switch written the newest routes to base LIDs; [`Event::Written`] comes when all are.
    Write,
}

/// The machine. Starts at rest, without subscribers.
#[derive(Debug, Clone)]
pub struct Manager {
    phase: Phase,
    round: u64,
    subscribers: BTreeSet<Subscriber>,
    awaited: BTreeSet<Subscriber>,
    /// Routes came that are not part of what is being written.
    is_due: bool,
}

impl Default for Manager {
    fn default() -> Self {
        let none = BTreeSet::new;
        Self { phase: Phase::Rest, round: 0, subscribers: none(), awaited: none(), is_due: false }
    }
}

impl Manager {
    /// Where the update is.
    pub fn phase(&self) -> Phase {
        self.phase
    }
    /// Those whose confirmation is waited for.
    pub fn awaited(&self) -> impl Iterator<Item = Subscriber> + '_ {
        self.awaited.iter().copied()
    }
    /// Those that get notices.
    pub fn subscribers(&self) -> impl Iterator<Item = Subscriber> + '_ {
        self.subscribers.iter().copied()
    }

    /// Takes in an event. Confirmations of earlier rounds, and of programs that are not awaited, change
    /// nothing. O(log subscribers), and O(subscribers) where a phase ends.
    pub fn handle(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        match (event, self.phase) {
            // Switches are written when all have left: with what is newest then.
            (Event::Routes, Phase::Unpath) => {}
            (Event::Routes, _) => self.is_due = true,
            (Event::Subscribe(who), phase) => {
                self.subscribers.insert(who);
                // A new one has no connection yet: nothing to wait for. One that asks twice is still awaited.
                let is_away = matches!(phase, Phase::Unpath | Phase::Write);
                let lids = if is_away { Lids::High } else { Lids::Base };
                actions.push(Action::Begin { who, lids });
            }
            (Event::Unsubscribe(who), _) => {
                self.subscribers.remove(&who);
                self.awaited.remove(&who);
            }
            (Event::Confirm { who, round }, _) => {
                if round == self.round {
                    self.awaited.remove(&who);
                }
            }
            (Event::Written, Phase::Write) if !self.is_due => {
                self.phase = Phase::Repath;
                actions.push(self.notice(Lids::Base));
            }
            // What came meanwhile is written as well, while nobody is there.
            (Event::Written, Phase::Write) => {
                self.is_due = false;
                actions.push(Action::Write);
            }
            (Event::Written, _) => {}
        }
        self.go_on(&mut actions);
        actions
    }

    /// Phases that end because nobody is awaited any more.
    fn go_on(&mut self, actions: &mut Vec<Action>) {
        if self.phase == Phase::Repath && self.awaited.is_empty() {
            self.phase = Phase::Rest;
        }
        if self.phase == Phase::Rest && std::mem::take(&mut self.is_due) {
            self.phase = Phase::Unpath;
            actions.push(self.notice(Lids::High));
        }
        if self.phase == Phase::Unpath && self.awaited.is_empty() {
            self.phase = Phase::Write;
            actions.push(Action::Write);
        }
    }

    fn notice(&mut self, lids: Lids) -> Action {
        self.round += 1;
        self.awaited.clone_from(&self.subscribers);
        Action::Notice { round: self.round, lids }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::rng::Rng;

    fn notice(round: u64, lids: Lids) -> Action {
        Action::Notice { round, lids }
    }

    #[test]
    fn switches_are_written_when_the_last_has_left_and_not_before() {
        let mut manager = Manager::default();
        for who in [4, 7] {
            let begins = Action::Begin { who, lids: Lids::Base };
            assert_eq!(manager.handle(Event::Subscribe(who)), [begins]);
        }
        assert_eq!(manager.handle(Event::Routes), [notice(1, Lids::High)]);
        assert_eq!(manager.handle(Event::Confirm { who: 4, round: 1 }), []);
        let again = Action::Begin { who: 7, lids: Lids::High };
        assert_eq!(manager.handle(Event::Subscribe(7)), [again], "a late copy: it is still awaited");
        // One who begins now begins where the others are.
        let begins = Action::Begin { who: 9, lids: Lids::High };
        assert_eq!(manager.handle(Event::Subscribe(9)), [begins]);
        assert_eq!(manager.handle(Event::Written), [], "nothing was written yet");
        assert_eq!(manager.handle(Event::Confirm { who: 7, round: 1 }), [Action::Write]);
        assert_eq!(manager.phase(), Phase::Write);
        assert_eq!(manager.handle(Event::Written), [notice(2, Lids::Base)]);
        assert_eq!(manager.awaited().collect::<Vec<_>>(), [4, 7, 9]);
        // A confirmation that was late.
        assert_eq!(manager.handle(Event::Confirm { who: 4, round: 1 }), []);
        assert_eq!(manager.awaited().count(), 3);
        for who in [4, 7, 9] {
            assert_eq!(manager.phase(), Phase::Repath);
            assert_eq!(manager.handle(Event::Confirm { who, round: 2 }), []);
        }
        assert_eq!(manager.phase(), Phase::Rest);
    }

    #[test]
    fn who_ends_is_not_waited_for_and_new_routes_wait_for_the_right_moment() {
        let mut manager = Manager::default();
        manager.handle(Event::Subscribe(1));
        manager.handle(Event::Subscribe(2));
        manager.handle(Event::Routes);
        assert_eq!(manager.handle(Event::Routes), [], "they are written with the first ones");
        manager.handle(Event::Confirm { who: 1, round: 1 });
        assert_eq!(manager.handle(Event::Unsubscribe(2)), [Action::Write]);
        assert_eq!(manager.handle(Event::Routes), []);
        assert_eq!(manager.handle(Event::Written), [Action::Write], "nobody is on base LIDs: once more");
        assert_eq!(manager.handle(Event::Written), [notice(2, Lids::Base)]);
        assert_eq!(manager.handle(Event::Routes), []);
        assert_eq!(manager.handle(Event::Confirm { who: 1, round: 2 }), [notice(3, Lids::High)]);
        // Without anybody an update is all writing.
        let mut alone = Manager::default();
        assert_eq!(alone.handle(Event::Routes), [notice(1, Lids::High), Action::Write]);
        assert_eq!(alone.handle(Event::Written), [notice(2, Lids::Base)]);
        assert_eq!(alone.phase(), Phase::Rest);
    }

    /// What a program was told last, where it is, and what it has still to confirm.
    #[derive(Clone, Copy)]
    struct Program {
        lids: Lids,
        owes: Option<(u64, Lids)>,
    }

    /// Programs that come, go, and confirm late or twice; routes at any time.
    #[test]
    fn nobody_is_on_base_lids_while_switches_are_written() {
        let (mut written, mut seen) = (0, 0);
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut manager = Manager::default();
            let mut programs: BTreeMap<Subscriber, Program> = BTreeMap::new();
            let (mut is_writing, mut old): (bool, Vec<Event>) = (false, Vec::new());
            for _ in 0..300 {
                let who = rng.below(6) as u32;
                let event = match rng.below(8) {
                    0 => Event::Routes,
                    1 if !programs.contains_key(&who) => Event::Subscribe(who),
                    2 if rng.below(3) == 0 => {
                        programs.remove(&who);
                        Event::Unsubscribe(who)
                    }
                    3 if is_writing => Event::Written,
                    4 if !old.is_empty() => old[rng.below(old.len())],
                    _ => {
                        let Some(program) = programs.get_mut(&who) else { continue };
                        let Some((round, lids)) = program.owes.take() else { continue };
                        program.lids = lids;
                        old.push(Event::Confirm { who, round });
                        Event::Confirm { who, round }
                    }
                };
                is_writing &= event != Event::Written;
                for action in manager.handle(event) {
                    match action {
                        Action::Begin { who, lids } => {
                            programs.insert(who, Program { lids, owes: None });
                        }
                        Action::Notice { round, lids } => {
                            programs.values_mut().for_each(|p| p.owes = Some((round, lids)));
                        }
                        Action::Write => (is_writing, written) = (true, written + 1),
                    }
                }
                assert_eq!(is_writing, manager.phase() == Phase::Write);
                assert!(!is_writing || programs.values().all(|p| p.lids == Lids::High));
                seen += usize::from(is_writing && !programs.is_empty());
            }
        }
        assert!(written > 1000 && seen > 1000, "{written} {seen}");
    }
}

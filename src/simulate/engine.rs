//! The event loop.
//!
//! A packet's way over one link: it is first in its input buffer and chooses a link and a lane
//! ([`Router::hop`]); it waits there in the order of requests; the crossbar moves it to the output
//! buffer when that has room for all of it (virtual cut-through); the cable takes it when the next
//! input buffer has room; its head arrives and may go on before its tail is there. Lanes take
//! turns on the cable and on the crossbar. Without output buffers the middle steps are one.
//!
//! Nothing is allocated per packet: packets are slots of one array, and every list is linked
//! through its members.

use super::net::Net;
use super::parts::{Agenda, Due, Habits, Pace, Size};
use super::router::Router;
use super::settings::Settings;
use super::state::{Content, Link, List, NONE, Out, Packet, Places, Space};
use super::stats::Stats;
use super::traffic::{Message, Traffic};
use super::wheel::{LINES, named};
use crate::model::rng::Rng;
use schemars::JsonSchema;

pub(super) const ARRIVE: u64 = 0;
pub(super) const READ: u64 = 1;
pub(super) const SENT: u64 = 2;
pub(super) const CREDIT: u64 = 3;
pub(super) const DELIVER: u64 = 4;
/// [`READ`], then [`SENT`], of one full packet: it went through the crossbar onto the cable at once.
pub(super) const THROUGH: u64 = 5;
/// From here on events that cannot move a packet by themselves.
pub(super) const WAKE: u64 = 6;
pub(super) const RECONSIDER: u64 = 7;

/// Lanes of all links whose state stays in the processor's nearer caches.
const SMALL: usize = 1 << 13;

/// Reconsiderations in vain, per packet, after which adaptive packets count as stuck.
const IN_VAIN: u64 = 16;

/// Ticks of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// On a cable between switches.
    pub(super) link: u32,
    /// From its terminal into the network.
    pub(super) injection: u32,
    /// On the cable to its terminal.
    pub(super) ejection: u32,
    /// Until its terminal has taken it.
    pub(super) consumption: u32,
}

impl Times {
    pub(super) fn of(settings: &Settings, payload: u32) -> Self {
        let at = |rate| settings.ticks_at(payload, rate);
        Self {
            link: at(settings.link_rate),
            injection: at(settings.injection_rate.min(settings.terminal_rate)),
            ejection: at(settings.terminal_rate),
            consumption: at(settings.consumption_rate),
        }
    }
}

/// What a terminal is sending.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct Host {
    pub(super) message: Option<Message>,
    /// Bytes of the message that are not in packets yet.
    pub(super) left: u32,
    /// A packet that is made but not sent.
    pub(super) packet: u32,
    /// When it will ask for work; 0 if it will not.
    pub(super) wake: u64,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Nothing is left to do.
    Finished,
    /// The time is over.
    Time,
    /// Packets wait for each other in a circle.
    Deadlock,
}

/// A network, a routing, traffic, and the state of everything at one moment.
pub struct Simulator<'a, R, T> {
    pub(super) net: &'a Net,
    pub(super) settings: Settings,
    pub(super) router: &'a R,
    /// What sends, and hears what has arrived.
    pub traffic: T,
    pub(super) links: Vec<Link>,
    pub(super) space: Vec<Space>,
    pub(super) places: Places,
    pub(super) outs: Vec<Out>,
    /// Packets in the input buffer of each lane, first come first. Indexed like `outs`.
    pub(super) ins: Vec<List>,
    pub(super) packets: Vec<Packet>,
    pub(super) contents: Vec<Content>,
    pub(super) hosts: Vec<Host>,
    /// When each terminal has consumed everything that has arrived.
    pub(super) consumed: Vec<u64>,
    pub(super) live: u64,
    /// What was counted.
    pub stats: Stats,
    pub(super) size: Size,
    pub(super) free: u32,
    pub(super) now: u64,
    /// Tick since which is counted.
    pub(super) since: u64,
    pub(super) agenda: Agenda,
    pub(super) in_vain: u64,
    pub(super) stopped: bool,
    pub(super) rng: Rng,
    pub(super) pace: Pace,
    /// With reconsideration, first packets of each input lane so far: tells a late one from a due one.
    pub(super) turns: Vec<u16>,
    pub(super) habits: Habits,
    pub(super) due: Due,
}

impl<'a, R: Router, T: Traffic> Simulator<'a, R, T> {
    /// An empty network at time 0.
    ///
    /// # Errors
    /// See [`Settings::check`]; buffers below [`Router::least_room`]; lanes out of 1 to 16; a network too large for the event format.
    pub fn new(
        net: &'a Net,
        settings: Settings,
        router: &'a R,
        traffic: T,
        seed: u64,
    ) -> Result<Self, String> {
        settings.check()?;
        if !(1..=16).contains(&router.lanes()) {
            return Err(format!("{} lanes, 1 to 16 are possible", router.lanes()));
        }
        settings.check_room(router.least_room())?;
        let per_link = usize::from(router.lanes()).next_power_of_two();
        if net.links() * per_link >= 1 << 28 {
            return Err("the network is too large".into());
        }
        let space = Space { credit: settings.input_flits as u16, room: settings.output_flits as u16 };
        let out = Out { output: List::EMPTY, waiting: List::EMPTY };
        let host = Host { message: None, left: 0, packet: NONE, wake: 0 };
        let adaptive = router.is_adaptive() && settings.reconsider_ps > 0;
        let pace = Pace::of(&settings, adaptive);
        Ok(Self {
            net,
            settings,
            router,
            traffic,
            links: (0..net.links()).map(|l| Link::idle(net, l)).collect(),
            space: vec![space; net.links() * per_link],
            places: Places::new(router.is_adaptive(), net.links(), per_link),
            outs: vec![out; net.links() * per_link],
            ins: vec![List::EMPTY; net.links() * per_link],
            packets: Vec::new(),
            contents: Vec::new(),
            hosts: vec![host; net.terminals()],
            consumed: vec![0; net.terminals()],
            live: 0,
            stats: Stats::new(net.terminals()),
            size: Size {
                shift: per_link.trailing_zeros(),
                channels: net.channels() as u32,
                terminals: net.terminals() as u32,
            },
            free: NONE,
            now: 0,
            since: 0,
            agenda: Agenda::of(&pace),
            in_vain: 0,
            stopped: false,
            rng: Rng::new(seed),
            pace,
            turns: vec![0; if adaptive { net.links() * per_link } else { 0 }],
            habits: Habits {
                looks_around: router.is_adaptive(),
                fetches: net.links() * per_link > SMALL,
                any_first_lane: settings.any_first_lane && router.starts_anywhere(),
            },
            due: Due::at_first(net.hosts()),
        })
    }

    /// The tick that is simulated.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Packets in the network.
    pub fn live(&self) -> u64 {
        self.live
    }

    /// Counts anew from now on: a measuring window begins.
    pub(super) fn count_anew(&mut self) {
        self.stats.reset();
        self.links.iter_mut().for_each(|l| l.busy = 0);
        self.since = self.now;
    }

    /// Ticks that each link spent sending since it was counted anew, by link.
    pub fn busy(&self) -> Vec<u64> {
        self.links.iter().map(|l| l.busy).collect()
    }

    /// From now on no terminal starts a message.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Simulates up to and including tick `until`, or to the end.
    #[inline(never)]
    pub fn run(&mut self, until: u64) -> Ended {
        let mut events = Vec::new();
        self.wake_hosts();
        if self.settings.random_arbiter {
            self.arbitrate();
        }
        loop {
            if self.agenda.wheel.len() > self.agenda.idle {
                self.in_vain = 0;
            } else if self.live > 0 && self.is_stuck() {
                return Ended::Deadlock;
            }
            let Some(time) = self.agenda.wheel.next(until, &mut events) else {
                let over = self.agenda.wheel.len() == 0;
                self.now = if over { self.now } else { until };
                return if over { Ended::Finished } else { Ended::Time };
            };
            self.now = time;
            if !events.is_empty() {
                events.iter().for_each(|e| self.handle_rare(*e));
                if self.habits.fetches {
                    self.fetch_slots();
                }
            }
            for line in 0..LINES {
                self.run_line(line);
            }
            if self.settings.random_arbiter {
                self.arbitrate();
            }
        }
    }

    /// What happens in this tick of one queue. Each queue has nearly always events of the same one or two
    /// kinds; with a loop of its own for each the processor foretells which. One place that tells six kinds
    /// apart was wrong for a third of all events, and three times more where it asked ahead.
    #[inline(always)]
    fn run_line(&mut self, line: usize) {
        if line == self.agenda.arrivals {
            while let Some(e) = self.agenda.wheel.pop(line) {
                if self.habits.fetches {
                    self.fetch_arrivals(line);
                }
                if e & 15 == ARRIVE {
                    let (p, q) = named(e);
                    self.arrive(p, q);
                } else {
                    self.handle_rare(e)
                }
                self.ask_all();
            }
        } else if line == self.agenda.cables {
            while let Some(e) = self.agenda.wheel.pop(line) {
                if self.habits.fetches {
                    self.fetch_cables(line);
                }
                self.handle_cable(e);
            }
        } else {
            while let Some(e) = self.agenda.wheel.pop(line) {
                if self.habits.fetches {
                    self.fetch_credits(line);
                }
                if e & 15 == CREDIT {
                    let (lane, flits) = named(e);
                    self.take_credit(lane, flits);
                } else {
                    self.handle_rare(e);
                }
                self.ask_all();
            }
        }
    }

    /// An event of the queue of a packet's time on a cable.
    #[inline(always)]
    fn handle_cable(&mut self, e: u64) {
        let (kind, (a, b)) = (e & 15, named(e));
        if kind == SENT {
            self.sent(a, b);
        } else if kind == THROUGH || kind == READ {
            self.read(a, b);
            self.ask_all();
            if kind == THROUGH {
                self.sent(a, b >> 28 << 28 | self.pace.full_flits);
            }
        } else {
            self.handle_rare(e);
        }
        self.ask_all();
    }

    /// With no event under way that moves a packet: nothing will ever move, unless an adaptive
    /// packet still finds another way.
    pub(super) fn is_stuck(&mut self) -> bool {
        if self.pace.reconsider == 0 {
            return true;
        }
        self.in_vain += 1;
        self.in_vain > IN_VAIN * self.pace.reconsider * (self.live + 1)
    }

    /// Any event.
    #[inline(never)]
    fn handle_rare(&mut self, e: u64) {
        let (kind, (a, b)) = (e & 15, named(e));
        if kind >= WAKE {
            self.agenda.idle -= 1;
        }
        match kind {
            ARRIVE => self.arrive(a, b),
            READ | SENT | THROUGH => self.handle_cable(e),
            CREDIT => self.take_credit(a, b),
            DELIVER => self.deliver(a, b),
            WAKE => {
                if self.hosts[a as usize].wake == self.now {
                    self.hosts[a as usize].wake = 0;
                    self.inject(a);
                }
            }
            _ => self.reconsider(a, b as u16),
        }
        self.ask_all();
    }

    #[inline(always)]
    fn take_credit(&mut self, lane: u32, flits: u32) {
        let (link, lane) = self.lane_of(lane);
        let place = self.place(link, lane);
        self.space[place].credit += flits as u16;
        self.sender_may_send(link);
    }

    /// Input lanes that have a new first packet request their outputs.
    #[inline(always)]
    pub(super) fn ask_all(&mut self) {
        while let Some(q) = self.due.todo.pop() {
            self.request(q);
        }
    }

    /// Something happens later that cannot move a packet by itself.
    pub(super) fn idle_at(&mut self, time: u64, kind: u64, a: u32, b: u32) {
        self.agenda.idle += 1;
        self.agenda.wheel.at(time, kind, a, b);
    }
}

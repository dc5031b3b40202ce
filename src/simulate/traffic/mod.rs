//! Who sends what to whom, and when: [`Traffic`] and its patterns.

pub mod calls;
pub mod endpoints;
pub mod jobs;
pub mod open;
pub mod ping;
pub mod script;

/// A message of one terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Receiving terminal.
    pub dst: u32,
    /// Payload.
    pub bytes: u32,
    /// Comes back with each of its packets.
    pub tag: u32,
    /// Tick from which latency counts.
    pub born: u64,
}

/// What a terminal does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Sends.
    Send(Message),
    /// Asks again at that tick.
    At(u64),
    /// Nothing, until it is woken (see [`Traffic::delivered`]).
    Idle,
}

/// A packet that was consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// Sending terminal.
    pub src: u32,
    /// Receiving terminal.
    pub dst: u32,
    /// Payload.
    pub bytes: u32,
    /// Of its message.
    pub tag: u32,
    /// Last packet of its message (the last one sent; adaptive routings may overtake).
    pub last: bool,
    /// When its message was made.
    pub born: u64,
}

/// Why a packet was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// A switch had no entry for it.
    NoEntry,
    /// It was on a cable that died, or on its way onto it.
    Cable,
}

/// A source of messages.
pub trait Traffic {
    /// The terminal is free to send: what?
    fn next(&mut self, host: u32, now: u64) -> Next;
    /// A packet was consumed; terminals pushed to `wake` are asked again.
    fn delivered(&mut self, _delivery: &Delivery, _now: u64, _wake: &mut Vec<u32>) {}
    /// A packet was lost.
    fn lost(&mut self, _delivery: &Delivery, _why: Loss) {}
    /// Service level of a message, for routings that do not choose it themselves.
    #[inline]
    fn sl(&self, _message: &Message) -> u8 {
        0
    }
    /// Which LID of the receiver a message is sent to: 0 for the base LID.
    #[inline]
    fn lid(&self, _message: &Message) -> u8 {
        0
    }
}

impl<T: Traffic + ?Sized> Traffic for Box<T> {
    fn next(&mut self, host: u32, now: u64) -> Next {
        (**self).next(host, now)
    }
    fn delivered(&mut self, delivery: &Delivery, now: u64, wake: &mut Vec<u32>) {
        (**self).delivered(delivery, now, wake);
    }
    fn lost(&mut self, delivery: &Delivery, why: Loss) {
        (**self).lost(delivery, why);
    }
    fn sl(&self, message: &Message) -> u8 {
        (**self).sl(message)
    }
    fn lid(&self, message: &Message) -> u8 {
        (**self).lid(message)
    }
}

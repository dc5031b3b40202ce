//! A packet simulator: traffic on a fabric with a routing, and what comes out.
//!
//! [`engine`] is the event loop over a [`net`] with the hardware of [`settings`]; a [`router`] says
//! where packets go (tables, routes of a direct torus, or the routings of [`adaptive`]),
//! [`traffic`] and [`patterns`] say what is sent, [`run`] does whole experiments, [`exchange`] those of jobs,
//! [`changes`] and [`update`] those in which tables change; [`stats`] counts; [`deadlock`] names the circle when nothing
//! moves any more.
//!
//! Time advances from event to event. When no event is left that could move a packet and packets
//! are left, that is a deadlock, exactly. Same input and seed, same result.

pub mod adaptive;
mod any;
mod arbiter;
mod audit;
pub mod changes;
mod cut;
pub mod deadlock;
pub mod engine;
pub mod exchange;
mod fetch;
mod lanes;
mod live;
pub mod net;
mod parts;
pub mod patterns;
pub mod router;
pub mod run;
mod send;
pub mod settings;
mod state;
pub mod stats;
mod switch;
mod terminal;
pub mod traffic;
pub mod update;
mod wheel;

pub use any::{ADAPTIVE, AnyRouter};
pub use engine::{Ended, Simulator};
pub use live::LiveRouter;
pub use net::Net;
pub use router::{Crossbar, Header, Hop, Router, RouterError, TableRouter, TorusRouter};
pub use settings::Settings;
pub use state::View;
pub use stats::Stats;

//! Drives the pass on a live site: when to look, what to do with what is seen, what to say.

pub mod accounts;
pub mod acknowledge;
pub mod api;
pub mod client;
pub mod clock;
pub mod command;
pub mod dry_run;
pub mod file;
pub mod follow;
pub mod handoff;
pub mod health;
pub mod kind;
mod lids;
pub mod look;
mod neighbours;
pub(crate) mod parts;
pub mod pass;
pub mod placing;
pub mod record;
pub mod run;
pub mod systemd;
pub mod together;
pub mod watch;
pub mod zone;

use std::error::Error;

use crate::model::plain_chain;

/// `outer: inner: …`, leaving out a message that the one before already ends with, in plain words.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let message = inner.to_string();
        if !text.ends_with(&message) {
            text = format!("{text}: {message}");
        }
        source = inner.source();
    }
    plain_chain(&text)
}

//! `sarouter answer`: what the service runs for a question that takes a processor.

use super::{Answer, Failure};
use crate::service::api::heavy::child;

/// Answers what standard input asks.
pub fn run() -> Result<Answer, Failure> {
    child::answer()?;
    Ok(Answer::Yes)
}

//! What systemd wants to know (sd_notify): ready, how it goes, and that the loop still turns.
//!
//! Without `NOTIFY_SOCKET` nothing is sent.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::Instant;
use tracing::debug;

/// The loop's line to systemd.
#[derive(Debug)]
pub struct Systemd {
    /// Between two signs of life; `None` if there is no watchdog.
    pause: Option<Duration>,
    /// The newest sign of life.
    last: Instant,
    /// What was said last, so that it is said once.
    status: String,
}

impl Systemd {
    /// Reads the environment.
    pub fn new() -> Self {
        let mut microseconds = 0;
        let watched = sd_notify::watchdog_enabled(false, &mut microseconds);
        // Twice as often as needed, as systemd recommends.
        let pause = watched.then(|| Duration::from_micros(microseconds / 2));
        Self { pause: pause.filter(|p| !p.is_zero()), last: Instant::now(), status: String::new() }
    }

    /// Waits until [`Systemd::alive`] is due; for ever if nobody waits for it.
    pub async fn due(&self) {
        match self.pause {
            Some(pause) => tokio::time::sleep_until(self.last + pause).await,
            None => std::future::pending().await,
        }
    }

    /// The sockets are open.
    pub fn ready(&self) {
        send(&[NotifyState::Ready]);
    }

    /// The loop turns. Sent when it is due.
    pub fn alive(&mut self) {
        if self.pause.is_some_and(|pause| self.last.elapsed() >= pause) {
            send(&[NotifyState::Watchdog]);
            self.last = Instant::now();
        }
    }

    /// One line for `systemctl status`.
    pub fn status(&mut self, text: String) {
        if text != self.status {
            send(&[NotifyState::Status(&text)]);
            self.status = text;
        }
    }

    /// It ends in order.
    pub fn stopping(&self) {
        send(&[NotifyState::Stopping]);
    }
}

impl Default for Systemd {
    fn default() -> Self {
        Self::new()
    }
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(false, states) {
        debug!(%error, "systemd was not told");
    }
}

//! What each look finds again is said once.

use std::collections::BTreeSet;

use tracing::warn;

/// Warnings of this look and of the one before.
#[derive(Debug, Default)]
pub struct Said {
    before: BTreeSet<String>,
    now: BTreeSet<String>,
}

impl Said {
    /// Says it, unless the look before said the same.
    pub fn say(&mut self, words: String) {
        if !self.before.contains(&words) && !self.now.contains(&words) {
            warn!("{words}");
        }
        self.now.insert(words);
    }

    /// A look begins.
    pub fn begin(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }
}

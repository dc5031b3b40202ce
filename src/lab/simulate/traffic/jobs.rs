//! Several jobs at once, each with its own pattern.

use super::script::Script;
use super::{Delivery, Next, Traffic};

/// Finite exchanges side by side; no terminal in two of them.
#[derive(Debug, Clone)]
pub struct Jobs {
    scripts: Vec<Script>,
    /// Exchange by terminal.
    of: Vec<u32>,
}

impl Jobs {
    /// From exchanges over disjoint terminals.
    ///
    /// # Errors
    /// A terminal that is in two of them.
    pub fn new(scripts: Vec<Script>, terminals: usize) -> Result<Self, u32> {
        let mut of = vec![u32::MAX; terminals];
        for (i, script) in scripts.iter().enumerate() {
            for t in script.members() {
                if std::mem::replace(&mut of[*t as usize], i as u32) != u32::MAX {
                    return Err(*t);
                }
            }
        }
        Ok(Self { scripts, of })
    }

    /// The exchanges, in their order.
    pub fn scripts(&self) -> &[Script] {
        &self.scripts
    }
}

impl Traffic for Jobs {
    fn next(&mut self, host: u32, now: u64) -> Next {
        match self.scripts.get_mut(self.of[host as usize] as usize) {
            Some(script) => script.next(host, now),
            None => Next::Idle,
        }
    }
    fn delivered(&mut self, delivery: &Delivery, now: u64, wake: &mut Vec<u32>) {
        if let Some(script) = self.scripts.get_mut(self.of[delivery.src as usize] as usize) {
            script.delivered(delivery, now, wake);
        }
    }
}

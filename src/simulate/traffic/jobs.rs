//! Several jobs at once, each with its own pattern.

use super::script::Script;
use super::{Delivery, Message, Next, Traffic};

/// Finite exchanges side by side. Those that share a terminal send from it in turn.
#[derive(Debug, Clone)]
pub struct Jobs {
    scripts: Vec<Script>,
    /// Exchanges by terminal, in their order: those of terminal t are `of[first[t]..first[t + 1]]`.
    of: Vec<u32>,
    first: Vec<u32>,
    /// Which of its exchanges a terminal asks next.
    turn: Vec<u32>,
}

impl Jobs {
    /// From exchanges in a network of so many terminals.
    pub fn new(scripts: Vec<Script>, terminals: usize) -> Self {
        let mut by_terminal: Vec<Vec<u32>> = vec![Vec::new(); terminals];
        for (i, script) in scripts.iter().enumerate() {
            script.members().iter().for_each(|t| by_terminal[*t as usize].push(i as u32));
        }
        let mut first = Vec::with_capacity(terminals + 1);
        first.push(0);
        let mut count = 0;
        first.extend(by_terminal.iter().map(|of| {
            count += of.len() as u32;
            count
        }));
        Self { scripts, of: by_terminal.concat(), first, turn: vec![0; terminals] }
    }

    /// The exchanges, in their order.
    pub fn scripts(&self) -> &[Script] {
        &self.scripts
    }
}

impl Traffic for Jobs {
    fn next(&mut self, host: u32, now: u64) -> Next {
        let host_index = host as usize;
        let of = &self.of[self.first[host_index] as usize..self.first[host_index + 1] as usize];
        let turn = self.turn[host_index] as usize;
        for at in (turn..of.len()).chain(0..turn) {
            if let Next::Send(message) = self.scripts[of[at] as usize].next(host, now) {
                self.turn[host_index] = if at + 1 < of.len() { at as u32 + 1 } else { 0 };
                return Next::Send(Message { tag: of[at], ..message });
            }
        }
        Next::Idle
    }
    fn delivered(&mut self, delivery: &Delivery, now: u64, wake: &mut Vec<u32>) {
        if let Some(script) = self.scripts.get_mut(delivery.tag as usize) {
            script.delivered(delivery, now, wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Pattern;

    #[test]
    fn jobs_on_one_terminal_send_in_turn_and_get_what_is_theirs() {
        let script = |members: &[u32]| Script::exchange(members, 4, Pattern::Linear, 8, 0);
        let mut jobs = Jobs::new(vec![script(&[0, 1, 2]), script(&[0, 3])], 4);
        let mut sent = Vec::new();
        while let Next::Send(Message { dst, tag, .. }) = jobs.next(0, 0) {
            sent.push((tag, dst));
        }
        assert_eq!(sent, [(0, 1), (1, 3), (0, 2)]);
        let (mut wake, part) =
            (Vec::new(), Delivery { src: 0, dst: 3, bytes: 8, tag: 1, last: true, born: 0 });
        jobs.delivered(&part, 5, &mut wake);
        assert_eq!(jobs.scripts().iter().map(Script::received_bytes).collect::<Vec<_>>(), [0, 8]);
    }
}

//! The endpoints' side of the thesis' network update (section 5.2.3): connections that drain, and go on with
//! other LIDs or not at all until they are called back.
//!
//! A connection is drained when all that was sent on it is there. The acknowledgements that say so take no
//! time and no room here. Messages that are made for it meanwhile wait, in order; its terminal goes on with others.

use std::collections::VecDeque;

/// What programs do when they are told that routes will change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// Nothing.
    Stay,
    /// They send nothing until they are called back.
    Stop,
    /// They send to high LIDs, on this SL.
    Migrate {
        /// That of the routes to high LIDs.
        sl: u8,
    },
}

/// A message that waits for its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) connection: u32,
    pub(super) born: u64,
}

/// Where each connection is. Program `i` has those from `i * programs` to `(i + 1) * programs - 1`.
#[derive(Debug, Clone)]
pub(super) struct Endpoints {
    leaving: Leaving,
    programs: usize,
    /// By program: told to leave.
    is_away: Vec<bool>,
    /// By connection: has left.
    has_left: Vec<bool>,
    /// Messages of each connection that are not there yet.
    flying: Vec<u32>,
    /// By program: connections that have not done what it was told.
    behind: Vec<u32>,
    held: Vec<VecDeque<Held>>,
    /// Messages that may wait at a program.
    most: usize,
    /// Programs all of whose connections have done what was told, since the last look.
    done: Vec<u32>,
}

impl Endpoints {
    pub(super) fn new(leaving: Leaving, programs: usize, most: u32) -> Self {
        let connections = programs * programs;
        Self {
            leaving,
            programs,
            is_away: vec![false; programs],
            has_left: vec![false; connections],
            flying: vec![0; connections],
            behind: vec![0; programs],
            held: vec![VecDeque::new(); programs],
            most: most.max(1) as usize,
            done: Vec::new(),
        }
    }

    /// Whether a connection may send now.
    pub(super) fn may_send(&self, connection: u32) -> bool {
        let is_away = self.is_away[connection as usize / self.programs];
        is_away == self.has_left[connection as usize] && !(is_away && self.leaving == Leaving::Stop)
    }

    /// The LID that a connection sends to, and the SL if it is that of high LIDs.
    pub(super) fn lid(&self, connection: u32) -> (u8, Option<u8>) {
        match self.leaving {
            Leaving::Migrate { sl } if self.has_left[connection as usize] => (1, Some(sl)),
            _ => (0, None),
        }
    }

    /// The first message that waits at a program and may be sent now.
    pub(super) fn take_held(&mut self, program: usize) -> Option<Held> {
        let at = self.held[program].iter().position(|held| self.may_send(held.connection))?;
        self.held[program].remove(at)
    }

    /// Whether no more messages may wait at a program.
    pub(super) fn is_full(&self, program: usize) -> bool {
        self.held[program].len() >= self.most
    }

    pub(super) fn hold(&mut self, held: Held) {
        self.held[held.connection as usize / self.programs].push_back(held);
    }

    pub(super) fn sent(&mut self, connection: u32) {
        self.flying[connection as usize] += 1;
    }

    /// A message is there, or lost. Whether the connection has moved with it.
    pub(super) fn ended(&mut self, connection: u32) -> bool {
        let (c, program) = (connection as usize, connection as usize / self.programs);
        self.flying[c] -= 1;
        let moves = self.flying[c] == 0 && self.has_left[c] != self.is_away[program];
        if moves {
            self.has_left[c] = self.is_away[program];
            self.behind[program] -= 1;
            if self.behind[program] == 0 {
                self.done.push(program as u32);
            }
        }
        moves
    }

    /// A program is told to leave or to come back; connections that have nothing on its way do so at once, and
    /// are returned.
    pub(super) fn tell(&mut self, program: u32, is_away: bool) -> Vec<u32> {
        let p = program as usize;
        self.is_away[p] = is_away;
        let own = p * self.programs..(p + 1) * self.programs;
        let (mut moved, mut behind) = (Vec::new(), 0);
        for c in own {
            if self.has_left[c] == is_away {
                continue;
            }
            if self.flying[c] == 0 {
                self.has_left[c] = is_away;
                moved.push(c as u32);
            } else {
                behind += 1;
            }
        }
        self.behind[p] = behind;
        if behind == 0 {
            self.done.push(program);
        }
        moved
    }

    /// Programs that have done what they were told, since this was asked last.
    pub(super) fn take_done(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.done)
    }
}

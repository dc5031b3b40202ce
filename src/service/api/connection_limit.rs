//! How many connections there may be: a share for each user, and one for those who may change things.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::debug;

use super::peer::{Access, Caller};

/// Connections at once of those who may write, prologs among them: nobody else can use them up. More
/// jobs than this never start at one time.
const WRITERS: usize = 4096;
/// The share of one of them: two that go mad leave room for a third.
const WRITER: usize = 2048;
/// Connections at once of everybody else.
const READERS: usize = 256;
/// The share of one of them.
const READER: usize = 32;

/// The door. Cheap to clone: all are one.
#[derive(Debug, Clone, Default)]
pub struct ConnectionLimit(Arc<Mutex<Inside>>);

#[derive(Debug, Default)]
struct Inside {
    writers: usize,
    readers: usize,
    users: BTreeMap<String, usize>,
}

/// A place inside, given back when dropped.
#[derive(Debug)]
pub struct Slot {
    limit: ConnectionLimit,
    caller: Caller,
}

impl ConnectionLimit {
    /// A place, unless all are taken or the caller has a full share.
    pub fn enter(&self, caller: &Caller) -> Option<Slot> {
        let mut inside = self.inside();
        let own = inside.users.get(&caller.user).copied().unwrap_or(0);
        let (all, most, share) = match caller.access {
            Access::Write => (&mut inside.writers, WRITERS, WRITER),
            _ => (&mut inside.readers, READERS, READER),
        };
        if *all >= most || own >= share {
            debug!(caller = caller.name, "too many connections");
            return None;
        }
        *all += 1;
        inside.users.insert(caller.user.clone(), own + 1);
        Some(Slot { limit: self.clone(), caller: caller.clone() })
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Whether it is this caller's.
    pub fn is_of(&self, caller: &Caller) -> bool {
        (&self.caller.user, self.caller.access) == (&caller.user, caller.access)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut inside = self.limit.inside();
        match self.caller.access {
            Access::Write => inside.writers -= 1,
            _ => inside.readers -= 1,
        }
        if let Some(own) = inside.users.get_mut(&self.caller.user) {
            *own -= 1;
            if *own == 0 {
                inside.users.remove(&self.caller.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(uid: usize, access: Access) -> Caller {
        let name = format!("uid {uid}");
        Caller { user: name.clone(), name, access, on_network: false }
    }

    #[test]
    fn a_user_has_a_share_and_readers_take_no_place_of_writers() {
        let limit = ConnectionLimit::default();
        let all =
            |uid, access| -> Vec<Slot> { std::iter::from_fn(|| limit.enter(&caller(uid, access))).collect() };
        let first = all(1, Access::Read);
        assert_eq!(first.len(), READER);
        // Others still come in, until the house is full.
        let others: Vec<Slot> = (2..100).flat_map(|uid| all(uid, Access::Read)).collect();
        assert_eq!(first.len() + others.len(), READERS);
        assert!(limit.enter(&caller(100, Access::Read)).is_none());
        let root = all(0, Access::Write);
        assert_eq!(root.len(), WRITER);
        assert!(limit.enter(&caller(64030, Access::Write)).is_some());
        drop((first, others, root));
        let inside = limit.inside();
        assert_eq!((inside.writers, inside.readers, inside.users.len()), (0, 0, 0));
    }
}

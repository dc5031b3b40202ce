//! Network connections that have shown no token yet. They take no place of those who have: there are
//! few of them, and a new one takes the place of the oldest of the address that has most.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tracing::debug;

use super::connection_limit::{ConnectionLimit, Slot};
use super::peer::Caller;

/// Connections at one time.
const MOST: usize = 128;

/// All that are there. Cheap to clone: all are one.
#[derive(Debug, Clone, Default)]
pub struct Unauthenticated {
    limit: ConnectionLimit,
    there: Arc<Mutex<There>>,
}

#[derive(Debug, Default)]
struct There {
    next: u64,
    by_age: BTreeMap<u64, (IpAddr, Arc<Notify>)>,
}

/// One connection: a stranger until it shows a token.
#[derive(Debug)]
pub struct Connection {
    unauthenticated: Unauthenticated,
    number: u64,
    leave: Arc<Notify>,
    slot: Mutex<Option<Slot>>,
}

impl Unauthenticated {
    /// Somebody connects.
    pub fn let_in(&self, from: IpAddr) -> Arc<Connection> {
        let mut there = self.there();
        if there.by_age.len() >= MOST {
            there.send_away();
        }
        let (number, leave) = (there.next, Arc::<Notify>::default());
        there.next += 1;
        there.by_age.insert(number, (from, Arc::clone(&leave)));
        drop(there);
        Arc::new(Connection { unauthenticated: self.clone(), number, leave, slot: Mutex::default() })
    }

    fn there(&self) -> MutexGuard<'_, There> {
        self.there.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl There {
    /// The oldest of the address that has most.
    fn send_away(&mut self) {
        let mut count: BTreeMap<IpAddr, usize> = BTreeMap::new();
        self.by_age.values().for_each(|(from, _)| *count.entry(*from).or_default() += 1);
        let most = count.iter().max_by_key(|(_, n)| **n).map(|(from, _)| *from);
        let oldest = self.by_age.iter().find(|(_, (from, _))| Some(*from) == most);
        if let Some((number, from)) = oldest.map(|(number, (from, _))| (*number, *from)) {
            debug!(%from, "too many connections without a token");
            if let Some((_, leave)) = self.by_age.remove(&number) {
                leave.notify_one();
            }
        }
    }
}

impl Connection {
    /// A token was shown: whether there is a place for its owner.
    pub fn is_admitted(&self, caller: &Caller) -> bool {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        if !slot.as_ref().is_some_and(|slot| slot.is_of(caller)) {
            *slot = self.unauthenticated.limit.enter(caller);
            self.unauthenticated.there().by_age.remove(&self.number);
        }
        slot.is_some()
    }

    /// Waits until it has to make room.
    pub async fn sent_away(&self) {
        self.leave.notified().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.unauthenticated.there().by_age.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::api::peer::Access;

    fn is_sent_away(connection: &Connection) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = connection.sent_away() => true,
                () = std::future::ready(()) => false,
            }
        })
    }

    #[test]
    fn a_flood_sends_away_its_own_and_nobody_who_has_shown_a_token() {
        let unauthenticated = Unauthenticated::default();
        let (quiet, flood) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let other = unauthenticated.let_in(quiet);
        let known = unauthenticated.let_in(flood);
        let caller =
            Caller { name: "token 1".into(), user: "token 1".into(), access: Access::Read, on_network: true };
        assert!(known.is_admitted(&caller) && known.is_admitted(&caller));
        let many: Vec<_> = (0..MOST + 5).map(|_| unauthenticated.let_in(flood)).collect();
        assert_eq!(unauthenticated.there().by_age.len(), MOST);
        assert!(!is_sent_away(&other) && !is_sent_away(&known));
        let away: Vec<bool> = many.iter().map(|v| is_sent_away(v)).collect();
        assert_eq!(away.iter().filter(|away| **away).count(), 6);
        assert!(away[..6].iter().all(|away| *away), "the oldest");
        drop((other, known, many));
        assert!(unauthenticated.there().by_age.is_empty());
    }
}

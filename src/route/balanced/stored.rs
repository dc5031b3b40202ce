//! Routes of storage, led off the channels that they fill most.
//!
//! Routes inside jobs stay as they are: what hosts read comes to them from switches of servers, and joins the
//! job's own routes only on the way. Servers on switches without jobs leave it all free.

use super::bound;
use super::jobs::JobLayers;
use super::level::Hold;
use super::routing::Routing;
use super::traffic::{Class, Traffic};

impl<'a> Routing<'a> {
    /// Levels what hosts of jobs read from servers and write to them, `storage`'s, without touching what goes on
    /// inside jobs. From tables in force, only channels an eighth above the bound are relieved.
    /// Leaves the loads of storage. As `refine`.
    pub(super) fn level_storage(
        &mut self,
        [jobs, storage]: &'a [Traffic<'a>; 2],
        job_layers: &'a JobLayers,
        is_in_force: bool,
    ) {
        let own = std::mem::replace(&mut self.traffic, storage);
        let hold = self.hold.replace(Hold { traffic: jobs, job_layers });
        let ends = storage.destinations(Class::Job);
        self.sum_up(&ends);
        let floor = bound::floor(self, &ends);
        if is_in_force {
            self.make_room(&ends, floor);
        } else {
            self.balance(&ends, floor);
        }
        (self.traffic, self.hold) = (own, hold);
    }
}

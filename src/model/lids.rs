//! The two LIDs of a port (LMC 1), which may have different routes.

use schemars::JsonSchema;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Tables;

/// Which of a port's two LIDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LidSet {
    /// The base LID: that of programs that know nothing of others.
    Base,
    /// The base LID plus 1.
    High,
}

impl LidSet {
    /// The base LID first.
    pub const ALL: [Self; 2] = [Self::Base, Self::High];

    /// LID minus base LID: the path bits that choose it.
    pub const fn offset(self) -> usize {
        self as usize
    }

    /// The first that is not in use; `in_use` by [`LidSet::offset`].
    pub fn free(in_use: [bool; 2]) -> Option<Self> {
        Self::ALL.into_iter().find(|set| !in_use[set.offset()])
    }

    /// The other LID.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Base => Self::High,
            Self::High => Self::Base,
        }
    }
}

/// Ports whose two LIDs have different routes. The tables in question are those of one LID, here are the others.
#[derive(Debug, Clone, PartialEq)]
pub struct SplitLids {
    /// Whose tables those in question are.
    pub fresh: LidSet,
    /// Tables of the other LID.
    pub kept: Arc<Tables>,
}

impl SplitLids {
    /// The tables of a LID, `tables` being those of [`SplitLids::fresh`].
    pub fn of<'a>(&'a self, tables: &'a Tables, set: LidSet) -> &'a Tables {
        if set == self.fresh { tables } else { &self.kept }
    }
}

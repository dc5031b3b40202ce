//! Jobs on the same terminals are as good as each other, but each is there once.

use std::collections::BTreeMap;

use crate::model::Group;

/// Groups, and how often each is there.
pub(super) struct Tally<'a>(BTreeMap<&'a Group, usize>);

impl<'a> Tally<'a> {
    /// O(groups × log groups × their sizes).
    pub(super) fn of(groups: impl IntoIterator<Item = &'a Group>) -> Self {
        let mut left = BTreeMap::new();
        groups.into_iter().for_each(|group| *left.entry(group).or_default() += 1);
        Self(left)
    }

    /// Whether a group is still there; once less from then on. O(log groups × their sizes).
    pub(super) fn take(&mut self, group: &Group) -> bool {
        match self.0.get_mut(group) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }
}

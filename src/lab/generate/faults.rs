//! Damage: cables cut and switches taken out at random, never disconnecting what is left.

use std::collections::BTreeSet;
use std::str::FromStr;

use crate::model::rng::Rng;
use crate::model::{ChannelId, Fabric, FabricError, SwitchId};

/// How many of something: `1%` or `12`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// A number.
    Count(usize),
    /// A share in percent, 0 to 100; rounded to the nearest number.
    Percent(f64),
}

/// Damage to a fabric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// Inter-switch cables to cut, of those that the dead switches leave.
    pub cables: Amount,
    /// Switches to take out, with their hosts.
    pub dead_switches: usize,
    /// Same fabric, same damage, same seed: same result.
    pub seed: u64,
}

/// Damage that cannot be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// Not `1%` or `12`.
    #[error("{text:?} is neither a number nor a percentage from 0% to 100%")]
    Amount {
        /// As typed.
        text: String,
    },
    /// Any further loss would split the fabric.
    #[error("only {possible} of {wanted} {what} can go without splitting the fabric")]
    Splits {
        /// What was to go.
        what: &'static str,
        /// How many.
        wanted: usize,
        /// How many can go.
        possible: usize,
    },
    /// See [`FabricError`].
    #[error(transparent)]
    Fabric(#[from] FabricError),
}

impl FromStr for Amount {
    type Err = FaultError;
    fn from_str(text: &str) -> Result<Self, FaultError> {
        let amount = match text.strip_suffix('%') {
            None => text.parse().ok().map(Self::Count),
            Some(share) => share.parse().ok().filter(|p| (0.0..=100.0).contains(p)).map(Self::Percent),
        };
        amount.ok_or_else(|| FaultError::Amount { text: text.to_string() })
    }
}

impl Amount {
    fn of(self, all: usize) -> usize {
        match self {
            Self::Count(n) => n,
            Self::Percent(share) => (all as f64 * share / 100.0).round() as usize,
        }
    }
}

impl Faults {
    /// Whether there is nothing to do.
    pub fn is_none(&self) -> bool {
        self.dead_switches == 0 && matches!(self.cables, Amount::Count(0))
    }

    /// The damaged fabric. GUIDs and LIDs stay. Candidates are tried in random order; one whose
    /// loss would split the fabric further is passed over, and tried again when others are gone. O(size) where none would,
    /// else O(tried × size).
    ///
    /// # Errors
    /// [`FaultError::Splits`] if too few can go.
    pub fn apply(&self, fabric: &Fabric) -> Result<Fabric, FaultError> {
        let mut rng = Rng::new(self.seed);
        let mut switches: Vec<SwitchId> = fabric.switch_ids().collect();
        rng.shuffle(&mut switches);
        let dead = choose(&switches, self.dead_switches, "switches", |dead: &BTreeSet<SwitchId>| {
            components(fabric, |_| false, |s| dead.contains(&s))
        })?;
        let fabric = fabric.without(|_| false, |s| dead.contains(&s))?;
        let mut cables: Vec<ChannelId> = fabric.channel_ids().step_by(2).collect();
        rng.shuffle(&mut cables);
        let wanted = self.cables.of(cables.len());
        let cut = choose(&cables, wanted, "cables", |cut: &BTreeSet<ChannelId>| {
            components(&fabric, |c| cut.contains(&c) || cut.contains(&c.reverse()), |_| false)
        })?;
        Ok(fabric.without(|c| cut.contains(&c), |_| false)?)
    }
}

/// The first `wanted` candidates that do not raise the number of components.
fn choose<T: Ord + Copy>(
    candidates: &[T],
    wanted: usize,
    what: &'static str,
    components: impl Fn(&BTreeSet<T>) -> usize,
) -> Result<BTreeSet<T>, FaultError> {
    let whole = components(&BTreeSet::new());
    let most = candidates.len().min(wanted);
    // Of cables, none splits the fabric if all together do not; of switches, only the end counts.
    let all: BTreeSet<T> = candidates[..most].iter().copied().collect();
    if most == wanted && components(&all) == whole {
        return Ok(all);
    }
    let mut chosen = BTreeSet::new();
    let mut possible = usize::MAX;
    // A switch that splits the fabric now need not when its neighbours are gone.
    while possible != chosen.len() {
        possible = chosen.len();
        for candidate in candidates {
            if chosen.len() < wanted && chosen.insert(*candidate) && components(&chosen) != whole {
                chosen.remove(candidate);
            }
        }
    }
    if possible == wanted { Ok(chosen) } else { Err(FaultError::Splits { what, wanted, possible }) }
}

/// Number of connected components of the switches that remain.
pub fn components(
    fabric: &Fabric,
    cut: impl Fn(ChannelId) -> bool,
    dead: impl Fn(SwitchId) -> bool,
) -> usize {
    let mut seen: Vec<bool> = fabric.switch_ids().map(dead).collect();
    let mut count = 0;
    for start in fabric.switch_ids() {
        if std::mem::replace(&mut seen[start.index()], true) {
            continue;
        }
        count += 1;
        let mut stack = vec![start];
        while let Some(s) = stack.pop() {
            for c in fabric.out(s).iter().filter(|c| !cut(**c)) {
                let to = fabric.channel(*c).to;
                if !std::mem::replace(&mut seen[to.index()], true) {
                    stack.push(to);
                }
            }
        }
    }
    count
}

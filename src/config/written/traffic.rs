//! `[traffic]`: what is guessed of jobs that do not say what they exchange.

use serde::Deserialize;

use crate::model::{Mix, Rails, TrafficRule, TrafficRules};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WrittenTraffic {
    rails: Rails,
    rules: Vec<WrittenRule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRule {
    account: Option<String>,
    partition: Option<String>,
    user: Option<String>,
    name: Option<String>,
    executable: Option<String>,
    pattern: Mix,
}

impl WrittenTraffic {
    pub(super) fn rails(&self) -> Rails {
        self.rails
    }

    pub(super) fn resolve(self) -> TrafficRules {
        let rule = |WrittenRule { account, partition, user, name, executable, pattern }| TrafficRule {
            account,
            partition,
            user,
            name,
            executable,
            pattern,
        };
        TrafficRules(self.rules.into_iter().map(rule).collect())
    }
}

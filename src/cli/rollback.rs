//! `sarouter rollback EPOCH`: an earlier epoch comes into force again.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::Serialize;

use super::state::StateArgs;
use super::who::who;
use super::{Answer, Context, Failure, history, hold};
use crate::model::{Fabric, Fingerprint};
use crate::observe;
use crate::publish::{Epoch, EpochNumber, EpochStore};
use crate::verify::{self, Finding};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "The service publishes again when it next finds that other routes are due: --hold \
                        keeps the earlier routes until `sarouter resume`.\n\n\
                        Example: sarouter rollback 41 --hold --fabric site.ibnetdiscover")]
pub struct Args {
    /// Number of the epoch
    #[arg(value_name = "EPOCH")]
    pub(super) epoch: EpochNumber,
    /// Judge the epoch's tables on this fabric first: a file or a spec
    #[arg(long, value_name = "FABRIC")]
    pub(super) fabric: Option<String>,
    /// Also if the epoch was made for another fabric; rejected tables stay rejected
    #[arg(long)]
    pub(super) force: bool,
    /// Publish nothing else until `sarouter resume`
    #[arg(long)]
    pub(super) hold: bool,
    #[command(flatten)]
    state: StateArgs,
}

/// What is printed.
#[derive(Debug, PartialEq, JsonSchema, Serialize)]
pub(super) struct Rollback {
    /// The epoch in force before.
    pub(super) from: Option<EpochNumber>,
    /// The epoch asked for.
    pub(super) to: EpochNumber,
    /// Whether it is in force now.
    pub(super) done: bool,
    /// Whether it stays until `sarouter resume`.
    pub(super) held: bool,
    /// Why not.
    pub(super) refused: Option<String>,
    /// What the checker found.
    pub(super) findings: Vec<Finding>,
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    args.state.need_no_name(context)?;
    let store = args.state.existing(context)?;
    if history::is_of_a_torus(&store) {
        return Err(
            "on a direct torus tables belong to jobs, and those of before are gone: nothing to go back to; \
                    `sarouter hold` keeps what is there"
                .into(),
        );
    }
    let fabric = args.fabric.as_deref().map(observe::fabric::load).transpose()?;
    let rollback = Rollback::attempt(&store, args.epoch, fabric.as_ref(), args.force, args.hold)?;
    if rollback.held {
        hold::tell_service(context);
    }
    context.print(&rollback, || rollback.text())?;
    Ok(if rollback.done { Answer::Yes } else { Answer::No })
}

impl Rollback {
    pub(super) fn attempt(
        store: &EpochStore,
        to: EpochNumber,
        fabric: Option<&Fabric>,
        force: bool,
        hold: bool,
    ) -> Result<Self, Failure> {
        let mut writer = store.lock()?;
        let epoch = store.epoch(to)?;
        let from = store.current().unwrap_or(None);
        let mut rollback = Self { from, to, done: false, held: false, refused: None, findings: Vec::new() };
        if !force {
            rollback.refused = other_fabric(store, &epoch, from, fabric);
        }
        if let (None, Some(fabric)) = (&rollback.refused, fabric) {
            let verdict = verify::judge(fabric, &epoch.tables(fabric)?, epoch.plan().layer_budget);
            if !verdict.accepted {
                rollback.refused = Some("the tables are rejected on this fabric".to_string());
                rollback.findings = verdict.findings;
            }
        }
        if rollback.refused.is_none() {
            writer.rollback_by_hand(to, &who(), hold)?;
            rollback.held = hold;
            rollback.done = true;
        }
        Ok(rollback)
    }

    pub(super) fn text(&self) -> String {
        let mut out = match &self.refused {
            Some(reason) => format!("refused: {reason}"),
            None => format!("epoch {} is in force", self.to),
        };
        if let Some(from) = self.from.filter(|_| self.done) {
            let _ = write!(out, ", before it was epoch {from}");
        }
        if self.held {
            out.push_str("; it stays until `sarouter resume`");
        }
        for finding in &self.findings {
            let _ = write!(out, "\n  {finding}");
        }
        out
    }
}

/// Why the epoch is not for the fabric of now: that given, or that of the epoch in force.
fn other_fabric(
    store: &EpochStore,
    epoch: &Epoch,
    current: Option<EpochNumber>,
    fabric: Option<&Fabric>,
) -> Option<String> {
    let same = |now: Fingerprint, whose: &str| {
        let made = epoch.plan().fabric;
        let is_other = made != now;
        let short = |fingerprint: Fingerprint| fingerprint.to_string()[..12].to_string();
        let (made, now, number) = (short(made), short(now), epoch.number());
        let text = format!("epoch {number} was made for fabric {made}…, {whose} is {now}…");
        is_other.then_some(format!("{text}; --force overrides"))
    };
    match (fabric, current) {
        (Some(fabric), _) => same(fabric.fingerprint(), "the one given"),
        (None, None) => Some("it is not known for which fabric; give --fabric, or --force".to_string()),
        (None, Some(current)) => match store.epoch(current) {
            Ok(found) => same(found.plan().fabric, "that of the epoch in force"),
            Err(e) => Some(format!("the epoch in force cannot be compared: {e}; give --fabric, or --force")),
        },
    }
}

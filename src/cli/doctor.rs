//! `sarouter doctor`: checks a site's set-up and says what to fix.

mod handoff;
mod installation;
mod plugins;
mod selection;
mod site;
mod user;

use std::fmt::Write;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Answer, Context, Failure, chain};
use crate::config::{Settings, Site};
use crate::observe::source::JobSourceRow;
use crate::service::kind::{DELIVERIES, direct};

/// Where a package puts what a site copies.
const EXAMPLES: &str = "/usr/share/doc/sarouter/examples (config of the source)";
/// Where a package has the source of the plugins.
const PLUGINS: &str = "/usr/share/sarouter/plugin (plugin of the source)";

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit 1 if there is something to fix. Changes nothing. Started by root it looks as the user to \
                        whom the state directory belongs, as the service does.\n\n\
                        Example: sarouter doctor --config /etc/sarouter/sarouter.toml"
)]
pub struct Args {}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub(super) struct Check {
    /// Which of several fabrics it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    fabric: Option<String>,
    /// Name of the check.
    name: &'static str,
    /// Whether it is as it should be.
    good: bool,
    /// What was found.
    found: String,
    /// What to do; empty if good, unless it could be better still.
    fix: String,
}

impl Check {
    fn good(name: &'static str, found: impl Into<String>) -> Self {
        Self { fabric: None, name, good: true, found: found.into(), fix: String::new() }
    }
    fn fix(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { fabric: None, name, good: false, found: found.into(), fix: fix.into() }
    }
    /// Something that a site may do without.
    fn advice(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { good: true, ..Self::fix(name, found, fix) }
    }
}

pub fn run(_args: Args, context: &Context) -> Result<Answer, Failure> {
    let site = Site::load(context.config.as_deref());
    let site =
        site.and_then(|site| Ok((site.state.clone(), site.with_interface(context.fabric_name.as_deref())?)));
    let checks = match site {
        Ok((state, fabrics)) => match user::as_service(&state)? {
            Some(answer) => return Ok(answer),
            None => check_all(&state, &fabrics)?,
        },
        Err(error) => {
            let fix =
                "correct the file, or name another with --config; the file of the package explains every key";
            vec![Check::fix("settings", chain(&error), fix)]
        }
    };
    context.print(&checks, || text(&checks))?;
    Ok(if checks.iter().all(|c| c.good) { Answer::Yes } else { Answer::No })
}

/// What the service is once, and what each fabric is.
fn check_all(state: &Path, fabrics: &[Settings]) -> Result<Vec<Check>, Failure> {
    let mut checks = vec![Check::good("settings", "load"), user::check(state)];
    let tori = fabrics.iter().filter(|settings| direct::source(settings).is_some()).count();
    if tori > 1 {
        let fix = "give all but one a service of their own";
        checks.push(Check::fix("fabrics", format!("{tori} of them are direct tori, one may be"), fix));
    }
    for (i, settings) in fabrics.iter().enumerate() {
        let mut own = site::check(settings)?;
        if i == 0 {
            own.push(user::publishers(settings));
            own.extend(user::secrets(settings));
            own.extend(traffic(settings));
            own.extend(handoff::check(settings));
        }
        own.extend(installation::check(settings));
        own.push(delivery(settings));
        checks.extend(own.into_iter().map(|check| Check { fabric: settings.name.clone(), ..check }));
    }
    Ok(checks)
}

/// How routes reach the network.
fn delivery(settings: &Settings) -> Check {
    let on: Vec<&str> = DELIVERIES.iter().filter(|row| (row.is_on)(settings)).map(|row| row.name).collect();
    match on.is_empty() {
        false => Check::good("delivery", on.join(", ")),
        true => Check::advice(
            "delivery",
            "nothing fetches what is published",
            "`sarouter deliveries` lists the ways",
        ),
    }
}

/// What is guessed of jobs that do not say what they exchange.
fn traffic(settings: &Settings) -> Option<Check> {
    let rules = &settings.traffic.0;
    let first: Vec<String> = rules.iter().map(ToString::to_string).collect();
    let found = format!("of jobs that do not say what they exchange is guessed: {}", some(&first));
    let unseen = JobSourceRow::of(&settings.slurm.source).ok().and_then(|row| (row.unseen)(settings));
    (!rules.is_empty()).then(|| match unseen {
        Some(unseen) => Check::advice("traffic", found, unseen),
        None => Check::good("traffic", found),
    })
}

fn text(checks: &[Check]) -> String {
    let mut out = String::new();
    for check in checks {
        let mark = match (check.good, check.fix.is_empty()) {
            (true, true) => "ok ",
            (true, false) => "may",
            (false, _) => "FIX",
        };
        let of = check.fabric.as_ref().map_or(String::new(), |fabric| format!("{fabric}: "));
        let _ = write!(out, "{mark} {:16}{of}{}", check.name, check.found);
        if !check.fix.is_empty() {
            let _ = write!(out, "\n    -> {}", check.fix);
        }
        out.push('\n');
    }
    let wrong = checks.iter().filter(|c| !c.good).count();
    let _ =
        write!(out, "{}", if wrong == 0 { "nothing to fix".to_string() } else { format!("{wrong} to fix") });
    out
}

/// A file that the service need not read, and this user cannot.
fn unread(name: &'static str, path: &str) -> Check {
    let fix = "to look at it: SAROUTER_DOCTOR_AS_SERVICE=1 sarouter doctor, as root";
    Check::advice(name, format!("{path}: this user may not read it"), fix)
}

/// The first few of a list, and how many there are.
fn some<T: ToString>(items: &[T]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = items.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = if items.len() > SHOWN { format!(" and {} more", items.len() - SHOWN) } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

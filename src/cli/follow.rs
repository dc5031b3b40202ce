//! `sarouter follow URL`: a standby's copy of what another service has in force.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::common::print;
use super::state::StateArgs;
use super::{Answer, Context, Failure, Format, chain};
use crate::service::follow::remote::{Access, Place};
use crate::service::follow::{Did, FollowError, Follower};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "An epoch is put in force here only after its checksums are right and its routes are proved \
                        again. Whatever fails, what is in force here stays. `sarouter serve` does not run on the \
                        same state directory meanwhile.\n\n\
                        With --once exit 0: the epoch in force there is in force here; 1: it is refused, and why; 2: \
                        it could not be had.\n\n\
                        Example:\n  sarouter follow https://manager1:6830 \\\n      \
                        --token-file /etc/sarouter/follow.token \\\n      \
                        --ca /etc/sarouter/ca.pem --state /var/lib/sarouter"
)]
pub struct Args {
    /// The service: https://HOST:PORT (api.tcp of its settings), or unix:/path/api.sock
    #[arg(value_name = "URL")]
    url: String,
    /// File with the token that the service wants (api.token_file there); only its owner may read it
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// PEM file with the authority behind the service's certificate [default: those of the system]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// One round, for cron
    #[arg(long)]
    once: bool,
    /// Seconds between two rounds
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    interval: u32,
    /// Seconds that each request may take
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    deadline: u32,
    #[command(flatten)]
    state: StateArgs,
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    let access = Access {
        place: args.url.parse::<Place>()?,
        token_file: args.token_file.clone(),
        authority: args.ca.clone(),
        deadline: Duration::from_secs(args.deadline.into()),
    };
    let keep = context.settings_or_default()?.state.keep_epochs;
    let follower = Follower::new(access, args.state.store(context)?, keep)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let pause = Duration::from_secs(args.interval.into());
    runtime.block_on(async {
        match args.once {
            true => once(follower, context.format).await,
            false => rounds(follower.every(pause), pause, context.format).await,
        }
    })
}

async fn once(mut follower: Follower, format: Format) -> Result<Answer, Failure> {
    match follower.round().await {
        Ok(did) => {
            say(&did, format)?;
            Ok(Answer::Yes)
        }
        Err(error) if error.is_refusal() => {
            complain(&error, format)?;
            Ok(Answer::No)
        }
        Err(error) => Err(error.into()),
    }
}

/// Until SIGTERM or SIGINT. Tells each epoch, and each failure once.
async fn rounds(mut follower: Follower, pause: Duration, format: Format) -> Result<Answer, Failure> {
    let mut ends = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    // What is wrong, as it was told; that there is no epoch yet is told once as well.
    let mut told: Option<String> = None;
    loop {
        let done = tokio::select! {
            biased;
            () = ended(&mut ends) => break,
            done = follower.round() => done,
        };
        let now = match &done {
            Ok(Did::Nothing) => Some(String::new()),
            Ok(_) => None,
            Err(error) => Some(chain(error)),
        };
        match &done {
            // Also when what was wrong is over.
            Ok(did @ (Did::Same { .. } | Did::Nothing)) if now != told => say(did, format)?,
            Ok(Did::Same { .. } | Did::Nothing) => {}
            Ok(did) => say(did, format)?,
            Err(error) if now != told => complain(error, format)?,
            Err(_) => {}
        }
        told = now;
        tokio::select! {
            biased;
            () = ended(&mut ends) => break,
            () = tokio::time::sleep(pause) => {}
        }
    }
    Ok(Answer::Yes)
}

async fn ended((terminate, interrupt): &mut (Signal, Signal)) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// For people.
fn text(did: &Did) -> String {
    match did {
        Did::Nothing => "the service has published nothing yet".to_string(),
        Did::Same { epoch } => format!("epoch {epoch} is in force here as it is there"),
        Did::Took { epoch, before: None } => format!("epoch {epoch} is in force here"),
        Did::Took { epoch, before: Some(before) } => {
            format!("epoch {epoch} is in force here, before it was epoch {before}")
        }
        Did::WentBackTo { epoch, before } => {
            let before = before.map_or(String::new(), |before| format!(", before it was epoch {before}"));
            format!("epoch {epoch} is in force here again, as it is there{before}")
        }
    }
}

fn say(did: &Did, format: Format) -> Result<(), Failure> {
    match format {
        Format::Text => print(&text(did)),
        Format::Json => print(&serde_json::to_string(did)?),
    }
}

fn complain(error: &FollowError, format: Format) -> Result<(), Failure> {
    let words = chain(error);
    let did = if error.is_refusal() { "refused" } else { "failed" };
    match format {
        Format::Text => eprintln!("sarouter: {did}: {words}"),
        Format::Json => print(&json!({ "did": did, "reason": words }).to_string())?,
    }
    Ok(())
}

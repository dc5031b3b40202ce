//! The command line: one file per subcommand, each with its arguments and `run`.

/// Standard output for commands. Unlike the standard library's, these do not panic when the reader
/// has seen enough (`| head`).
macro_rules! print {
    ($($words:tt)*) => { $crate::cli::common::say(format_args!($($words)*)) };
}
macro_rules! println {
    ($($words:tt)*) => { $crate::cli::common::say(format_args!("{}\n", format_args!($($words)*))) };
}
/// Standard error likewise, with nothing in it that a terminal would obey.
macro_rules! eprintln {
    ($($words:tt)*) => { $crate::cli::common::complain(format_args!($($words)*)) };
}

mod angara;
mod answer;
mod bench;
mod capture;
mod common;
mod compare;
mod completions;
mod demo;
mod doctor;
mod explain;
mod fabric;
mod fabric_nodes;
mod follow;
#[cfg(test)]
mod golden;
mod help;
mod history;
mod hold;
mod html;
mod input;
mod job;
mod lists;
mod man;
mod mistake;
mod node;
mod notes;
mod number;
mod order;
mod path;
mod place;
mod plan;
mod prolog;
mod release_held;
mod replay;
mod replay_direct;
mod replay_events;
mod rollback;
mod route;
mod route_angara;
mod route_polarized;
mod schema;
mod serve;
mod show;
mod simulate;
mod state;
mod status;
mod survive;
mod tick;
mod trial;
mod verify;
mod who;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

pub use common::{Answer, Context, Failure, Format};

use crate::service::chain;

/// Routes a supercomputer's fabric for the jobs that run now.
#[derive(Debug, Parser)]
#[command(name = "sarouter", version, propagate_version = true)]
struct Cli {
    /// Output on stdout; logs go to stderr.
    #[arg(long, value_enum, global = true, default_value_t = Format::Text)]
    format: Format,
    /// Settings file.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One of several [[fabric]] of the settings, by its name [default: all, where a command takes several].
    #[arg(long, global = true, value_name = "NAME")]
    fabric_name: Option<String>,
    /// More logs (-v info, -vv debug).
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Four hours of a simulated cluster, nothing to install
    Demo(demo::Args),
    /// Compute tables once
    Route(route::Args),
    /// Judge any tables
    Verify(verify::Args),
    /// List the routing engines
    Engines(lists::EnginesArgs),
    /// List the exchanges of jobs that are known
    Patterns(lists::PatternsArgs),
    /// List the sources of jobs
    Sources(lists::SourcesArgs),
    /// List the ways in which routes reach a network
    Deliveries(lists::DeliveriesArgs),
    /// List the figures of tables
    Measures(lists::MeasuresArgs),
    /// Describe the service's HTTP interface for programs (OpenAPI)
    Openapi(schema::OpenapiArgs),
    /// JSON schema of what a command prints with --format json
    Schema(schema::Args),
    /// Measure several engines side by side
    Compare(compare::Args),
    /// Dry run against the live cluster
    Plan(plan::Args),
    /// Which nodes route best for a job
    Place(place::Args),
    /// Which rank goes to which node, for the least predicted time
    Order(order::Args),
    /// What a job gets: its nodes, routes and service level
    Job(job::Args),
    /// Where a node is attached, and whose it is
    Node(node::Args),
    /// Which way packets go from one node to another
    Path(path::Args),
    /// Release held jobs whose deadline has passed
    ReleaseHeld(release_held::Args),
    /// One pass, for cron: look at jobs and fabric, publish if due
    Tick(tick::Args),
    /// Run the service
    Serve(serve::Args),
    /// Copy what another service has in force, for a standby
    Follow(follow::Args),
    /// Health and the epoch in force
    Status(status::Args),
    /// List epochs
    History(history::Args),
    /// Show one epoch
    Show(show::Args),
    /// Why an epoch was published, and what it gained
    Explain(explain::Args),
    /// Make an earlier epoch current
    Rollback(rollback::Args),
    /// Publish nothing until resumed
    Hold(hold::Args),
    /// End a hold
    Resume(hold::ResumeArgs),
    /// Compare run times on days with and without routes for jobs
    Trial(trial::Args),
    /// Announce a job and wait until its routes are in force
    Prolog(prolog::Args),
    /// Tell the service that a job has ended
    Epilog(prolog::EpilogArgs),
    /// Replay a recording of the service and compare the epochs
    ReplayEvents(replay_events::Args),
    /// Pack a recording without names, for a bug report
    Capture(capture::Args),
    /// Answer one question of the service's interface, which asks on standard input
    #[command(hide = true)]
    Answer,
    /// Check a site's set-up
    Doctor(doctor::Args),
    /// Route a job history with several engines
    Replay(replay::Args),
    /// Write, inspect and damage fabrics
    Fabric(fabric::Args),
    /// Direct tori: a published synthetic study
    Angara(angara::Args),
    /// Send simulated packets over a fabric
    Simulate(simulate::Args),
    /// What is left of a fabric when parts of it fail
    Survive(survive::Args),
    /// Benchmarks beside OpenSM
    Bench(bench::Args),
    /// Print completions for a shell
    Completions(completions::Args),
    /// Write the manual pages
    Man(man::Args),
}

impl Command {
    fn run(self, context: &Context) -> Result<Answer, Failure> {
        match self {
            Self::Demo(args) => demo::run(args, context),
            Self::Route(args) => route::run(args, context),
            Self::Verify(args) => verify::run(args, context),
            Self::Engines(args) => lists::engines(args, context),
            Self::Patterns(args) => lists::patterns(args, context),
            Self::Sources(args) => lists::sources(args, context),
            Self::Deliveries(args) => lists::deliveries(args, context),
            Self::Measures(args) => lists::measures(args, context),
            Self::Openapi(args) => schema::openapi(args),
            Self::Schema(args) => schema::run(args),
            Self::Compare(args) => compare::run(args, context),
            Self::Plan(args) => plan::run(args, context),
            Self::Place(args) => place::run(args, context),
            Self::Order(args) => order::run(args, context),
            Self::Job(args) => job::run(args, context),
            Self::Node(args) => node::run(args, context),
            Self::Path(args) => path::run(args, context),
            Self::ReleaseHeld(args) => release_held::run(args, context),
            Self::Tick(args) => tick::run(args, context),
            Self::Serve(args) => serve::run(args, context),
            Self::Follow(args) => follow::run(args, context),
            Self::Status(args) => status::run(args, context),
            Self::History(args) => history::run(args, context),
            Self::Show(args) => show::run(args, context),
            Self::Explain(args) => explain::run(args, context),
            Self::Rollback(args) => rollback::run(args, context),
            Self::Hold(args) => hold::run(args, context),
            Self::Resume(args) => hold::resume(args, context),
            Self::Trial(args) => trial::run(args, context),
            Self::Prolog(args) => prolog::run(args, context),
            Self::Epilog(args) => prolog::epilog(args, context),
            Self::Capture(args) => capture::run(args, context),
            Self::ReplayEvents(args) => replay_events::run(args, context),
            Self::Answer => answer::run(),
            Self::Doctor(args) => doctor::run(args, context),
            Self::Replay(args) => replay::run(args, context),
            Self::Fabric(args) => fabric::run(args, context),
            Self::Angara(args) => angara::run(args, context),
            Self::Simulate(args) => simulate::run(args, context),
            Self::Survive(args) => survive::run(args, context),
            Self::Bench(args) => bench::run(args, context),
            Self::Completions(args) => completions::run(args, context),
            Self::Man(args) => man::run(args, context),
        }
    }
}

/// The command line, with help as `help` lays it out.
fn parse() -> Result<Cli, clap::Error> {
    let mut command = help::laid_out(Cli::command());
    let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// Parses, dispatches, prints an error chain once. Exit 0 = yes, 1 = the answer is no, 2 = failed.
pub fn main() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => return mistake::explain(&error),
    };
    log(&cli);
    let context = Context { format: cli.format, config: cli.config, fabric_name: cli.fabric_name };
    match cli.command.run(&context) {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        Err(failure) => {
            let text = mistake::with_user(chain(failure.as_ref()));
            eprintln!("sarouter: {text}");
            if context.format == Format::Json && !common::has_said() {
                mistake::print(&text);
            }
            ExitCode::from(2)
        }
    }
}

/// Logs to stderr. What runs for long says when; journald knows that itself. What runs once says what else it
/// has to say, not where in the program.
fn log(cli: &Cli) {
    let runs_long = matches!(cli.command, Command::Serve(_) | Command::Follow(_));
    let level = ["warn", "info", "debug", "trace"][usize::from(cli.verbose.min(3))];
    // A pass that failed says so as its result.
    let told = matches!(cli.command, Command::Tick(_)) && cli.verbose == 0;
    let level =
        if told { format!("{level},sarouter::failed=off,sarouter::trouble=off") } else { level.to_string() };
    // Wrong words in the variable are no reason not to start.
    let asked = std::env::var("SAROUTER_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
    let filter = asked.or_else(|| level.parse().ok()).unwrap_or_default();
    // Colours are for terminals: in files and journals they are bytes that nobody asked for.
    let ansi = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let log = tracing_subscriber::fmt::layer().with_ansi(ansi).with_writer(std::io::stderr);
    let is_journal = std::env::var_os("JOURNAL_STREAM").is_some() && !ansi;
    let log = match (runs_long || cli.verbose > 0, is_journal) {
        (true, false) => log.boxed(),
        (true, true) => log.without_time().boxed(),
        (false, _) => log.without_time().with_target(false).boxed(),
    };
    tracing_subscriber::registry().with(log.with_filter(filter)).init();
}

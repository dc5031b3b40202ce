//! `sarouter openapi`, `sarouter schema`: what programs may rely on. Made from the types that are printed.

use std::collections::BTreeMap;

use clap::ValueEnum;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Value, json};

use super::common::print;
use super::{
    Answer, Failure, angara, bench, compare, doctor, explain, fabric, fabric_nodes, history, hold, lists,
    order, path, place, plan, rollback, route_angara, show, simulate, status, survive, trial,
};
use crate::lab::replay::direct::DirectSummary;
use crate::lab::replay::pages;
use crate::model::pattern::PatternRow;
use crate::pass::trial::Trial;
use crate::publish::Hold;
use crate::report::inventory::FabricInventory;
use crate::report::{Refusal, Report};
use crate::service::api::answer::ErrorBody;
use crate::service::api::openapi::document;
use crate::service::kind::direct::TorusDryRun;
use crate::service::record::capture::Captured;
use crate::service::record::replay::Replayed;
use crate::verify::angara::TorusVerdict;
use crate::verify::{UpdateVerdict, Verdict};

/// Arguments of `openapi`.
#[derive(Debug, clap::Args)]
#[command(after_help = "A running service answers the same at GET /v1/openapi.json.\n\n\
                        Example: sarouter openapi > sarouter.openapi.json")]
pub struct OpenapiArgs {
    /// Of a service with several [[fabric]]
    #[arg(long)]
    several: bool,
}

/// Arguments of `schema`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: sarouter schema compare > compare.schema.json")]
pub struct Args {
    /// The command
    #[arg(value_enum)]
    command: Printing,
}

/// Commands whose JSON has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Printing {
    Route,
    Compare,
    Verify,
    Plan,
    Status,
    Simulate,
    History,
    Show,
    Explain,
    Path,
    Place,
    Order,
    Rollback,
    Trial,
    Doctor,
    Hold,
    Resume,
    Fabric,
    Survive,
    Replay,
    ReplayEvents,
    Capture,
    Bench,
    Angara,
    Engines,
    Patterns,
    Sources,
    Deliveries,
    Measures,
}

/// What a command says of each of several fabrics.
#[derive(Debug, Serialize, JsonSchema)]
struct Each<T> {
    /// By name.
    fabrics: BTreeMap<String, T>,
}

pub fn openapi(args: OpenapiArgs) -> Result<Answer, Failure> {
    print(&serde_json::to_string_pretty(&document(args.several))?)?;
    Ok(Answer::Yes)
}

pub fn run(args: Args) -> Result<Answer, Failure> {
    print(&serde_json::to_string_pretty(&schema(args.command))?)?;
    Ok(Answer::Yes)
}

/// Every form of what is printed, an error among them.
fn schema(command: Printing) -> Value {
    let mut shapes = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut forms = forms(command, &mut shapes);
    forms.push(shapes.subschema_for::<ErrorBody>());
    let name = command.to_possible_value().map(|name| name.get_name().to_string()).unwrap_or_default();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("sarouter {name} --format json"),
        "anyOf": forms,
        "$defs": shapes.take_definitions(true),
    })
}

fn forms(command: Printing, shapes: &mut SchemaGenerator) -> Vec<Schema> {
    match command {
        Printing::Route => vec![
            shapes.subschema_for::<Report>(),
            shapes.subschema_for::<Refusal>(),
            shapes.subschema_for::<route_angara::Report>(),
            shapes.subschema_for::<TorusVerdict>(),
        ],
        Printing::Compare => vec![
            shapes.subschema_for::<Vec<compare::EngineReport>>(),
            shapes.subschema_for::<Vec<route_angara::Report>>(),
        ],
        Printing::Verify => vec![
            shapes.subschema_for::<Verdict>(),
            shapes.subschema_for::<UpdateVerdict>(),
            shapes.subschema_for::<TorusVerdict>(),
        ],
        Printing::Plan => vec![
            shapes.subschema_for::<plan::Answered>(),
            shapes.subschema_for::<TorusDryRun>(),
            shapes.subschema_for::<Each<plan::Each>>(),
        ],
        Printing::Status => {
            vec![shapes.subschema_for::<status::Status>(), shapes.subschema_for::<Each<status::Status>>()]
        }
        Printing::Simulate => vec![shapes.subschema_for::<simulate::Simulated<'_>>()],
        Printing::History => vec![shapes.subschema_for::<history::Table>()],
        Printing::Show => {
            vec![
                shapes.subschema_for::<show::Details>(),
                shapes.subschema_for::<Vec<show::Cable>>(),
                shapes.subschema_for::<history::Table>(),
            ]
        }
        Printing::Explain => {
            vec![shapes.subschema_for::<explain::Explained>(), shapes.subschema_for::<history::Table>()]
        }
        Printing::Path => vec![shapes.subschema_for::<Vec<path::Way>>()],
        Printing::Place => vec![shapes.subschema_for::<place::Answered>()],
        Printing::Order => vec![shapes.subschema_for::<order::Answered>()],
        Printing::Rollback => vec![shapes.subschema_for::<rollback::Rollback>()],
        Printing::Trial => vec![
            shapes.subschema_for::<Option<Trial>>(),
            shapes.subschema_for::<trial::Found>(),
            shapes.subschema_for::<trial::Ended>(),
        ],
        Printing::Doctor => vec![shapes.subschema_for::<Vec<doctor::Check>>()],
        Printing::Hold => vec![shapes.subschema_for::<Hold>(), shapes.subschema_for::<Each<Hold>>()],
        Printing::Resume => {
            vec![shapes.subschema_for::<hold::WasHeld>(), shapes.subschema_for::<Each<hold::WasHeld>>()]
        }
        _ => studies(command, shapes),
    }
}

/// Of what is no question to a site.
fn studies(command: Printing, shapes: &mut SchemaGenerator) -> Vec<Schema> {
    match command {
        Printing::Fabric => vec![
            shapes.subschema_for::<FabricInventory>(),
            shapes.subschema_for::<fabric::Written>(),
            shapes.subschema_for::<fabric_nodes::Answered>(),
        ],
        Printing::Survive => survive::forms(shapes),
        Printing::Replay => {
            vec![shapes.subschema_for::<pages::Told<'_>>(), shapes.subschema_for::<Vec<DirectSummary>>()]
        }
        Printing::ReplayEvents => vec![shapes.subschema_for::<Replayed>()],
        Printing::Capture => vec![shapes.subschema_for::<Captured>()],
        Printing::Bench => bench::forms(shapes),
        Printing::Angara => vec![shapes.subschema_for::<Vec<angara::SystemFigures>>()],
        Printing::Engines => vec![shapes.subschema_for::<Vec<lists::EngineLine>>()],
        Printing::Patterns => vec![shapes.subschema_for::<Vec<PatternRow>>()],
        Printing::Sources => vec![shapes.subschema_for::<Vec<lists::SourceLine>>()],
        Printing::Deliveries => vec![shapes.subschema_for::<Vec<lists::DeliveryLine>>()],
        Printing::Measures => vec![shapes.subschema_for::<Vec<lists::MeasureLine>>()],
        _ => Vec::new(),
    }
}

//! `sarouter survive`: what a fabric is worth when parts of it fail and are not replaced (thesis
//! chapter 4).

mod advice;
mod damage;
mod direct;
mod lost;
mod matrix;
mod network;
mod throughput;

use schemars::{Schema, SchemaGenerator};

use super::{Answer, Context, Failure};

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    study: Study,
}

#[derive(Debug, clap::Subcommand)]
enum Study {
    /// Connections lost before anything is routed anew, beside Proposition 4.2
    Lost(lost::Args),
    /// Which engine can route which fabric, and whether it deadlocks (Table 4.3)
    Matrix(matrix::Args),
    /// Throughput of an exchange over the number of faults, regression, advice (Tables 4.4 to 4.6)
    Throughput(throughput::Args),
}

pub fn run(args: Args, context: &Context) -> Result<Answer, Failure> {
    match args.study {
        Study::Lost(args) => lost::run(&args, context),
        Study::Matrix(args) => matrix::run(&args, context),
        Study::Throughput(args) => throughput::run(&args, context),
    }
}

/// Schemas of what the studies print.
pub(super) fn forms(shapes: &mut SchemaGenerator) -> Vec<Schema> {
    vec![
        shapes.subschema_for::<Vec<lost::LostConnections>>(),
        shapes.subschema_for::<Vec<direct::LostRoutes>>(),
        shapes.subschema_for::<Vec<matrix::Cell>>(),
        shapes.subschema_for::<throughput::Told<'_>>(),
        shapes.subschema_for::<throughput::Part>(),
    ]
}

//! Tests with the real daemons on loopback. Ignored unless `scripts/test` asks for them, because
//! they need Debian's packages.

mod browser;
mod certificate;
mod coverage;
mod day;
mod debian13;
mod end_to_end;
mod fabric_files;
mod fabrics;
mod failover;
mod file_engine;
mod handoff;
mod hints;
mod lanes;
mod lids;
mod machine;
mod mend;
mod mpi;
mod package;
mod page;
mod page_compare;
mod peers;
mod placement;
mod plugin;
mod prolog;
mod repair;
mod replay;
mod rpm;
mod scheduling;
#[path = "../shared/script.rs"]
mod script;
mod service;
mod slurm;
mod slurmrestd;
mod spank;
mod storm;
mod submit;
mod testbed;
mod topology;
mod torus;
mod upgrade;
mod walk;
mod watch;

//! Tests with the real daemons on loopback. Ignored unless `scripts/test` asks for them, because
//! they need Debian's packages.

mod answers;
mod browser;
mod certificate;
mod charts;
mod coverage;
mod day;
mod debian13;
mod disk;
mod end_to_end;
mod fabric_files;
mod fabrics;
mod failover;
mod file_engine;
mod handoff;
mod hints;
mod idle;
mod lanes;
mod lids;
mod machine;
mod mend;
mod mpi;
#[path = "../shared/often.rs"]
mod often;
#[path = "../shared/opensm_status.rs"]
mod opensm_status;
mod package;
mod page;
mod page_address;
mod page_colours;
mod page_compare;
mod page_fabrics;
mod page_hand;
mod page_matrix;
mod page_panel;
mod page_questions;
mod page_signed;
mod page_strip;
mod page_users;
mod page_wide;
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

//! Job history through every engine: traces and generated months, snapshot by snapshot, by the same
//! decision, routing, check and measures as on a live site (thesis section 5.3.2).
//!
//! In data-flow order: [`trace`] reads or generates jobs, and [`history`] puts them on the fabric's nodes. [`setup`]
//! says what is replayed, and [`run`] sends each snapshot through the engines. [`series`] holds the results as rows,
//! [`moment`] the snapshot that is worth a picture. [`summary`] puts them into the form of Tables 5.1 and 5.2,
//! [`files`] writes and joins the parts of a run, and [`pages`] shows it. [`kept`] says what is left of the gain
//! where fewer changes are made. [`direct`] does the same for a direct torus, job by job.

pub mod direct;
pub mod files;
pub mod history;
pub mod kept;
pub mod moment;
pub mod pages;
pub mod run;
pub mod series;
pub mod setup;
pub mod summary;
pub mod trace;

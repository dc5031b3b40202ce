//! One pass, as far as it needs neither clock nor outside: when to look, what is due, which routes.

pub mod plan;
pub mod step;

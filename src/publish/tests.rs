//! Tests of the store as a whole. What they publish is in [`fixture`].

mod crash;
mod damage;
pub(crate) mod fixture;
mod laws;
mod store;

//! Any of the routings, chosen by name at run time.

use super::adaptive::{
    AllPaths, Distances, Dor, Ksp, Minimal, OmniDimensional, Penalties, Polarized, Rdr, Ugal, Valiant,
};
use super::net::Net;
use super::router::{Header, Hop, Router, RouterError, TableRouter, TorusRouter};
use super::state::View;
use crate::model::rng::Rng;

/// Names of the adaptive routings.
pub const ADAPTIVE: [&str; 10] = [
    "polarized",
    "minimal",
    "valiant",
    "ugal",
    "ksp",
    "ksp-ugal",
    "all-paths",
    "omni-dimensional",
    "rdr",
    "dor-lanes",
];

/// A routing chosen by name.
#[expect(missing_docs, reason = "each variant is its type")]
pub enum AnyRouter<'a> {
    Table(TableRouter<'a>),
    Torus(TorusRouter),
    Minimal(Minimal<'a>),
    Valiant(Valiant<'a>),
    Ugal(Ugal<'a>),
    Polarized(Polarized<'a>),
    Ksp(Ksp<'a>),
    AllPaths(AllPaths<'a>),
    OmniDimensional(OmniDimensional<'a>),
    Dor(Dor<'a>),
    Rdr(Rdr<'a>),
}

impl<'a> AnyRouter<'a> {
    /// An adaptive routing. `k` paths for those that draw from a pool; `seed` draws the pool.
    ///
    /// # Errors
    /// If it cannot work on this network, or there is none of that name.
    pub fn adaptive(
        name: &str,
        net: &'a Net,
        far: &'a Distances,
        k: usize,
        seed: u64,
    ) -> Result<Self, RouterError> {
        Ok(match name {
            "minimal" => Self::Minimal(Minimal::new(net, far)?),
            "valiant" => Self::Valiant(Valiant::new(net, far)?),
            "ugal" => Self::Ugal(Ugal::new(net, far)?),
            "polarized" => Self::Polarized(Polarized::new(net, far, Penalties::default())?),
            "ksp" => Self::Ksp(Ksp::new(net, far, k, false, seed)?),
            "ksp-ugal" => Self::Ksp(Ksp::new(net, far, k, true, seed)?),
            "all-paths" => Self::AllPaths(AllPaths::new(net, far)?),
            "omni-dimensional" => Self::OmniDimensional(OmniDimensional::new(net, far)?),
            "rdr" => Self::Rdr(Rdr::new(net)?),
            "dor-lanes" => Self::Dor(Dor::new(net)?),
            _ => {
                let reason = format!("there is no such routing; adaptive ones are {}", ADAPTIVE.join(", "));
                return Err(RouterError::NotApplicable { router: "the simulator", reason });
            }
        })
    }
}

/// Calls the variant's own.
macro_rules! of {
    ($self:ident, $router:ident => $call:expr) => {
        match $self {
            AnyRouter::Table($router) => $call,
            AnyRouter::Torus($router) => $call,
            AnyRouter::Minimal($router) => $call,
            AnyRouter::Valiant($router) => $call,
            AnyRouter::Ugal($router) => $call,
            AnyRouter::Polarized($router) => $call,
            AnyRouter::Ksp($router) => $call,
            AnyRouter::AllPaths($router) => $call,
            AnyRouter::OmniDimensional($router) => $call,
            AnyRouter::Dor($router) => $call,
            AnyRouter::Rdr($router) => $call,
        }
    };
}

impl Router for AnyRouter<'_> {
    fn lanes(&self) -> u8 {
        of!(self, r => r.lanes())
    }
    fn is_adaptive(&self) -> bool {
        of!(self, r => r.is_adaptive())
    }
    fn starts_anywhere(&self) -> bool {
        of!(self, r => r.starts_anywhere())
    }
    fn least_room(&self) -> u32 {
        of!(self, r => r.least_room())
    }
    fn unconnected(&self, pairs: impl Iterator<Item = (u32, u32)>) -> Option<(u32, u32)> {
        of!(self, r => r.unconnected(pairs))
    }
    fn inject(&self, header: &mut Header, view: &View<'_>, rng: &mut Rng) -> u8 {
        of!(self, r => r.inject(header, view, rng))
    }
    #[inline]
    fn hop(&self, at: u32, header: &Header, view: &View<'_>, rng: &mut Rng) -> Hop {
        of!(self, r => r.hop(at, header, view, rng))
    }
    #[inline]
    fn fetch(&self, at: u32, header: &Header) {
        of!(self, r => r.fetch(at, header));
    }
    #[inline]
    fn foresee(&self, at: u32, header: &Header) -> u32 {
        of!(self, r => r.foresee(at, header))
    }
    #[inline]
    fn taken(&self, header: &mut Header, hop: Hop) {
        of!(self, r => r.taken(header, hop));
    }
}

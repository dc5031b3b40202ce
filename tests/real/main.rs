//! Tests with the real daemons on loopback. Ignored unless `scripts/test` asks for them, because
//! they need Debian's packages.

mod handoff;
mod plugin;
mod testbed;

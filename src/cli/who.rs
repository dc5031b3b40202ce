//! Who types: for what is written down of acts by hand.

use std::fs::read_to_string;

pub use crate::service::accounts::{account, name};

/// What the kernel says where nobody has logged in.
const NOBODY: u32 = u32::MAX;

/// The account that logged in, whatever it became since (sudo, su, runuser), and the one that acts now if it is
/// another: `alex as sarouter`.
pub fn who() -> String {
    let acts = rustix::process::geteuid().as_raw();
    let number = |text: String| text.trim().parse::<u32>().ok();
    let login = read_to_string("/proc/self/loginuid").ok().and_then(number).filter(|uid| *uid != NOBODY);
    let login = login.or_else(|| number(std::env::var("SUDO_UID").ok()?));
    let login = login.unwrap_or_else(|| rustix::process::getuid().as_raw());
    match login == acts {
        true => name(acts),
        false => format!("{} as {}", name(login), name(acts)),
    }
}

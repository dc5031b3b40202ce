//! Who types: for what is written down of acts by hand.

use std::fs::read_to_string;
use std::process::Command;

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

/// The name of an account, or its number.
fn name(uid: u32) -> String {
    account(uid).unwrap_or_else(|| format!("uid {uid}"))
}

/// An account's name, from wherever the system has it.
pub fn account(uid: u32) -> Option<String> {
    let output = Command::new("getent").args(["passwd", &uid.to_string()]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.split(':').next().map(str::to_string).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn an_account_has_its_name_or_its_number() {
        assert_eq!([0, 3_999_999_999].map(name), ["root", "uid 3999999999"]);
    }
}

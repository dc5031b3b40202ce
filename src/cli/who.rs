//! Who types: for what is written down of acts by hand.

use std::fs::read_to_string;

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
    let passwd = read_to_string("/etc/passwd").unwrap_or_default();
    match login == acts {
        true => name(&passwd, acts),
        false => format!("{} as {}", name(&passwd, login), name(&passwd, acts)),
    }
}

/// The name of an account of this machine, or its number.
fn name(passwd: &str, uid: u32) -> String {
    let fields = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let known = fields.into_iter().find(|f| f.get(2).and_then(|id| id.parse().ok()) == Some(uid));
    known.map_or_else(|| format!("uid {uid}"), |fields| fields[0].to_string())
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn an_account_has_its_name_or_its_number() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nbroken\nalex:x:1000:1000::/home/alex:/bin/sh\n";
        assert_eq!([0, 1000, 7].map(|uid| name(passwd, uid)), ["root", "alex", "uid 7"]);
    }
}

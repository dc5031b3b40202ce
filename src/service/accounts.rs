//! Names of the system's accounts.

use std::process::Command;

/// The name of an account, or its number.
pub fn name(uid: u32) -> String {
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

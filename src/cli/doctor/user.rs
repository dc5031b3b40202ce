//! As whom `doctor` looks: root may read everything and sees every job, the service may not.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use super::{Answer, Check, Failure, chain};
use crate::cli::who::account;
use crate::config::Settings;
use crate::service::api::network;

/// Set for the process that looks as the service's user; set by hand, root looks as root.
const LOOKS_AS_SERVICE: &str = "SAROUTER_DOCTOR_AS_SERVICE";

/// The shell's codes for a command that cannot be run.
const NOT_RUN: [i32; 2] = [126, 127];

/// Whether this process is root's, and there is another user to look as: the owner of the state directory.
fn service_user(state: &Path) -> Option<String> {
    let owner = std::fs::metadata(state).ok()?.uid();
    let may_change = rustix::process::geteuid().is_root() && std::env::var_os(LOOKS_AS_SERVICE).is_none();
    if owner == 0 || !may_change {
        return None;
    }
    account(owner)
}

/// Started by root, looks as the service's user, with the same arguments; what that says. `None` if this process is to
/// look itself.
///
/// # Errors
/// If the settings cannot be used by that user, and it has said so.
pub(super) fn as_service(state: &Path) -> Result<Option<Answer>, Failure> {
    let Some(user) = service_user(state) else { return Ok(None) };
    let mut command = Command::new("runuser");
    command.args(["-u", &user, "--"]).arg(std::env::current_exe()?).args(std::env::args_os().skip(1));
    let status = match command.env(LOOKS_AS_SERVICE, "1").status() {
        Ok(status) => status,
        Err(_) => return Ok(None),
    };
    match status.code() {
        Some(0) => Ok(Some(Answer::Yes)),
        Some(1) => Ok(Some(Answer::No)),
        Some(code) if NOT_RUN.contains(&code) => Ok(None),
        _ => Err(format!("as user {user}: {status}").into()),
    }
}

/// As whom it looked.
pub(super) fn check(state: &Path) -> Check {
    const NAME: &str = "user";
    let user = rustix::process::geteuid();
    let name = account(user.as_raw()).unwrap_or_else(|| format!("user {}", user.as_raw()));
    let owner = std::fs::metadata(state).map(|found| found.uid()).unwrap_or_default();
    if user.is_root() && owner != 0 {
        let service = account(owner).unwrap_or_else(|| format!("$(id -nu {owner})"));
        let fix = format!("runuser -u {service} -- sarouter doctor, as the user of the service");
        return Check::advice(NAME, "root, who may read what the service may not, and sees every job", fix);
    }
    Check::good(NAME, format!("looked as {name}"))
}

/// Who may put routes in force, and who may make the service look or start jobs.
pub(super) fn publishers(settings: &Settings) -> Check {
    const NAME: &str = "who may";
    let name = |user: &u32| account(*user).unwrap_or_else(|| format!("user {user}"));
    let owner = std::fs::metadata(&settings.state.directory).map(|found| name(&found.uid()));
    let owner = owner.unwrap_or_else(|_| "whoever makes the state directory".to_string());
    let publish = if owner == "root" { owner } else { format!("{owner} and root") };
    let Some(api) = &settings.api else {
        return Check::good(NAME, format!("publish, hold and roll back: {publish}; there is no interface"));
    };
    let mut ask: Vec<String> = api.write_users.iter().map(name).collect();
    ask.extend(api.write_groups.iter().map(|group| format!("group {group}")));
    ask.extend(api.tcp.iter().map(|tcp| format!("tokens with write in {}", tcp.token_file.display())));
    let also = if ask.is_empty() { "nobody else".to_string() } else { ask.join(", ") };
    Check::good(
        NAME,
        format!("publish, hold and roll back: {publish}; announce jobs and ask for a look: also {also}"),
    )
}

/// Whether the service can read what it needs for connections over TCP: it does not start otherwise.
pub(super) fn secrets(settings: &Settings) -> Option<Check> {
    let tcp = settings.api.as_ref()?.tcp.as_ref()?;
    let error = network::check(tcp).err()?;
    let fix = "chmod 600 and chown to the user of the service; docs/SERVICE.md says what these files hold";
    Some(Check::fix("api", chain(&error), fix))
}

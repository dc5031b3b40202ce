//! Settings of the service's interfaces as written: HTTP, slurmrestd, spool, recording, history.

use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::TimeDelta;
use serde::Deserialize;
use toml::Spanned;

use super::Wrong;
use super::numbers::{Kibibytes, Mebibytes, Seconds};
use super::words::Place;
use crate::config::{Api, History, Record, Rest, RestUrl, Tcp, Tls};

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WrittenApi {
    enable: bool,
    socket: Option<Place>,
    write_users: Vec<Spanned<Account>>,
    write_groups: Vec<Spanned<Account>>,
    others_read: bool,
    show_users: bool,
    tcp: Option<Spanned<String>>,
    token_file: Option<Spanned<PathBuf>>,
    tls_certificate: Option<Spanned<PathBuf>>,
    tls_key: Option<Spanned<PathBuf>>,
    body_limit_kib: Kibibytes,
    question_memory_mib: Mebibytes,
    deadline_seconds: Seconds,
}

/// A user or group: a number, or a name of this machine.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "a user or group is a name or a number")]
enum Account {
    Id(u32),
    Name(String),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WrittenRest {
    url: Option<Spanned<String>>,
    user: Option<String>,
    token_file: Option<Spanned<PathBuf>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WrittenSpool {
    directory: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WrittenRecord {
    enable: bool,
    file_mib: Mebibytes,
    files: Files,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WrittenHistory {
    keep_days: Days,
}

/// 2 to 1000.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "u64")]
struct Files(usize);

/// 1 to 36500.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "u64")]
struct Days(i64);

impl TryFrom<u64> for Files {
    type Error = String;
    fn try_from(files: u64) -> Result<Self, String> {
        if (2..=1000).contains(&files) {
            Ok(Self(files as usize))
        } else {
            Err("must be 2 to 1000 files".into())
        }
    }
}

impl TryFrom<u64> for Days {
    type Error = String;
    fn try_from(days: u64) -> Result<Self, String> {
        if (1..=36_500).contains(&days) {
            Ok(Self(days as i64))
        } else {
            Err("must be 1 to 36500 days".into())
        }
    }
}

impl Default for WrittenApi {
    fn default() -> Self {
        Self {
            enable: true,
            socket: None,
            write_users: Vec::new(),
            write_groups: Vec::new(),
            others_read: true,
            show_users: false,
            tcp: None,
            token_file: None,
            tls_certificate: None,
            tls_key: None,
            body_limit_kib: Kibibytes(4 << 20),
            question_memory_mib: Mebibytes(2 << 30),
            deadline_seconds: Seconds(Duration::from_secs(10)),
        }
    }
}

impl Default for WrittenRecord {
    fn default() -> Self {
        Self { enable: true, file_mib: Mebibytes(16 << 20), files: Files(8) }
    }
}

impl Default for WrittenHistory {
    fn default() -> Self {
        Self { keep_days: Days(400) }
    }
}

/// Name of the service's socket in the state directory.
const SOCKET_FILE: &str = "api.sock";

impl WrittenApi {
    /// The interface, or what is wrong at which byte.
    pub(super) fn resolve(self, home: &Path, state: &Path) -> Result<Option<Api>, Wrong> {
        let ids = |accounts: Vec<Spanned<Account>>, file| {
            accounts.into_iter().map(|a| account_id(a, file)).collect::<Result<Vec<u32>, _>>()
        };
        let tls = match (self.tls_certificate, self.tls_key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (one, other) => {
                let start = one.or(other).map_or(0, |one| one.span().start);
                return Err((start, "api.tls_certificate and api.tls_key belong together".into()));
            }
        };
        let tcp = match (self.tcp, self.token_file, tls) {
            (None, None, None) => None,
            (None, Some(unused), _) => {
                return Err((unused.span().start, "api.token_file needs api.tcp".into()));
            }
            (None, None, Some((unused, _))) => {
                return Err((unused.span().start, "api.tls_certificate needs api.tcp".into()));
            }
            (Some(address), None, _) => {
                return Err((address.span().start, "api.tcp needs api.token_file".into()));
            }
            (Some(address), Some(token_file), tls) => {
                let start = address.span().start;
                let address = address.into_inner().parse().map_err(|e| {
                    (start, format!("{e}: expected an address with port, such as 127.0.0.1:6830"))
                })?;
                let at = |file: Spanned<PathBuf>| home.join(file.into_inner());
                let tls = tls.map(|(certificate, key)| Tls { certificate: at(certificate), key: at(key) });
                Some(Tcp { address, token_file: at(token_file), tls })
            }
        };
        let api = Api {
            tcp,
            write_users: ids(self.write_users, "/etc/passwd")?,
            write_groups: ids(self.write_groups, "/etc/group")?,
            socket: self.socket.map_or(state.join(SOCKET_FILE), |s| home.join(s.0)),
            others_read: self.others_read,
            show_users: self.show_users,
            body_limit: self.body_limit_kib.0,
            question_memory: self.question_memory_mib.0,
            deadline: self.deadline_seconds.0,
        };
        Ok(self.enable.then_some(api))
    }
}

/// The number of an account; names are looked up in this file of `NAME:…:ID:…` lines.
fn account_id(account: Spanned<Account>, file: &str) -> Result<u32, Wrong> {
    let start = account.span().start;
    let name = match account.into_inner() {
        Account::Id(id) => return Ok(id),
        Account::Name(name) => name,
    };
    let lines = std::fs::read_to_string(file).unwrap_or_default();
    let line = lines.lines().map(|l| l.split(':').collect::<Vec<_>>()).find(|f| f[0] == name);
    line.and_then(|fields| fields.get(2)?.parse().ok()).ok_or_else(|| {
        (start, format!("{file} has no {name:?}: give the number of an account from elsewhere"))
    })
}

impl WrittenRest {
    pub(super) fn resolve(self, home: &Path) -> Result<Option<Rest>, Wrong> {
        let Some(url) = self.url else {
            let unused = self.token_file.map(|file| file.span().start);
            let message = "slurmrestd.token_file needs slurmrestd.url";
            return unused.map_or(Ok(None), |start| Err((start, message.into())));
        };
        let start = url.span().start;
        let url = match url.into_inner() {
            text if text.starts_with("http://") || text.starts_with("https://") => {
                RestUrl::Tcp(text.trim_end_matches('/').to_string())
            }
            text => match text.strip_prefix("unix:") {
                Some(path) => RestUrl::Unix(home.join(path)),
                None => return Err((start, "expected http://…, https://… or unix:/path".into())),
            },
        };
        Ok(Some(Rest {
            url,
            user: self.user,
            token_file: self.token_file.map(|f| home.join(f.into_inner())),
        }))
    }
}

impl WrittenSpool {
    pub(super) fn resolve(self, home: &Path) -> Option<PathBuf> {
        self.directory.map(|d| home.join(d))
    }
}

impl WrittenRecord {
    pub(super) fn resolve(self) -> Option<Record> {
        self.enable.then_some(Record { file_bytes: self.file_mib.0, files: self.files.0 })
    }
}

impl WrittenHistory {
    pub(super) fn resolve(self) -> History {
        History { keep: TimeDelta::days(self.keep_days.0) }
    }
}

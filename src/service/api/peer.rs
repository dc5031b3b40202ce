//! Who asks, and what they may: the kernel names the process at the other end of a unix socket.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::info;

use super::answer::ApiError;
use super::refusal;
use crate::config;

/// What somebody may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Nothing at all.
    Nothing,
    /// Ask.
    Read,
    /// Ask and change.
    Write,
}

/// Who is at the other end of a connection; an extension of each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// For the log: `uid 1000`, or the address of a TCP peer.
    pub name: String,
    /// Whose share of the service it is: `uid 1000`, or the token.
    pub user: String,
    /// What they may do.
    pub access: Access,
    /// Whether they come over a network, and so have shown a token with each request.
    pub on_network: bool,
}

/// Says who changed what, for whoever reads the log later.
pub fn audit(caller: &Caller, what: std::fmt::Arguments<'_>) {
    info!(caller = caller.name, "audit: {what}");
}

/// The rule of a unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    own_uid: u32,
    write_users: Vec<u32>,
    write_groups: Vec<u32>,
    others: Access,
}

impl Rule {
    /// Root and the user of this process may write; others as the settings say.
    pub fn new(settings: &config::Api) -> Self {
        Self {
            own_uid: rustix::process::geteuid().as_raw(),
            write_users: settings.write_users.clone(),
            write_groups: settings.write_groups.clone(),
            others: if settings.others_read { Access::Read } else { Access::Nothing },
        }
    }

    /// What a process with these effective ids may do.
    pub fn access(&self, uid: u32, gid: u32) -> Access {
        let may_write = uid == 0
            || uid == self.own_uid
            || self.write_users.contains(&uid)
            || self.write_groups.contains(&gid);
        if may_write { Access::Write } else { self.others }
    }
}

/// Lets only callers pass that may ask.
pub async fn readers_only(request: Request, next: Next) -> Response {
    only(Access::Read, request, next).await
}

/// Lets only callers pass that may change something.
pub async fn writers_only(request: Request, next: Next) -> Response {
    only(Access::Write, request, next).await
}

async fn only(wanted: Access, request: Request, next: Next) -> Response {
    match request.extensions().get::<Caller>() {
        Some(caller) if caller.access >= wanted => next.run(request).await,
        caller => {
            let name = caller.map_or("an unnamed peer", |c| c.name.as_str());
            refusal::log(name, request.method(), request.uri().path(), "no right to it");
            ApiError::new(StatusCode::FORBIDDEN, format!("{name} may not do this")).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_the_own_user_write_others_as_the_settings_say() {
        let rule = |others| Rule { own_uid: 7, write_users: vec![64030], write_groups: vec![50], others };
        let read = rule(Access::Read);
        let answers: Vec<Access> = [(0, 9), (7, 9), (64030, 9), (1000, 50), (1000, 1000)]
            .map(|(uid, gid)| read.access(uid, gid))
            .to_vec();
        assert_eq!(answers, [Access::Write, Access::Write, Access::Write, Access::Write, Access::Read]);
        assert_eq!(rule(Access::Nothing).access(1000, 1000), Access::Nothing);
    }
}

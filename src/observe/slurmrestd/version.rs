//! Which version of the interface is asked.

use reqwest::{Client, Response, StatusCode};
use serde::Deserialize;
use tracing::info;

use super::{RestError, Slurmrestd};
use crate::observe::source::PollError;

/// The part of slurmrestd's description that matters.
#[derive(Deserialize)]
struct Description {
    paths: std::collections::BTreeMap<String, serde::de::IgnoredAny>,
}

impl Slurmrestd {
    /// The version that is asked.
    pub(super) async fn version(&mut self, client: &Client) -> Result<String, RestError> {
        if let Some(version) = &self.version {
            return Ok(version.clone());
        }
        let mut found = self.discover(client).await?;
        let newest = found.pop().ok_or(RestError::NoVersion)?;
        self.older = found;
        info!(version = newest, "slurmrestd");
        Ok(self.version.insert(newest).clone())
    }

    /// Forgets a version that is not there: it is another slurmrestd than before.
    pub(super) fn note_version(&mut self, response: &Response) {
        self.version.take_if(|_| response.status() == StatusCode::NOT_FOUND);
    }

    /// The answer, whatever it is but that who asks may not.
    async fn allowed(&self, client: &Client, path: &str) -> Result<Response, RestError> {
        let response = self.get(client, path).await?;
        if [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&response.status()) {
            let status = response.status();
            self.text(response, path).await?;
            return Err(RestError::Refused { path: path.to_string(), status, message: String::new() });
        }
        Ok(response)
    }

    /// The versions that list jobs, the newest last: from its own description, or by trying, the newest alone.
    async fn discover(&self, client: &Client) -> Result<Vec<String>, RestError> {
        for path in ["/openapi/v3", "/openapi.json", "/openapi"] {
            let response = self.allowed(client, path).await?;
            if !response.status().is_success() {
                continue;
            }
            let text = self.text(response, path).await?;
            let described = serde_json::from_str::<Description>(&text).ok();
            let found = described.map(|d| versions(d.paths.keys())).unwrap_or_default();
            if !found.is_empty() {
                return Ok(found);
            }
        }
        // No description: newest first. A far future is cheap to ask for.
        for n in (36..=50).rev() {
            let version = format!("v0.0.{n}");
            let response = self.allowed(client, &format!("/slurm/{version}/ping")).await?;
            if response.status().is_success() {
                return Ok(vec![version]);
            }
        }
        Err(RestError::NoVersion)
    }

    /// Whether an older version is to be asked instead: Slurm 23.02 wants slurmdbd in its newest, v0.0.39, alone.
    pub(super) fn goes_back(&mut self, error: &PollError) -> bool {
        let goes = RestError::refused_for(error, "slurmdb") && !self.older.is_empty();
        if goes {
            self.version = self.older.pop();
            info!(version = self.version, "slurmrestd has no slurmdbd, which its newer version asks");
        }
        goes
    }
}

/// The versions among paths such as `/slurm/v0.0.38/jobs`, the newest last.
fn versions<'a>(paths: impl Iterator<Item = &'a String>) -> Vec<String> {
    let found = paths.filter_map(|path| {
        let version = path.strip_prefix("/slurm/")?.trim_end_matches('/').strip_suffix("/jobs")?;
        let numbers: Option<Vec<u32>> =
            version.strip_prefix('v')?.split('.').map(|n| n.parse().ok()).collect();
        Some((numbers?, version.to_string()))
    });
    let found: std::collections::BTreeSet<_> = found.collect();
    found.into_iter().map(|(_, version)| version).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_list_jobs_are_found_in_their_order() {
        let paths =
            |list: &[&str]| versions(list.iter().map(|p| (*p).to_string()).collect::<Vec<_>>().iter());
        let debian =
            ["/slurm/v0.0.36/jobs", "/slurm/v0.0.38/jobs", "/slurm/v0.0.39/ping", "/slurmdb/v0.0.38/jobs"];
        assert_eq!(paths(&debian), ["v0.0.36", "v0.0.38"]);
        // Numbers, not letters; newer Slurm ends the path with a slash.
        assert_eq!(paths(&["/slurm/v0.0.41/jobs/", "/slurm/v0.0.9/jobs"]), ["v0.0.9", "v0.0.41"]);
        assert_eq!(paths(&["/slurm/vx/jobs", "/slurm/v0.0.40/job/{id}"]), [""; 0]);
    }
}

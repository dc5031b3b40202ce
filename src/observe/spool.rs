//! The spool: a directory in which others lay down files for the service.
//!
//! A file counts only if it lies in the directory itself, under a plain name, and is a regular file and no link. It
//! must belong to root or to the user of this process, and nobody else may be able to write it.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use super::source::{JobSource, JobSourceRow, Poll, PollError};
use super::{jobs, regular};
use crate::model::{FileError, JobMap};

/// Name of the file with the jobs.
pub const JOBS_FILE: &str = "jobs";

/// The file [`JOBS_FILE`].
pub(super) const SOURCE: JobSourceRow = JobSourceRow {
    name: "spool",
    what: "a file that something else writes, such as a script at another batch system",
    settings: "spool.directory",
    make: |settings| {
        let spool = settings.spool.as_deref()?;
        Some(Box::new(SpooledJobs::new(spool, settings.slurm.output_limit)))
    },
    is_slurm: false,
    unseen: |_| None,
};

/// A file of the spool that is not used.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// It is no name of a file in the spool.
    #[error("{0:?} is not the name of a file in the spool")]
    Name(String),
    /// It cannot be read, or may be somebody else's.
    #[error(transparent)]
    File(#[from] FileError),
}

impl From<SpoolError> for PollError {
    fn from(error: SpoolError) -> Self {
        Self::Source(Box::new(error))
    }
}

/// Reads a file of the spool, at most `limit` bytes.
///
/// # Errors
/// If the name leads elsewhere, or the file is not to be trusted or too large.
pub fn read(spool: &Path, name: &str, limit: u64) -> Result<String, SpoolError> {
    read_dated(spool, name, limit).map(|(text, _)| text)
}

/// The same, and when it was written.
fn read_dated(spool: &Path, name: &str, limit: u64) -> Result<(String, DateTime<Utc>), SpoolError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.len() > 255 || name.starts_with('.') || !name.chars().all(plain) {
        return Err(SpoolError::Name(name.to_string()));
    }
    let path = spool.join(name);
    let failed = FileError::io(&path);
    let refused = |reason: String| SpoolError::from(FileError::refused(&path, reason));
    let no_follow = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(no_follow.bits()).unwrap_or_default();
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(&path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(refused("it is not a regular file".into()));
    }
    if let Some(reason) = regular::strange_owner(&found) {
        return Err(refused(reason));
    }
    if found.mode() & 0o022 != 0 {
        return Err(refused(format!("others may write it (mode {:o})", found.mode() & 0o777)));
    }
    let mut bytes = Vec::new();
    (&mut file).take(limit + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > limit {
        return Err(refused(format!("it has more than {limit} bytes")));
    }
    // Names of jobs are what users say, in any encoding.
    Ok((String::from_utf8_lossy(&bytes).into_owned(), found.modified().map_err(failed)?.into()))
}

/// The file [`JOBS_FILE`] of a spool as the source of jobs.
#[derive(Debug, Clone)]
pub struct SpooledJobs {
    spool: PathBuf,
    limit: u64,
}

impl SpooledJobs {
    /// At most `limit` bytes are read.
    pub fn new(spool: &Path, limit: u64) -> Self {
        Self { spool: spool.to_path_buf(), limit }
    }
}

impl JobSource for SpooledJobs {
    fn poll(&mut self, now: DateTime<Utc>) -> Poll<'_> {
        let (spool, limit) = (self.spool.clone(), self.limit);
        Box::pin(async move {
            let (text, written) = read_dated(&spool, JOBS_FILE, limit)?;
            let name = spool.join(JOBS_FILE);
            let jobs = jobs::parse(&text, &name.to_string_lossy(), now)?;
            // A snapshot's own time may be long ago: jobs age by our clock. Who started since it was written is not in it.
            Ok(JobMap { time: now, as_of: Some(written), ..jobs })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_plain_files_of_the_spool_itself_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let spool = dir.path().join("spool");
        std::fs::create_dir_all(spool.join("sub")).unwrap();
        std::fs::write(dir.path().join("secret"), "outside").unwrap();
        std::fs::write(spool.join("jobs"), "1 n1").unwrap();
        symlink("../secret", spool.join("link")).unwrap();
        let told = |name: &str| read(&spool, name, 10).map_err(|e| e.to_string());
        assert_eq!(told("jobs").unwrap(), "1 n1");
        for name in ["../secret", "/etc/passwd", "sub/../jobs", "", ".", "..", "a\0b", ".hidden"] {
            assert!(told(name).unwrap_err().contains("not the name of a file"), "{name}");
        }
        assert!(told("link").is_err());
        assert!(told("sub").unwrap_err().contains("regular file"));
        std::fs::write(spool.join("large"), "12345678901").unwrap();
        assert!(told("large").unwrap_err().contains("more than 10 bytes"));
        std::fs::set_permissions(spool.join("jobs"), std::fs::Permissions::from_mode(0o664)).unwrap();
        assert!(told("jobs").unwrap_err().contains("mode 664"));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            spool.join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        // A pipe without a writer would hang.
        assert!(told("pipe").unwrap_err().contains("regular file"));
    }

    #[tokio::test]
    async fn jobs_are_those_of_when_the_file_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(JOBS_FILE);
        std::fs::write(&path, "1 n1").unwrap();
        let written = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000);
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(written).unwrap();
        let now = DateTime::from_timestamp(2_000, 0).unwrap();
        let jobs = SpooledJobs::new(dir.path(), 100).poll(now).await.unwrap();
        assert_eq!((jobs.time, jobs.known_at().timestamp()), (now, 1_000));
    }
}

//! Files that hold secrets.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::regular;
use crate::model::FileError;

/// No secret is longer.
const LIMIT: u64 = 1 << 20;

/// Reads a file that belongs to root or to the user of this process and that nobody else can read.
///
/// # Errors
/// If it is not such a file.
pub fn read(path: &Path) -> Result<String, FileError> {
    let failed = FileError::io(path);
    let mut file = regular::open(path).map_err(failed)?;
    // Of the open file: what is checked is what is read.
    let found = file.metadata().map_err(failed)?;
    if let Some(reason) = regular::strange_owner(&found) {
        return Err(FileError::refused(path, reason));
    }
    if found.mode() & 0o077 != 0 {
        let reason = format!("its mode is {:o}, it must be 600", found.mode() & 0o777);
        return Err(FileError::refused(path, reason));
    }
    let mut text = String::new();
    (&mut file).take(LIMIT).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_a_closed_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        assert!(matches!(read(&path), Err(FileError::Io { .. })));
        std::fs::write(&path, "abc\n").unwrap();
        for (mode, good) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o620, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            match read(&path) {
                Ok(text) => assert!(good && text == "abc\n", "{mode:o}"),
                Err(error) => assert!(!good && error.to_string().contains(&format!("{mode:o}")), "{error}"),
            }
        }
        assert!(matches!(read(dir.path()), Err(FileError::Refused { .. } | FileError::Io { .. })));
    }
}

//! The file itself, which is written on a full disk, too.

use std::io::{self, Write};
use std::path::Path;

use super::{HEALTH_FILE, Health};
use crate::model::FileError;
use crate::service::file;

impl Health {
    /// Reads the file of a state directory; `None` if there is none yet.
    ///
    /// # Errors
    /// If it cannot be read or is not what it should be.
    pub fn read(state: &Path) -> Result<Option<Self>, FileError> {
        file::read(state.join(HEALTH_FILE))
    }

    /// Writes the file of a state directory: by rename, or, on a full disk, into the blocks that
    /// the old one has.
    ///
    /// # Errors
    /// If neither works.
    pub fn write(&self, state: &Path) -> Result<(), FileError> {
        let path = state.join(HEALTH_FILE);
        let failed = |source| FileError::Io { path: path.clone(), source };
        let mut text = serde_json::to_string_pretty(self).map_err(|e| failed(e.into()))?;
        // Room for a longer message in the blocks of this file.
        let padding = (text.len() / BLOCK + 2) * BLOCK - text.len() - 1;
        text.extend(std::iter::repeat_n(' ', padding));
        text.push('\n');
        let new = state.join(format!("{HEALTH_FILE}.new"));
        let replaced = std::fs::write(&new, &text).and_then(|()| std::fs::rename(&new, &path));
        if replaced.is_err() {
            // Nothing to be done about what is left: the next writer overwrites it.
            let _ = std::fs::remove_file(&new);
            overwrite(&path, text.trim_end()).map_err(failed)?;
        }
        Ok(())
    }
}

/// A file system's block, at least.
const BLOCK: usize = 4096;

/// Writes a text into an existing file without making it longer or shorter.
fn overwrite(path: &Path, text: &str) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).open(path)?;
    let room = file.metadata()?.len() as usize;
    if text.len() >= room {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let blanks = " ".repeat(room - text.len() - 1);
    file.write_all(format!("{text}{blanks}\n").as_bytes())
}

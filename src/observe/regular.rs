//! Files that somebody else may have put something else in the place of: to open a pipe would wait for its writer.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a file for reading that is one, not a pipe, a device or a directory.
///
/// # Errors
/// If it is not there, or something else.
pub fn open(path: &Path) -> io::Result<std::fs::File> {
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

/// Its bytes.
///
/// # Errors
/// As [`open`], or if it cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_file_is_opened_and_nothing_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        for path in [pipe.as_path(), dir.path(), Path::new("/dev/zero")] {
            assert!(read(path).unwrap_err().to_string().contains("regular file"), "{}", path.display());
        }
        std::fs::write(dir.path().join("file"), "text").unwrap();
        assert_eq!(read(&dir.path().join("file")).unwrap(), b"text");
    }
}

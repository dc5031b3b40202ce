//! Files that somebody else may have put something else in the place of: to open a pipe would wait for its writer.

use std::fs::{Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
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

/// Says that somebody else owns a file: neither root nor the user of this process.
pub(super) fn strange_owner(found: &Metadata) -> Option<String> {
    let own = rustix::process::geteuid().as_raw();
    (![0, own].contains(&found.uid())).then(|| format!("it belongs to user {}", found.uid()))
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

/// Bytes of a fabric or of a list of jobs; none has more.
const MOST: u64 = 1 << 30;

/// Bytes of what is typed at a terminal, or comes from another device.
const MOST_OF_DEVICE: u64 = 1 << 20;

/// The bytes of what a user names: a file, a pipe or a terminal.
///
/// # Errors
/// If it cannot be read, or does not end within a bound.
pub fn read_named(path: &Path) -> io::Result<Vec<u8>> {
    let file = std::fs::File::open(path)?;
    let kind = file.metadata()?.file_type();
    let is_device = kind.is_char_device() || kind.is_block_device();
    read_within(file, if is_device { MOST_OF_DEVICE } else { MOST })
}

/// The bytes of standard input.
///
/// # Errors
/// As [`read_named`].
pub fn read_stdin() -> io::Result<Vec<u8>> {
    read_within(io::stdin().lock(), MOST)
}

fn read_within(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::other(format!("it has more than {} MiB", most >> 20))),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_end_is_refused_and_a_pipe_is_read() {
        let endless = read_named(Path::new("/dev/zero")).unwrap_err().to_string();
        assert_eq!(endless, "it has more than 1 MiB");
        assert_eq!(read_named(Path::new("/dev/null")).unwrap(), b"");
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| std::fs::write(&pipe, "1 n[1-4]").unwrap());
            assert_eq!(read_named(&pipe).unwrap(), b"1 n[1-4]");
        });
    }

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

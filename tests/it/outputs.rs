//! What is written where a device, a link or a file stands already.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};

use crate::program::sarouter;

#[test]
fn devices_and_links_stay_what_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let generate = |out: &str| sarouter(dir.path(), ["fabric", "generate", "kary:2,2", "--out", out]);
    assert_eq!(generate("/dev/null").status.code(), Some(0));
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    assert_eq!(generate("/dev/full").status.code(), Some(2), "no space is left there");
    assert!(fs::metadata("/dev/full").unwrap().file_type().is_char_device());
    let shown = generate("/dev/stdout");
    assert!(String::from_utf8_lossy(&shown.stdout).contains("Switch"), "{shown:?}");

    let [file, link] = ["file", "link"].map(|name| dir.path().join(name));
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    symlink("file", &link).unwrap();
    assert_eq!(generate("link").status.code(), Some(0));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&file).unwrap().contains("Switch"));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing else is left");
}

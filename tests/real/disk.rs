//! The disk under the state directory: full, failing or hanging, it keeps neither OpenSM nor a processor.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use sarouter::lab::generate::generate;
use sarouter::model::Fabric;

use crate::end_to_end::{Mount, fill};
use crate::plugin::routed;
use crate::repair::seen;
use crate::testbed::{Testbed, await_some, run};

/// Who opens an epoch waits while there is a file `hangs` in `SAROUTER_DISK`, and is refused while there is a file `fails`.
/// While there is a file `counts`,
/// it has a byte for each time. While there is a file `ends`, OpenSM's first thread writes no status. With a file `closes`, who
/// still waits when OpenSM closes its log is refused then, and has time to complain.
const DISK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *flag(const char *what)
{
	static _Thread_local char path[2][PATH_MAX];
	char *flag = path[what[0] == 'h'];
	snprintf(flag, PATH_MAX, "%s/%s", getenv("SAROUTER_DISK"), what);
	return flag;
}

static int is(const char *path, const char *what)
{
	return strstr(path, "/current/lft.bin") != NULL && access(flag(what), F_OK) == 0;
}

void closelog(void)
{
	if (access(flag("closes"), F_OK) == 0 && rename(flag("hangs"), flag("fails")) == 0)
		usleep(500000);
}

int open(const char *path, int flags, ...)
{
	va_list rest;
	va_start(rest, flags);
	int mode = va_arg(rest, int);
	va_end(rest);
	while (is(path, "hangs") || (strstr(path, "/opensm-status.") != NULL && access(flag("ends"), F_OK) == 0 && gettid() == getpid()))
		usleep(10000);
	int (*real)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
	int opened = is(path, "counts") ? real(flag("counts"), O_WRONLY | O_APPEND) : -1;
	if (opened >= 0 && (write(opened, ".", 1) < 0 || close(opened) < 0))
		abort();
	errno = EIO;
	return is(path, "fails") ? (errno = EIO, -1) : real(path, flags, mode);
}
"#;

/// Such a disk: its directory, and the variables of who is to have it.
fn disk(how: &str) -> (tempfile::TempDir, Vec<(&'static str, String)>) {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_string();
    fs::write(path("disk.c"), DISK).unwrap();
    run(Command::new("cc").args(["-shared", "-fPIC", "-o", &path("disk.so"), &path("disk.c"), "-ldl"]));
    fs::write(path(how), "").unwrap();
    let variables = vec![("SAROUTER_BED_PRELOAD", path("disk.so")), ("SAROUTER_DISK", path("."))];
    (directory, variables)
}

/// A bed whose OpenSM finds an epoch on such a disk.
fn bed_on(fabric: &Fabric, variables: Vec<(&'static str, String)>) -> Testbed {
    let options = ["--no-slurm", "--no-opensm"];
    let bed = Testbed::with(fabric, &options, variables);
    bed.publish(fabric, &routed(fabric, "sssp"), 1);
    bed.script(&["start", "opensm"]);
    bed
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn an_epoch_that_cannot_be_read_is_read_later() {
    let fabric = generate("fattree:3x4,2").unwrap();
    let (directory, variables) = disk("fails");
    let bed = bed_on(&fabric, variables);
    await_some("a refusal", || (bed.logged("Input/output error") > 0).then_some(()));
    // It is tried again, and said once.
    sleep(Duration::from_secs(11));
    assert_eq!(bed.logged("Input/output error"), 1);
    fs::remove_file(directory.path().join("fails")).unwrap();
    bed.await_epoch(1);
}

/// The thread that ends OpenSM writes nothing itself.
#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn opensm_ends_though_its_own_thread_could_write_no_status() {
    let fabric = generate("fattree:3x4,2").unwrap();
    let (_directory, variables) = disk("ends");
    let bed = bed_on(&fabric, variables);
    bed.await_epoch(1);
    run(Command::new("kill").arg(process(&bed).file_name().unwrap()));
    await_some("its end", || (!process(&bed).join("cwd").exists()).then_some(()));
    bed.await_status("the word of it", |s| !s.running);
}

/// However `errno` was before.
#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn an_epoch_that_breaks_the_format_is_read_once() {
    let fabric = generate("fattree:3x4,2").unwrap();
    let (directory, variables) = disk("counts");
    let bed = bed_on(&fabric, variables);
    bed.await_epoch(1);
    bed.publish_bytes("000002", b"no epoch");
    await_some("a refusal", || (bed.logged("epoch refused") > 0).then_some(()));
    let reads = || fs::read(directory.path().join("counts")).unwrap().len();
    let before = reads();
    sleep(Duration::from_secs(7));
    assert_eq!(reads(), before);
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn opensm_starts_and_ends_beside_a_disk_that_hangs() {
    let fabric = generate("fattree:3x4,2").unwrap();
    let (directory, variables) = disk("hangs");
    let bed = bed_on(&fabric, variables);
    assert_eq!(bed.logged("is not read yet"), 1);
    let flag = directory.path().join("hangs");
    fs::remove_file(&flag).unwrap();
    bed.await_epoch(1);
    fs::write(directory.path().join("closes"), "").unwrap();
    fs::write(flag, "").unwrap();
    bed.publish(&fabric, &routed(&fabric, "nue"), 2);
    // Until the plugin is at it.
    sleep(Duration::from_secs(2));
    run(Command::new("kill").arg(process(&bed).file_name().unwrap()));
    await_some("its end", || (!process(&bed).join("cwd").exists()).then_some(()));
    assert_eq!(bed.logged("Exiting SM"), 1);
    // The plugin's thread came back from the disk when the log was closed: it wrote nowhere.
    assert!(directory.path().join("fails").exists());
    let output = fs::read_to_string(bed.path().join("log/opensm.out")).unwrap();
    assert!(!output.contains("Input/output error"), "{output}");
}

fn process(bed: &Testbed) -> PathBuf {
    Path::new("/proc").join(fs::read_to_string(bed.path().join("run/opensm.pid")).unwrap().trim())
}

/// What OpenSM has used of the processor, in ticks: a hundred a second.
fn ticks(bed: &Testbed) -> u64 {
    let text = fs::read_to_string(process(bed).join("stat")).unwrap();
    let fields: Vec<&str> = text.rsplit_once(") ").unwrap().1.split(' ').collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn a_full_disk_keeps_no_processor_busy() {
    let fabric = generate("fattree:3x4,2").unwrap();
    let mut mounted = None;
    let bed = Testbed::start(&fabric, &["--no-slurm"], Vec::new(), |state| {
        mounted = Some(Mount::small(state));
        fill(&state.join("filler"));
    });
    await_some("a file that cannot be written", || (bed.logged("No space left") > 0).then_some(()));
    let before = ticks(&bed);
    sleep(Duration::from_secs(5));
    let used = ticks(&bed) - before;
    assert!(used < 50, "{used} ticks in 5 s");
    fs::remove_file(bed.state().join("filler")).unwrap();
    await_some("the file of the fabric", || seen(&bed).filter(|f| f.fingerprint() == fabric.fingerprint()));
    drop(bed);
    drop(mounted);
}

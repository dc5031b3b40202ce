//! The interface to Slurm (`spank.h`), by hand: it has not changed in years and needs a few lines.
//!
//! No panic crosses it, and no callback of ours fails but to hold a job.
#![allow(unsafe_code, reason = "Slurm calls C symbols and hands out C strings")]

use std::env;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::io::Write;
use std::os::fd::{FromRawFd, IntoRawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::job::JobDirectory;
use crate::node::{self, Outcome};
use crate::rank_order;
use crate::settings::{Routing, Settings};
use crate::traffic;

type Spank = *mut c_void;

unsafe extern "C" {
    fn spank_get_item(spank: Spank, item: c_int, ...) -> c_int;
    fn spank_setenv(spank: Spank, name: *const c_char, value: *const c_char, overwrite: c_int) -> c_int;
    fn spank_unsetenv(spank: Spank, name: *const c_char) -> c_int;
    fn spank_job_control_setenv(
        spank: Spank,
        name: *const c_char,
        value: *const c_char,
        overwrite: c_int,
    ) -> c_int;
    fn memfd_create(name: *const c_char, flags: c_uint) -> c_int;
    fn spank_option_register(spank: Spank, option: *const SpankOption) -> c_int;
    fn slurm_error(format: *const c_char, ...);
    fn slurm_info(format: *const c_char, ...);
}

/// `S_JOB_ID` of `enum spank_item`.
const JOB_ID: c_int = 2;
/// `S_JOB_ENV`.
const JOB_ENV: c_int = 10;

#[repr(C)]
struct SpankOption {
    name: *const c_char,
    arginfo: *const c_char,
    usage: *const c_char,
    has_arg: c_int,
    val: c_int,
    cb: extern "C" fn(c_int, *const c_char, c_int) -> c_int,
}

// SAFETY: it points at string literals only, and nobody writes it.
unsafe impl Sync for SpankOption {}

static OPTIONS: [SpankOption; 3] = [
    SpankOption {
        name: c"routing".as_ptr(),
        arginfo: c"default|none|require".as_ptr(),
        usage: c"routes made for this job: as the site says, none, or do not start without".as_ptr(),
        has_arg: 1,
        val: 0,
        cb: chosen,
    },
    SpankOption {
        name: c"traffic".as_ptr(),
        arginfo: c"pattern".as_ptr(),
        usage: c"what the job exchanges: ring, alltoall, halo:4x4x2, 3*ring+shift; see sarouter patterns"
            .as_ptr(),
        has_arg: 1,
        val: 0,
        cb: exchanges,
    },
    SpankOption {
        name: c"rank-order".as_ptr(),
        arginfo: c"fabric|list".as_ptr(),
        usage:
            c"ranks of steps in the order that suits the fabric, or in that of Slurm's list (sbatch, salloc)"
                .as_ptr(),
        has_arg: 1,
        val: 0,
        cb: ordered,
    },
];

/// What Slurm asks a plugin: its name.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "Slurm's name")]
pub static plugin_name: [u8; 9] = *b"sarouter\0";
/// Its kind.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "Slurm's name")]
pub static plugin_type: [u8; 6] = *b"spank\0";
/// The version of Slurm it is for.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "Slurm's name")]
pub static plugin_version: c_uint = version(env!("SLURM_VERSION_NUMBER"));
/// The same for whoever reads the file: `sarouter doctor`.
#[used]
static BUILT_FOR: &str = concat!("sarouter-spank for Slurm number ", env!("SLURM_VERSION_NUMBER"), ";");
/// Its own version.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "Slurm's name")]
pub static spank_plugin_version: c_uint = 1;

const fn version(digits: &str) -> c_uint {
    match c_uint::from_str_radix(digits, 10) {
        Ok(number) => number,
        Err(_) => 0,
    }
}

/// A user's word, if the option was used.
type Said = Mutex<Option<String>>;
/// Of `--routing`.
static CHOSEN: Said = Mutex::new(None);
/// Of `--traffic`.
static TRAFFIC: Said = Mutex::new(None);

/// Of `--rank-order`.
static ORDER: Said = Mutex::new(None);
/// What plugstack.conf says, in srun inside a job.
static STEP: Mutex<Option<Settings>> = Mutex::new(None);
/// Whether this srun reads an order of ours.
static IN_ORDER: AtomicBool = AtomicBool::new(false);

/// What Slurm passes to an option's callback.
fn argument(word: *const c_char) -> String {
    // SAFETY: Slurm passes a C string or null.
    let word = (!word.is_null()).then(|| unsafe { CStr::from_ptr(word) }.to_string_lossy().into_owned());
    word.unwrap_or_default()
}

fn said(option: &Said) -> Option<String> {
    option.lock().unwrap_or_else(|e| e.into_inner()).clone()
}

fn say(option: &Said, word: String) -> c_int {
    *option.lock().unwrap_or_else(|e| e.into_inner()) = Some(word);
    0
}

extern "C" fn exchanges(_val: c_int, word: *const c_char, _remote: c_int) -> c_int {
    guarded(|| {
        let word = argument(word);
        match traffic::check(&word) {
            Ok(()) => say(&TRAFFIC, word),
            Err(why) => {
                error(&format!("--traffic={}: {why}", word.escape_debug()));
                -1
            }
        }
    })
}

extern "C" fn chosen(_val: c_int, word: *const c_char, remote: c_int) -> c_int {
    guarded(|| {
        let word = argument(word);
        if Routing::parse(&word).is_none() {
            error(&format!("--routing={}: wants default, none or require", word.escape_debug()));
            return -1;
        }
        if remote == 0 && word == "require" && cannot_wait() {
            error(
                "--routing=require: only for sbatch, as what srun and salloc ask for cannot go back into the queue",
            );
            return -1;
        }
        say(&CHOSEN, word)
    })
}

extern "C" fn ordered(_val: c_int, word: *const c_char, remote: c_int) -> c_int {
    guarded(|| {
        let word = argument(word);
        let is_srun = remote == 0 && program() == "srun";
        match word.as_str() {
            "fabric" if is_srun && env::var_os("SLURM_JOB_ID").is_none() => {
                error(
                    "--rank-order=fabric: only for sbatch and salloc, as srun wants the order before it has nodes: \
                     salloc --rank-order=fabric … srun PROGRAM",
                );
                return -1;
            }
            "fabric" if is_srun => put_in_order(false),
            "list" if is_srun && IN_ORDER.swap(false, Relaxed) => forget_order(),
            "fabric" | "list" => {}
            _ => {
                error(&format!("--rank-order={}: wants fabric or list", word.escape_debug()));
                return -1;
            }
        }
        say(&ORDER, word)
    })
}

/// Has this srun put its ranks in the order found for the job, unless it says where they go. `early`: srun has not
/// yet read its environment.
fn put_in_order(early: bool) {
    static TRIED: AtomicBool = AtomicBool::new(false);
    if TRIED.swap(true, Relaxed) {
        return;
    }
    let Some(settings) = STEP.lock().unwrap_or_else(|e| e.into_inner()).clone() else { return };
    let words: Vec<String> = env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let variable = |name: &str| env::var(name).ok();
    let job = variable("SLURM_JOB_ID").and_then(|id| id.parse().ok()).unwrap_or_default();
    let found =
        JobDirectory::open(&settings.state, job, Duration::ZERO).and_then(|directory| directory.order());
    let found = found.and_then(|nodes| nodes.ok_or("no order was found for the job".into()));
    let ordered = found.and_then(|nodes| rank_order::order(&words, variable, &nodes));
    let ordered = ordered.and_then(|ordered| match ordered.tasks {
        Some(tasks) if !early && tasks != ordered.nodes => Err("--ntasks is not given".to_string()),
        tasks => Ok((held_file(&ordered.hostfile).map_err(|e| e.to_string())?, tasks)),
    });
    match ordered {
        Ok((path, tasks)) => {
            // SAFETY: srun has no other thread yet.
            unsafe {
                env::set_var("SLURM_HOSTFILE", path);
                if let Some(tasks) = tasks.filter(|_| early) {
                    env::set_var("SLURM_NTASKS", tasks.to_string());
                }
            }
            IN_ORDER.store(true, Relaxed);
        }
        Err(why) => info(&format!("the ranks of this step stay in Slurm's order: {why}")),
    }
}

/// srun has read it, or shall not.
fn forget_order() {
    // SAFETY: srun has no other thread yet.
    unsafe { env::remove_var("SLURM_HOSTFILE") };
}

/// A file that lives as long as this process and needs no place.
fn held_file(text: &str) -> std::io::Result<String> {
    // SAFETY: a C string; the number is a file of our own from here on.
    let file = unsafe {
        match memfd_create(c"sarouter".as_ptr(), 1) {
            -1 => return Err(std::io::Error::last_os_error()),
            number => std::fs::File::from_raw_fd(number),
        }
    };
    (&file).write_all(text.as_bytes())?;
    Ok(format!("/proc/self/fd/{}", file.into_raw_fd()))
}

/// This program's name.
fn program() -> String {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    name.trim().to_string()
}

/// Whether this program asks for nodes and waits for them itself. A step inside a job asks for none.
fn cannot_wait() -> bool {
    match program().as_str() {
        "salloc" => true,
        "srun" => env::var_os("SLURM_JOB_ID").is_none(),
        _ => false,
    }
}

/// Registers the options: sbatch and salloc heed no table.
#[unsafe(no_mangle)]
pub extern "C" fn slurm_spank_init(spank: Spank, ac: c_int, av: *const *const c_char) -> c_int {
    for option in &OPTIONS {
        // SAFETY: the option lives as long as the program. A context without options refuses: no fault.
        let _ = guarded(|| unsafe { spank_option_register(spank, option) });
    }
    guarded(|| {
        // srun reads an order before it asks plugins for anything but this.
        if program() == "srun" && env::var_os("SLURM_JOB_ID").is_some() {
            *STEP.lock().unwrap_or_else(|e| e.into_inner()) = settings(ac, av);
            if env::var("SLURM_SPANK_SAROUTER_RANK_ORDER").is_ok_and(|word| word == "fabric") {
                put_in_order(true);
            }
        }
        0
    })
}

/// In sbatch, salloc and srun: tells the prologs, as `SPANK_ROUTING` and so on; sbatch and salloc thereby tell srun
/// inside the job too, as `SLURM_SPANK_…`.
#[unsafe(no_mangle)]
pub extern "C" fn slurm_spank_init_post_opt(spank: Spank, _ac: c_int, _av: *const *const c_char) -> c_int {
    guarded(|| {
        // What tasks start has no such file.
        if IN_ORDER.load(Relaxed) {
            forget_order();
        }
        let all = [(c"ROUTING", &CHOSEN), (c"SAROUTER_TRAFFIC", &TRAFFIC), (c"SAROUTER_RANK_ORDER", &ORDER)];
        for (name, option) in all {
            if let Some(word) = said(option).and_then(|word| CString::new(word).ok()) {
                // SAFETY: C strings that outlive the call. In slurmstepd it is refused: no fault.
                unsafe { spank_job_control_setenv(spank, name.as_ptr(), word.as_ptr(), 1) };
            }
        }
        0
    })
}

/// Before the job, on each node, as root.
#[unsafe(no_mangle)]
pub extern "C" fn slurm_spank_job_prolog(spank: Spank, ac: c_int, av: *const *const c_char) -> c_int {
    guarded(|| {
        let (Some(settings), Some(job)) = (settings(ac, av), job_id(spank)) else { return 0 };
        let node = node_name();
        let outcome = node::prolog(&settings, told(), job, &node);
        let text = outcome.text(job, &node);
        match outcome {
            Outcome::Installed(_) | Outcome::Nothing(_) => info(&text),
            Outcome::Started(_) => error(&text),
            Outcome::Held(_) => {
                error(&text);
                // A plugin that plugstack.conf calls optional may not fail, and one that it calls
                // required stops every job when its file is missing. This process runs nothing but
                // the prologs of plugins: its end is the prolog's failure.
                std::process::exit(1);
            }
        }
        0
    })
}

/// After the job, on each node, as root.
#[unsafe(no_mangle)]
pub extern "C" fn slurm_spank_job_epilog(spank: Spank, ac: c_int, av: *const *const c_char) -> c_int {
    guarded(|| {
        let (Some(settings), Some(job)) = (settings(ac, av), job_id(spank)) else { return 0 };
        let node = node_name();
        if let Err(why) = node::epilog(&settings, told(), job, &node) {
            error(&format!("job {job} on {node}: the table is not removed: {why}"));
        }
        0
    })
}

/// In slurmstepd, as the user, before the tasks.
#[unsafe(no_mangle)]
pub extern "C" fn slurm_spank_user_init(spank: Spank, ac: c_int, av: *const *const c_char) -> c_int {
    guarded(|| {
        let (Some(settings), Some(job)) = (settings(ac, av), job_id(spank)) else { return 0 };
        let routing = said(&CHOSEN).and_then(|word| Routing::parse(&word)).unwrap_or(Routing::Default);
        for name in node::inherited(&settings, job, &variables(spank)) {
            if let Ok(name) = CString::new(name) {
                // SAFETY: a C string that outlives the call.
                unsafe { spank_unsetenv(spank, name.as_ptr()) };
            }
        }
        match node::environment(&settings, routing, job) {
            Ok(variables) => {
                for variable in variables {
                    let (name, value) = (CString::new(variable.name), CString::new(variable.value));
                    if let (Ok(name), Ok(value)) = (name, value) {
                        // SAFETY: C strings that outlive the call, which copies them.
                        unsafe {
                            spank_setenv(spank, name.as_ptr(), value.as_ptr(), variable.overwrite.into())
                        };
                    }
                }
            }
            Err(why) => info(&format!("job {job}: no service level: {why}")),
        }
        0
    })
}

/// The variables of the tasks.
fn variables(spank: Spank) -> Vec<(String, String)> {
    let mut all: *const *const c_char = std::ptr::null();
    // SAFETY: `S_JOB_ENV` is asked with the address of a list of C strings, which ends with a null pointer.
    let error = unsafe { spank_get_item(spank, JOB_ENV, &raw mut all) };
    let mut found = Vec::new();
    let mut at = 0;
    while error == 0 && !all.is_null() {
        // SAFETY: nothing behind the null pointer is looked at.
        let line = unsafe { *all.add(at) };
        if line.is_null() {
            break;
        }
        // SAFETY: a C string, which nobody changes meanwhile.
        let line = unsafe { CStr::from_ptr(line) }.to_string_lossy();
        found.extend(line.split_once('=').map(|(name, value)| (name.to_string(), value.to_string())));
        at += 1;
    }
    found
}

/// A panic of ours is not Slurm's.
fn guarded(run: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(0)
}

/// The words after the plugin's name in plugstack.conf.
fn settings(ac: c_int, av: *const *const c_char) -> Option<Settings> {
    let word = |i: c_int| {
        // SAFETY: Slurm passes `ac` C strings.
        unsafe { CStr::from_ptr(*av.add(i as usize)) }.to_string_lossy().into_owned()
    };
    let words: Vec<String> = (0..ac).map(word).collect();
    let parsed = Settings::parse(words.iter().map(String::as_str));
    parsed.map_err(|why| error(&format!("plugstack.conf: {why}; nothing is done"))).ok()
}

fn job_id(spank: Spank) -> Option<u32> {
    let mut job = 0u32;
    // SAFETY: this item is a uint32_t.
    let code = unsafe { spank_get_item(spank, JOB_ID, &raw mut job) };
    if code != 0 {
        error(&format!("Slurm does not say which job this is: error {code}; nothing is done"));
    }
    (code == 0).then_some(job)
}

/// What `--routing` said, in a prolog or epilog.
fn told() -> Routing {
    env::var("SPANK_ROUTING").ok().and_then(|word| Routing::parse(&word)).unwrap_or(Routing::Default)
}

/// Slurm's name of this node; without it the host's, short.
fn node_name() -> String {
    env::var("SLURMD_NODENAME").unwrap_or_else(|_| {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        host.trim().split('.').next().unwrap_or_default().to_string()
    })
}

fn error(text: &str) {
    if let Ok(text) = CString::new(format!("sarouter: {text}")) {
        // SAFETY: the format takes one C string.
        unsafe { slurm_error(c"%s".as_ptr(), text.as_ptr()) };
    }
}

fn info(text: &str) {
    if let Ok(text) = CString::new(format!("sarouter: {text}")) {
        // SAFETY: the format takes one C string.
        unsafe { slurm_info(c"%s".as_ptr(), text.as_ptr()) };
    }
}

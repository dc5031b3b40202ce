//! The interface to Slurm (`spank.h`), by hand: it has not changed in years and needs a few lines.
//!
//! No panic crosses it, and no callback of ours fails but to hold a job.
#![allow(unsafe_code, reason = "Slurm calls C symbols and hands out C strings")]

use std::env;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use crate::node::{self, Outcome};
use crate::settings::{Routing, Settings};
use crate::traffic;

type Spank = *mut c_void;

unsafe extern "C" {
    fn spank_get_item(spank: Spank, item: c_int, ...) -> c_int;
    fn spank_setenv(spank: Spank, name: *const c_char, value: *const c_char, overwrite: c_int) -> c_int;
    fn spank_job_control_setenv(
        spank: Spank,
        name: *const c_char,
        value: *const c_char,
        overwrite: c_int,
    ) -> c_int;
    fn spank_option_register(spank: Spank, option: *const SpankOption) -> c_int;
    fn slurm_error(format: *const c_char, ...);
    fn slurm_info(format: *const c_char, ...);
}

/// `S_JOB_ID` of `enum spank_item`.
const JOB_ID: c_int = 2;

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

static OPTIONS: [SpankOption; 2] = [
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

/// Whether this program asks for nodes and waits for them itself. A step inside a job asks for none.
fn cannot_wait() -> bool {
    let program = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    match program.trim() {
        "salloc" => true,
        "srun" => env::var_os("SLURM_JOB_ID").is_none(),
        _ => false,
    }
}

/// Registers the options: sbatch and salloc heed no table.
#[unsafe(no_mangle)]
pub extern "C" fn slurm_spank_init(spank: Spank, _ac: c_int, _av: *const *const c_char) -> c_int {
    for option in &OPTIONS {
        // SAFETY: the option lives as long as the program. A context without options refuses: no fault.
        let _ = guarded(|| unsafe { spank_option_register(spank, option) });
    }
    0
}

/// In sbatch, salloc and srun: tells the prologs, as `SPANK_ROUTING` and `SPANK_SAROUTER_TRAFFIC`.
#[unsafe(no_mangle)]
pub extern "C" fn slurm_spank_init_post_opt(spank: Spank, _ac: c_int, _av: *const *const c_char) -> c_int {
    guarded(|| {
        for (name, option) in [(c"ROUTING", &CHOSEN), (c"SAROUTER_TRAFFIC", &TRAFFIC)] {
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

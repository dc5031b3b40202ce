//! What subcommands share.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::config::{Settings, Site};
use crate::model::shown_lines;

/// The answer of a command that worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Exit 0.
    Yes,
    /// Exit 1: rejected, would change, not healthy.
    No,
}

/// The tool failed: exit 2.
pub type Failure = Box<dyn std::error::Error + Send + Sync + 'static>;

/// What is named twice would count twice.
pub fn need_different<T: PartialEq + Display>(option: &str, named: &[T]) -> Result<(), Failure> {
    match named.iter().enumerate().find(|(n, one)| named[..*n].contains(one)) {
        Some((_, twice)) => Err(format!("{option}: {twice} is named twice").into()),
        None => Ok(()),
    }
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs: JSON alone on stdout.
    Json,
}

/// Options every command has.
#[derive(Debug, Clone)]
pub struct Context {
    /// Output format.
    pub format: Format,
    /// Settings file, if given.
    pub config: Option<PathBuf>,
    /// Which of several fabrics, if given.
    pub fabric_name: Option<String>,
}

impl Context {
    /// The settings of the fabric that is meant.
    pub fn settings(&self) -> Result<Settings, Failure> {
        Ok(Site::load(self.config.as_deref())?.only(self.fabric_name.as_deref())?)
    }

    /// The same, or the defaults where nothing is installed.
    pub fn settings_or_default(&self) -> Result<Settings, Failure> {
        Ok(self.site_or_default()?.only(self.fabric_name.as_deref())?)
    }

    /// All that the settings file says.
    pub fn site(&self) -> Result<Site, Failure> {
        Ok(Site::load(self.config.as_deref())?)
    }

    /// The same, or the defaults where nothing is installed.
    pub fn site_or_default(&self) -> Result<Site, Failure> {
        Ok(Site::load_or_default(self.config.as_deref())?)
    }

    /// The same past mistakes in it, which are told: for what must work while the service goes on by what it read before.
    pub fn site_past_mistakes(&self) -> Result<Site, Failure> {
        let (site, mistake) = Site::load_past_mistakes(self.config.as_deref())?;
        if let Some(mistake) = mistake {
            eprintln!("sarouter: {mistake}; the rest of the settings is followed");
        }
        Ok(site)
    }

    /// A bar on a terminal, with the time left, for so many steps that are called `what`; none beside JSON.
    pub fn bar(&self, steps: usize, what: &'static str) -> ProgressBar {
        if self.format == Format::Json {
            return ProgressBar::hidden();
        }
        let style =
            ProgressStyle::with_template("{elapsed} {wide_bar} {human_pos} of {human_len} {msg}, {eta} left");
        let bar = ProgressBar::new(steps as u64).with_message(what);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        // One long step is seen to be alive.
        bar.enable_steady_tick(Duration::from_millis(500));
        bar
    }

    /// # Errors
    /// If JSON is asked for, which alone would be printed then, and this has none.
    pub fn no_json(&self, what: &str) -> Result<(), Failure> {
        match self.format {
            Format::Text => Ok(()),
            Format::Json => Err(format!("{what} prints no JSON: leave out --format json").into()),
        }
    }

    /// Prints a result: in words, or as JSON where that is asked for.
    pub fn print<T: Serialize + ?Sized>(
        &self,
        result: &T,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Text => print(text().trim_end()),
            Format::Json => print(&serde_json::to_string_pretty(result)?),
        }
    }

    /// The answer is no, and these are the words: JSON where that is asked for.
    pub fn no(&self, text: &str) -> Result<Answer, Failure> {
        match self.format {
            Format::Text => print(text)?,
            Format::Json => print(&serde_json::json!({ "error": text }).to_string())?,
        }
        Ok(Answer::No)
    }
}

/// How much less of something there is, in percent with so many digits after the point; `None`: as much.
pub fn less(before: f64, after: f64, digits: usize) -> Option<String> {
    let gain = 100.0 * (1.0 - after / before);
    match gain.abs() < 0.5 / 10f64.powi(digits as i32) {
        true => None,
        false if gain > 0.0 => Some(format!("{gain:.digits$} % less")),
        false => Some(format!("{:.digits$} % more", -gain)),
    }
}

/// How long exchanges take beside before, with one digit: words that what they are compared with follows.
pub fn time_than(before: f64, after: f64) -> String {
    less(before, after, 1).map_or("as long as".to_string(), |words| words + " time than")
}

/// [`less`] of what there is now.
pub fn less_now(before: f64, now: f64, digits: usize) -> String {
    less(before, now, digits).map_or("as much".to_string(), |words| words + " now")
}

/// Columns of a terminal that every text for people should fit.
const COLUMNS: usize = 80;

/// A list with commas, broken behind these where [`COLUMNS`] end. Further lines begin at column `indent`, as the
/// first one does.
pub fn wrapped(list: &str, indent: usize) -> String {
    broken(list, indent, ',')
}

/// The same of words, broken between any two of them.
pub fn wrapped_words(text: &str, indent: usize) -> String {
    broken(text, indent, ' ')
}

fn broken(text: &str, indent: usize, behind: char) -> String {
    let (mut out, mut column) = (String::new(), indent);
    for piece in text.split_inclusive(behind) {
        let (words, length) = (piece.trim_start(), piece.chars().count());
        if column + piece.trim_end().chars().count() > COLUMNS && column > indent {
            out.truncate(out.trim_end().len());
            out.push_str(&format!("\n{:indent$}{words}", ""));
            column = indent + words.chars().count();
        } else {
            out.push_str(piece);
            column += length;
        }
    }
    out
}

/// Writes to standard output. A reader that has seen enough (`| head`) is no failure.
fn put(text: &str) -> Result<(), String> {
    SAID.store(true, Ordering::Relaxed);
    match io::stdout().write_all(shown_lines(text).as_bytes()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(format!("standard output: {e}")),
        _ => Ok(()),
    }
}

/// Prints a text and ends the line.
pub fn print(text: &str) -> Result<(), Failure> {
    Ok(put(&format!("{text}\n"))?)
}

/// Whether anything was printed: what follows is then no JSON of its own.
static SAID: AtomicBool = AtomicBool::new(false);

/// Whether standard output has something already.
pub fn has_said() -> bool {
    SAID.load(Ordering::Relaxed)
}

/// What `print!` and `println!` of the commands do: where nothing can be written, the command ends with 2.
pub fn say(text: std::fmt::Arguments<'_>) {
    if let Err(error) = put(&text.to_string()) {
        eprintln!("sarouter: {error}");
        std::process::exit(2);
    }
}

/// What `eprintln!` of the commands does: what went wrong may quote what others wrote.
pub fn complain(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{}", shown_lines(&text.to_string()));
}

/// [`write_file_with`] for what is in memory.
///
/// # Errors
/// As there.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    write_file_with(path, |to| to.write_all(bytes))
}

/// [`write_file`] of a value as JSON.
///
/// # Errors
/// As there.
pub fn write_json(path: &Path, value: &(impl Serialize + ?Sized)) -> Result<(), Failure> {
    write_file(path, (serde_json::to_string_pretty(value)? + "\n").as_bytes())
}

/// Writes a file so that its path has the old content or the new, never a part: a new file beside
/// it, forced to disk, takes its place, with the mode of the old one. Links stay. Devices and pipes are written to.
///
/// # Errors
/// With the path; the old file then stands and no other is left.
pub fn write_file_with(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), Failure> {
    let failed = |e: io::Error| format!("{}: {e}", path.display());
    if is_no_file(path) {
        let write = || content_to(File::options().append(true).open(path)?, content);
        return write().map(drop).map_err(|e| failed(e).into());
    }
    let old = fs::metadata(path).ok();
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let (beside, new) = open_beside(path, &target)?;
    let write = || -> io::Result<()> {
        if let Some(old) = old {
            new.set_permissions(old.permissions())?;
        }
        content_to(new, content)?.sync_all()?;
        fs::rename(&beside, &target)?;
        File::open(directory(&target))?.sync_all()
    };
    write().map_err(|e| {
        let _ = fs::remove_file(&beside);
        failed(e).into()
    })
}

/// Whether [`write_file`] can write there, asked before work that takes long. Devices and pipes are not tried: who reads
/// from one would see its end.
///
/// # Errors
/// With the path. Nothing is left there in any case.
pub fn need_writable(path: &Path) -> Result<(), Failure> {
    if path.is_dir() {
        return Err(format!("{}: it is a directory", path.display()).into());
    }
    if is_no_file(path) {
        return Ok(());
    }
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let (beside, _) = open_beside(path, &target)?;
    Ok(fs::remove_file(beside)?)
}

/// Devices and pipes have nothing beside them.
fn is_no_file(path: &Path) -> bool {
    ["/dev", "/proc"].iter().any(|root| path.starts_with(root))
        || fs::metadata(path).is_ok_and(|old| !old.is_file())
}

fn directory(target: &Path) -> &Path {
    target.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A new file in the directory of one that is to be replaced.
fn open_beside(path: &Path, target: &Path) -> Result<(PathBuf, File), Failure> {
    let name = target.file_name().ok_or_else(|| format!("{} is not a file name", path.display()))?;
    let beside = directory(target).join(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    match File::options().write(true).create_new(true).open(&beside) {
        Ok(new) => Ok((beside, new)),
        Err(e) => Err(format!("{}: {e}", path.display()).into()),
    }
}

fn content_to(file: File, content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<File> {
    let mut to = BufWriter::with_capacity(1 << 16, file);
    content(&mut to)?;
    to.into_inner().map_err(io::IntoInnerError::into_error)
}

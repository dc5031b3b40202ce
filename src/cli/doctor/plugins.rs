//! Our plugins inside Slurm: those in the controller are in [`selection`], here is what is on the nodes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Check, EXAMPLES, PLUGINS, selection, some};
use crate::config::Settings;
use crate::service::kind::direct;

/// What `scontrol show config` says, without what is not set.
pub(super) type Values<'a> = BTreeMap<String, &'a str>;

/// In front of Slurm's version, as Slurm counts it, in our file.
const SPANK_MARK: &[u8] = b"sarouter-spank for Slurm number ";
/// Name of the nodes' plugin in our package.
const SPANK_FILE: &str = "spank_sarouter.so";

/// Checks of what is installed or asked for; all plugins are opt-in.
pub(super) fn checks(settings: &Settings, values: &Values<'_>) -> Vec<Check> {
    let value = |key: &str| values.get(key).copied();
    let site = Site {
        settings,
        version: value("SLURM_VERSION").unwrap_or(""),
        directories: value("PluginDir").unwrap_or("").split(':').map(PathBuf::from).collect(),
        torus: direct::source(settings).is_some(),
    };
    let mut found = Vec::new();
    found.extend(selection::checks(&site, values));
    let conf = value("SLURM_CONF").map(|conf| Path::new(conf).with_file_name("plugstack.conf"));
    if let Some(conf) = value("PlugStackConfig").map(PathBuf::from).or(conf) {
        found.extend(site.spank(&conf));
    }
    if site.torus {
        found.push(prolog_flags(value("PrologFlags").unwrap_or("")));
    }
    found
}

/// The text behind a mark in a file; `None` if it is not in it, or nobody can read it.
pub(super) fn marked(path: &Path, mark: &[u8]) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    let at = bytes.windows(mark.len()).position(|w| w == mark)? + mark.len();
    let end = bytes[at..].iter().position(|b| !(b.is_ascii_digit() || *b == b'.'))?;
    String::from_utf8(bytes[at..at + end].to_vec()).ok()
}

/// What is to be checked: our settings beside what Slurm says of itself.
pub(super) struct Site<'a> {
    pub(super) settings: &'a Settings,
    /// Slurm's version, empty if it does not say.
    pub(super) version: &'a str,
    directories: Vec<PathBuf>,
    torus: bool,
}

impl Site<'_> {
    /// The first file of this name, as Slurm finds it.
    pub(super) fn plugin(&self, name: &str) -> Option<PathBuf> {
        self.directories.iter().map(|dir| dir.join(name)).find(|path| path.is_file())
    }

    fn spank(&self, conf: &Path) -> Option<Check> {
        const NAME: &str = "SPANK";
        let shown = conf.display();
        let example = format!("the line of plugstack.conf in {EXAMPLES}, on submit hosts and nodes");
        let Some(line) = spank_line(conf) else {
            let found = format!("no line of {shown} names us: tables do not reach the nodes");
            return self.torus.then(|| Check::fix(NAME, found, example));
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        let file = match Path::new(words[1]) {
            path if path.is_absolute() => Some(path.to_path_buf()).filter(|path| path.is_file()),
            _ => self.plugin(words[1]),
        };
        let Some(file) = file else {
            let found = format!("{shown} names {}, which is not there", words[1]);
            return Some(Check::fix(NAME, found, "install the package on submit hosts and nodes"));
        };
        if words[0] != "optional" {
            let found = format!("{shown} says {}: where the file is missing, every job is refused", words[0]);
            return Some(Check::fix(NAME, found, format!("optional {}", words[1..].join(" "))));
        }
        let number: Option<u32> = marked(&file, SPANK_MARK).and_then(|digits| digits.parse().ok());
        let built_for = number.map(|n| format!("{}.{:02}", n >> 16, n >> 8 & 0xff));
        if !built_for.as_ref().is_some_and(|v| self.version.starts_with(&format!("{v}."))) {
            let known = built_for.map_or("an unknown version of Slurm".into(), |v| format!("Slurm {v}"));
            let found = format!("{} is for {known}, running is {}", file.display(), self.version);
            let fix = format!("build it for this version: README.md in {PLUGINS} says how");
            return Some(Check::fix(NAME, found, fix));
        }
        if self.torus && !words.iter().any(|w| w.starts_with("sink=")) {
            return Some(Check::fix(NAME, "no sink=: tables are checked and dropped", example));
        }
        Some(Check::good(NAME, format!("{} {}", file.display(), words[2..].join(" "))))
    }
}

/// The line that names our plugin, the files that are included searched too.
fn spank_line(conf: &Path) -> Option<String> {
    let text = std::fs::read_to_string(conf).ok()?;
    for line in text.lines().map(|l| l.split('#').next().unwrap_or("").trim()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["include", pattern] => {
                let found = included(conf, pattern).iter().find_map(|path| spank_line(path));
                if found.is_some() {
                    return found;
                }
            }
            [_, file, ..] if file.ends_with(SPANK_FILE) || file.ends_with("/libsarouter.so") => {
                return Some(line.to_string());
            }
            _ => {}
        }
    }
    None
}

/// The files of an `include`; a `*` stands in the last part only. Ascending.
fn included(conf: &Path, pattern: &str) -> Vec<PathBuf> {
    let pattern = conf.parent().unwrap_or(Path::new("/")).join(pattern);
    let name = pattern.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let Some((before, after)) = name.split_once('*') else {
        // Not itself, for ever.
        return if pattern == conf { Vec::new() } else { vec![pattern] };
    };
    let entries = pattern.parent().and_then(|dir| std::fs::read_dir(dir).ok()).into_iter().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|path| path.as_path() != conf)
        .filter(|path| {
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            name.starts_with(before) && name.ends_with(after) && name.len() >= before.len() + after.len()
        })
        .collect();
    found.sort();
    found
}

fn prolog_flags(flags: &str) -> Check {
    const NAME: &str = "PrologFlags";
    let missing: Vec<&str> =
        ["Alloc", "DeferBatch"].into_iter().filter(|f| !flags.split(',').any(|g| g == *f)).collect();
    match missing.is_empty() {
        true => Check::good(NAME, flags),
        false => Check::fix(
            NAME,
            format!("{} missing: a task may start before every node has its table", some(&missing)),
            "PrologFlags=Alloc,DeferBatch in slurm.conf",
        ),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A site in a directory: two plugin directories, settings, and what Slurm says.
    pub(in crate::cli::doctor) struct Bed(tempfile::TempDir);

    impl Bed {
        pub(in crate::cli::doctor) fn new() -> Self {
            let bed = Self(tempfile::tempdir().unwrap());
            for dir in ["ours", "stock", "slurm"] {
                std::fs::create_dir(bed.0.path().join(dir)).unwrap();
            }
            for name in ["select_cons_tres", "topology_tree", "topology_block"] {
                bed.write(&format!("stock/{name}.so"), "\x7fELF stock\0");
            }
            bed.write("torus.toml", "sizes = [2, 2]\n");
            bed
        }
        pub(in crate::cli::doctor) fn write(&self, name: &str, text: &str) {
            std::fs::write(self.0.path().join(name), text).unwrap();
        }
        pub(in crate::cli::doctor) fn with(&self, settings: &str, more: &str) -> Vec<Check> {
            let dir = self.0.path();
            let settings = Settings::parse(settings, &dir.join("sarouter.toml")).unwrap();
            let d = dir.display();
            let text = format!(
                "SLURM_VERSION=22.05.8\nSLURM_CONF={d}/slurm/slurm.conf\nPluginDir={d}/ours:{d}/stock\n\
                 SelectType=select/cons_tres\nTopologyPlugin=topology/tree\nSlurmUser=root(0)\n{more}"
            );
            let values = text.lines().filter_map(|l| l.split_once('='));
            checks(&settings, &values.map(|(k, v)| (k.to_string(), v)).collect())
        }
        /// Names and findings of what is wrong.
        pub(in crate::cli::doctor) fn wrong(&self, settings: &str, more: &str) -> Vec<String> {
            let checks = self.with(settings, more);
            checks.iter().filter(|c| !c.good).map(|c| format!("{}: {}", c.name, c.found)).collect()
        }
    }

    pub(in crate::cli::doctor) fn assert_one(wrong: &[String], name: &str, word: &str) {
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].starts_with(name) && wrong[0].contains(word), "{wrong:?}");
    }

    #[test]
    fn what_is_wrong_on_the_nodes_is_named() {
        let bed = Bed::new();
        const TORUS: &str = "[fabric]\nsource = \"torus.toml\"";
        const FLAGS: &str = "PrologFlags=Alloc,DeferBatch,X11\n";
        assert_one(&bed.wrong(TORUS, FLAGS), "SPANK", "no line of");
        let line = |text: &str| bed.write("slurm/plugstack.conf", text);
        line("# optional spank_sarouter.so\ninclude plugstack.conf.d/*.conf\n");
        assert_one(&bed.wrong(TORUS, FLAGS), "SPANK", "no line of");
        std::fs::create_dir(bed.0.path().join("slurm/plugstack.conf.d")).unwrap();
        bed.write("slurm/plugstack.conf.d/a.conf", "optional spank_sarouter.so sink=file:/x\n");
        assert_one(&bed.wrong(TORUS, FLAGS), "SPANK", "which is not there");
        bed.write("stock/spank_sarouter.so", "\x7fELF\0sarouter-spank for Slurm number 1443080;\0");
        assert_eq!(bed.wrong(TORUS, FLAGS), [""; 0]);
        assert_one(&bed.wrong(TORUS, "PrologFlags=Alloc\n"), "PrologFlags", "DeferBatch missing");
        assert_one(&bed.wrong("", "SLURM_VERSION=23.02.1\n"), "SPANK", "is for Slurm 22.05");
        assert_eq!(bed.wrong("", "SLURM_VERSION=22.05.11\n"), [""; 0], "major and minor alone count");
        line("required spank_sarouter.so sink=file:/x\n");
        assert_one(&bed.wrong("", ""), "SPANK", "every job is refused");
        line("optional spank_sarouter.so\n");
        assert_eq!(bed.wrong("", ""), [""; 0]);
        assert_one(&bed.wrong(TORUS, FLAGS), "SPANK", "no sink=");
        bed.write("stock/spank_sarouter.so", "\x7fELF\0");
        assert_one(&bed.wrong("", ""), "SPANK", "unknown version");
    }
}

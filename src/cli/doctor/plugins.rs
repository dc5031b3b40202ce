//! Our plugins inside Slurm: node selection in the controller, tables and service levels on the nodes.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{Check, some};
use crate::config::Settings;
use crate::service::kind::direct;

/// What `scontrol show config` says, without what is not set.
pub(super) type Values<'a> = BTreeMap<String, &'a str>;

/// In front of Slurm's version in our files; for the nodes' plugin as Slurm counts it.
const SELECT_MARK: &[u8] = b"sarouter-select for Slurm ";
const SPANK_MARK: &[u8] = b"sarouter-spank for Slurm number ";
/// Slurm's own name of the plugin that ours stands before.
const SELECT_FILE: &str = "select_cons_tres.so";
/// Name of the nodes' plugin in our package.
const SPANK_FILE: &str = "spank_sarouter.so";

/// Checks of what is installed or asked for; both plugins are opt-in.
pub(super) fn checks(settings: &Settings, values: &Values<'_>) -> Vec<Check> {
    let value = |key: &str| values.get(key).copied();
    let site = Site {
        settings,
        version: value("SLURM_VERSION").unwrap_or(""),
        directories: value("PluginDir").unwrap_or("").split(':').map(PathBuf::from).collect(),
        torus: direct::source(settings).is_some(),
    };
    let mut found = Vec::new();
    found.extend(site.select(value("SelectType"), value("SlurmUser")));
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
fn marked(path: &Path, mark: &[u8]) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    let at = bytes.windows(mark.len()).position(|w| w == mark)? + mark.len();
    let end = bytes[at..].iter().position(|b| !(b.is_ascii_digit() || *b == b'.'))?;
    String::from_utf8(bytes[at..at + end].to_vec()).ok()
}

struct Site<'a> {
    settings: &'a Settings,
    version: &'a str,
    directories: Vec<PathBuf>,
    torus: bool,
}

impl Site<'_> {
    /// The first file of this name, as Slurm finds it.
    fn plugin(&self, name: &str) -> Option<PathBuf> {
        self.directories.iter().map(|dir| dir.join(name)).find(|path| path.is_file())
    }

    fn select(&self, kind: Option<&str>, user: Option<&str>) -> Option<Check> {
        const NAME: &str = "select plugin";
        let build = "plugin/slurm/select/build DIR, then PluginDir=DIR:… in slurm.conf and restart slurmctld";
        let file = self.plugin(SELECT_FILE);
        let built_for = file.as_deref().and_then(|path| marked(path, SELECT_MARK));
        let socket = self.settings.placement.select_socket.as_deref();
        let (file, built_for, socket) = match (file, built_for, socket) {
            (_, None, None) => return None,
            (_, None, Some(_)) => {
                let found = "placement.select_socket is set, and the first directory of PluginDir with \
                             select_cons_tres.so has Slurm's own";
                return Some(Check::fix(NAME, found, build));
            }
            (_, Some(_), None) => {
                let fix =
                    "placement.select_socket = \"/run/sarouter/select.sock\", or take it out of PluginDir";
                return Some(Check::fix(NAME, "it is installed, and nobody answers it", fix));
            }
            (file, Some(built_for), Some(socket)) => (file.unwrap_or_default(), built_for, socket),
        };
        if kind != Some("select/cons_tres") {
            let found = format!("SelectType is {}", kind.unwrap_or("not set"));
            return Some(Check::fix(NAME, found, "SelectType=select/cons_tres: ours stands before that one"));
        }
        if built_for != self.version {
            let found = format!(
                "{} is for Slurm {built_for}, running is {}: Slurm uses its own",
                file.display(),
                self.version
            );
            return Some(Check::fix(NAME, found, build));
        }
        if let Some(found) = unreachable(socket, user) {
            return Some(Check::fix(NAME, found, "usermod -a -G sarouter slurm, and restart slurmctld"));
        }
        Some(Check::good(NAME, format!("{} for Slurm {built_for}", file.display())))
    }

    fn spank(&self, conf: &Path) -> Option<Check> {
        const NAME: &str = "SPANK";
        let shown = conf.display();
        let example = "the line of config/plugstack.conf, on submit hosts and nodes";
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
            return Some(Check::fix(NAME, found, "build it for this version: plugin/README.md says how"));
        }
        if self.torus && !words.iter().any(|w| w.starts_with("sink=")) {
            return Some(Check::fix(NAME, "no sink=: tables are checked and dropped", example));
        }
        Some(Check::good(NAME, format!("{} {}", file.display(), words[2..].join(" "))))
    }
}

/// Why Slurm's controller cannot ask on our socket; `None` if it can, or there is no telling.
fn unreachable(socket: &Path, user: Option<&str>) -> Option<String> {
    let (name, id) = user?.trim_end_matches(')').split_once('(')?;
    let id: u32 = id.parse().ok()?;
    let found = match std::fs::metadata(socket) {
        Ok(found) => found,
        Err(error) => return Some(format!("{}: {error}", socket.display())),
    };
    let member = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        fields.get(2).and_then(|gid| gid.parse().ok()) == Some(found.gid())
            && fields.get(3).is_some_and(|names| names.split(',').any(|n| n == name))
    };
    let own_group = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        fields.first() == Some(&name) && fields.get(3).and_then(|gid| gid.parse().ok()) == Some(found.gid())
    };
    let any = |file: &str, test: &dyn Fn(&str) -> bool| {
        std::fs::read_to_string(file).is_ok_and(|text| text.lines().any(test))
    };
    let may = id == 0
        || id == found.uid()
        || any("/etc/group", &member)
        || any("/etc/passwd", &own_group)
        || found.mode() & 0o002 != 0;
    (!may).then(|| format!("{name} may not use {}", socket.display()))
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
mod tests {
    use super::*;

    /// A site in a directory: two plugin directories, settings, and what Slurm says.
    struct Bed(tempfile::TempDir);

    impl Bed {
        fn new() -> Self {
            let bed = Self(tempfile::tempdir().unwrap());
            for dir in ["ours", "stock", "slurm"] {
                std::fs::create_dir(bed.0.path().join(dir)).unwrap();
            }
            bed.write("stock/select_cons_tres.so", "\x7fELF stock\0");
            bed.write("torus.toml", "sizes = [2, 2]\n");
            bed
        }
        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.0.path().join(name), text).unwrap();
        }
        fn with(&self, settings: &str, more: &str) -> Vec<Check> {
            let dir = self.0.path();
            let settings = Settings::parse(settings, &dir.join("sarouter.toml")).unwrap();
            let d = dir.display();
            let text = format!(
                "SLURM_VERSION=22.05.8\nSLURM_CONF={d}/slurm/slurm.conf\nPluginDir={d}/ours:{d}/stock\n\
                 SelectType=select/cons_tres\nSlurmUser=root(0)\n{more}"
            );
            let values = text.lines().filter_map(|l| l.split_once('='));
            checks(&settings, &values.map(|(k, v)| (k.to_string(), v)).collect())
        }
        /// Names and findings of what is wrong.
        fn wrong(&self, settings: &str, more: &str) -> Vec<String> {
            let checks = self.with(settings, more);
            checks.iter().filter(|c| !c.good).map(|c| format!("{}: {}", c.name, c.found)).collect()
        }
    }

    fn assert_one(wrong: &[String], name: &str, word: &str) {
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].starts_with(name) && wrong[0].contains(word), "{wrong:?}");
    }

    #[test]
    fn what_is_wrong_with_node_selection_is_named() {
        let bed = Bed::new();
        const ON: &str = "[placement]\nselect_socket = \"select.sock\"";
        assert_eq!(bed.with("", ""), [], "opt-in");
        assert_one(&bed.wrong(ON, ""), "select plugin", "Slurm's own");
        bed.write("ours/select_cons_tres.so", "\x7fELF sarouter-select for Slurm 22.05.8\0");
        assert_one(&bed.wrong("", ""), "select plugin", "nobody answers");
        assert_one(&bed.wrong(ON, ""), "select plugin", "select.sock: No such file");
        bed.write("select.sock", "");
        assert_eq!(bed.wrong(ON, ""), [""; 0]);
        assert_one(&bed.wrong(ON, "SelectType=select/linear\n"), "select plugin", "select/linear");
        assert_one(&bed.wrong(ON, "SLURM_VERSION=22.05.11\n"), "select plugin", "is for Slurm 22.05.8");
        let other = "SlurmUser=nosuchuser(4711)\n";
        assert_one(&bed.wrong(ON, other), "select plugin", "nosuchuser may not use");
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

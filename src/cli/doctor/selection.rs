//! Our plugins in Slurm's controller, which ask the service for nodes: a shadow of `select/cons_tres`, and
//! from Slurm 24.05 on one of the site's topology plugin.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::plugins::{Site, Values, marked};
use super::{Check, PLUGINS};

/// One of the two ways into the controller.
struct Way {
    /// What the check is called.
    name: &'static str,
    /// In front of Slurm's version in our file.
    mark: &'static [u8],
    /// Where it is built.
    source: &'static str,
}

const SELECT: Way =
    Way { name: "select plugin", mark: b"sarouter-select for Slurm ", source: "slurm/select" };
const TOPOLOGY: Way =
    Way { name: "topology plugin", mark: b"sarouter-topology for Slurm ", source: "slurm/topology" };
/// The first Slurm whose topology plugins choose nodes.
const HOOK: (u32, u32) = (24, 5);
/// Slurm's own name of the plugin that calls them, or that ours stands before.
const CALLER: &str = "select/cons_tres";

/// Whether a version is at least [`HOOK`]; an unknown one is not.
fn has_hook(version: &str) -> bool {
    let mut numbers = version.split('.').map(|n| n.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= HOOK
}

/// Slurm's file for a plugin such as `topology/tree`.
fn file_of(kind: &str) -> String {
    format!("{}.so", kind.replace('/', "_"))
}

/// Checks of what is installed or asked for; empty if it is neither.
pub(super) fn checks(site: &Site<'_>, values: &Values<'_>) -> Vec<Check> {
    let value = |key: &str| values.get(key).copied();
    let user = value("SlurmUser");
    let topology = value("TopologyPlugin").filter(|_| has_hook(site.version));
    let kinds = [(&SELECT, Some(CALLER)), (&TOPOLOGY, topology)];
    let ours = |(way, kind): (&'static Way, Option<&str>)| {
        let file = site.plugin(&file_of(kind?))?;
        let built_for = marked(&file, way.mark)?;
        Some((way, file, built_for))
    };
    let found: Vec<(&Way, PathBuf, String)> = kinds.into_iter().filter_map(ours).collect();
    let socket = site.settings.placement.select_socket.as_deref();
    if found.is_empty() {
        return socket.map(|_| absent(topology)).into_iter().collect();
    }
    let caller = value("SelectType");
    let check = |(way, file, built_for): &(&Way, PathBuf, String)| {
        let wrong = wrong(site, way, file, built_for, caller, user);
        wrong.unwrap_or_else(|| Check::good(way.name, format!("{} for Slurm {built_for}", file.display())))
    };
    found.iter().map(check).collect()
}

/// Nobody asks on the socket that is set.
fn absent(topology: Option<&str>) -> Check {
    let (way, file) = match topology {
        Some(kind) => (&TOPOLOGY, file_of(kind)),
        None => (&SELECT, file_of(CALLER)),
    };
    let found = format!(
        "placement.select_socket is set, and the first directory of PluginDir with {file} has Slurm's own"
    );
    Check::fix(way.name, found, build(way))
}

fn build(way: &Way) -> String {
    // Where it is missing, Slurm refuses the whole file.
    let first = "make a directory DIR on every machine that reads slurm.conf";
    format!(
        "{first}, {}/build DIR in {PLUGINS}, then PluginDir=DIR:… there and restart slurmctld",
        way.source
    )
}

/// What is wrong with a plugin of ours that is installed.
fn wrong(
    site: &Site<'_>,
    way: &Way,
    file: &Path,
    built_for: &str,
    caller: Option<&str>,
    user: Option<&str>,
) -> Option<Check> {
    let Some(socket) = site.settings.placement.select_socket.as_deref() else {
        let fix = "placement.select_socket = \"/run/sarouter/select.sock\", or take it out of PluginDir";
        return Some(Check::fix(way.name, "it is installed, and nobody answers it", fix));
    };
    if caller != Some(CALLER) {
        let found = format!("SelectType is {}: ours is never asked", caller.unwrap_or("not set"));
        return Some(Check::fix(way.name, found, format!("SelectType={CALLER}")));
    }
    if built_for != site.version {
        let running = site.version;
        let found =
            format!("{} is for Slurm {built_for}, running is {running}: Slurm uses its own", file.display());
        return Some(Check::fix(way.name, found, build(way)));
    }
    unreachable(socket, user)
        .map(|found| Check::fix(way.name, found, "usermod -a -G sarouter slurm, and restart slurmctld"))
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

#[cfg(test)]
mod tests {
    use super::super::plugins::tests::{Bed, assert_one};

    const ON: &str = "[placement]\nselect_socket = \"select.sock\"";

    #[test]
    fn what_is_wrong_with_node_selection_is_named() {
        let bed = Bed::new();
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
    fn the_topology_plugin_of_the_site_is_known_where_it_chooses_nodes() {
        let bed = Bed::new();
        const NEW: &str = "SLURM_VERSION=24.11.5\n";
        assert_one(&bed.wrong(ON, NEW), "topology plugin", "topology_tree.so has Slurm's own");
        bed.write("select.sock", "");
        bed.write("ours/topology_tree.so", "\x7fELF sarouter-topology for Slurm 24.11.5\0");
        assert_eq!(bed.wrong(ON, NEW), [""; 0]);
        assert!(bed.with(ON, NEW).iter().any(|c| c.name == "topology plugin" && c.good));
        assert_one(&bed.wrong("", NEW), "topology plugin", "nobody answers");
        let linear = format!("{NEW}SelectType=select/linear\n");
        assert_one(&bed.wrong(ON, &linear), "topology plugin", "never asked");
        assert_one(&bed.wrong(ON, "SLURM_VERSION=24.11.6\n"), "topology plugin", "is for Slurm 24.11.5");
        // Ours is for a tree, the site has blocks.
        let block = format!("{NEW}TopologyPlugin=topology/block\n");
        assert_one(&bed.wrong(ON, &block), "topology plugin", "topology_block.so has Slurm's own");
        // The other way goes on there, and is the only one before.
        bed.write("ours/select_cons_tres.so", "\x7fELF sarouter-select for Slurm 24.11.5\0");
        assert_eq!(bed.wrong(ON, &block), [""; 0]);
        assert!(bed.with(ON, NEW).iter().filter(|c| c.good).count() >= 2, "both");
        assert_one(&bed.wrong(ON, "SLURM_VERSION=23.11.10\n"), "select plugin", "is for Slurm 24.11.5");
    }
}

//! A bed of `scripts/testbed` that ends with the test, and what is read from it.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use sarouter::model::{DestId, Fabric, Guid, Lid, Tables, TerminalId};
use sarouter::observe::ibnetdiscover::to_net;
use sarouter::publish::handoff;
use sarouter::publish::opensm::{PluginStatus, STATUS_FILE};

/// The root of the source tree.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command, which must succeed, and returns what it prints.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}{errors}", output.status);
    text
}

/// A port that nobody listens on.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A process that ends with the test.
pub struct Running(Child);

impl Running {
    pub fn spawn(command: &mut Command) -> Self {
        Self(command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}")))
    }
}

impl Deref for Running {
    type Target = Child;
    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The version of Slurm that is here: (22, 5) for `slurm-wlm 22.05.8`.
pub fn slurm_version() -> (u32, u32) {
    let said = run(Command::new("slurmctld").arg("-V"));
    let digits = said.trim_start_matches(|c: char| !c.is_ascii_digit());
    let mut parts = digits.split('.').map_while(|part| part.parse().ok());
    (parts.next().unwrap(), parts.next().unwrap())
}

/// Polls until there is an answer. The deadline is only there so that a broken test ends: Slurm's
/// scheduler alone may take its full round of a minute, on a busy machine two.
pub fn await_some<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        let asked = Instant::now();
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < Duration::from_secs(180), "waited in vain for {what}");
        // Who waits leaves the processor to whom it waits for: asking may start a program, or a script in a browser.
        sleep((3 * asked.elapsed()).clamp(Duration::from_millis(10), Duration::from_millis(200)));
    }
}

/// Prints the ends of logs, for a test that fails.
pub fn print_logs(bed: &Path, names: &[&str]) {
    for name in names {
        let log = fs::read_to_string(bed.join("log").join(name)).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        eprintln!("{name}:\n{}", lines[lines.len().saturating_sub(25)..].join("\n"));
    }
}

/// Forwarding tables as the switches have them: `lfts[switch][lid] = port`; what leads nowhere is
/// not there.
pub type Lfts = BTreeMap<Guid, BTreeMap<Lid, u8>>;

/// A bed. Ends with its processes and files when dropped.
pub struct Testbed {
    directory: tempfile::TempDir,
    environment: Vec<(&'static str, String)>,
}

impl Testbed {
    /// Starts ibsim and OpenSM, without Slurm, on this fabric.
    pub fn fabric(fabric: &Fabric, options: &[&str]) -> Self {
        Self::with(fabric, &[&["--no-slurm"], options].concat(), Vec::new())
    }

    /// Starts what the options say on this fabric, with more variables in the environment.
    pub fn with(fabric: &Fabric, options: &[&str], environment: Vec<(&'static str, String)>) -> Self {
        Self::start(fabric, options, environment, |_| {})
    }

    /// Starts everything on this fabric. `prepare` sees the state directory before anybody else.
    pub fn prepared(fabric: &Fabric, prepare: impl FnOnce(&Path)) -> Self {
        Self::start(fabric, &[], Vec::new(), prepare)
    }

    /// Starts what the options say. `prepare` sees the state directory, in that of the bed, before
    /// anybody else.
    pub fn start(
        fabric: &Fabric,
        options: &[&str],
        environment: Vec<(&'static str, String)>,
        prepare: impl FnOnce(&Path),
    ) -> Self {
        let directory = tempfile::Builder::new().prefix("sarouter-bed.").tempdir().unwrap();
        let net = directory.path().join("given.net");
        fs::write(&net, to_net(fabric)).unwrap();
        let bed = Self { directory, environment };
        fs::create_dir(bed.state()).unwrap();
        prepare(&bed.state());
        let net = net.to_str().unwrap();
        bed.script(&[&["up", "--dir", bed.path().to_str().unwrap(), "--fabric", net], options].concat());
        bed
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Runs a command of Slurm.
    pub fn slurm(&self, program: &str, words: &[&str]) -> String {
        let conf = self.path().join("slurm/slurm.conf");
        run(Command::new(program).args(words).env("SLURM_CONF", conf).current_dir(self.path()))
    }

    pub fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    /// Runs `scripts/testbed` for this bed.
    pub fn script(&self, words: &[&str]) -> String {
        let mut command = Command::new(root().join("scripts/testbed"));
        command.args(words).env("SAROUTER_BED", self.path());
        run(command.envs(self.environment.iter().map(|(k, v)| (k, v))))
    }

    /// Cuts the cable at a port of a switch.
    pub fn cut(&self, switch: &str, port: u8) {
        self.script(&["console", &format!("Unlink \"{switch}\"[{port}]")]);
    }

    /// Puts it back.
    pub fn mend(&self, switch: &str, port: u8) {
        self.script(&["console", &format!("Relink \"{switch}\"[{port}]")]);
    }

    /// Puts a file in force as the store does: a new directory, then `current` by rename.
    pub fn publish_bytes(&self, directory: &str, bytes: &[u8]) {
        let epoch = self.state().join("epochs").join(directory);
        fs::create_dir_all(&epoch).unwrap();
        fs::write(epoch.join("lft.bin"), bytes).unwrap();
        let link = self.state().join("current.new");
        symlink(Path::new("epochs").join(directory), &link).unwrap();
        fs::rename(link, self.state().join("current")).unwrap();
    }

    pub fn publish(&self, fabric: &Fabric, tables: &Tables, epoch: u64) {
        self.publish_bytes(&format!("{epoch:06}"), &handoff::encode(fabric, tables, epoch));
    }

    /// What the plugin says, once it says what is waited for.
    pub fn await_status(&self, what: &str, good: impl Fn(&PluginStatus) -> bool) -> PluginStatus {
        let mut last = String::new();
        let path = self.state().join(STATUS_FILE);
        let start = Instant::now();
        loop {
            match PluginStatus::read(&path) {
                Ok(status) if good(&status) => return status,
                other => last.replace_range(.., &format!("{other:#?}")),
            }
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "waited in vain for {what}; the last was {last}"
            );
            sleep(Duration::from_millis(10));
        }
    }

    /// The epoch in force on every switch.
    pub fn await_epoch(&self, epoch: u64) -> PluginStatus {
        self.await_status(&format!("epoch {epoch}"), |s| s.in_force(epoch))
    }

    /// How often OpenSM's log has a text.
    pub fn logged(&self, text: &str) -> usize {
        fs::read_to_string(self.path().join("log/opensm.log")).unwrap().matches(text).count()
    }

    /// The forwarding tables read back from every switch, and the LIDs of port GUIDs.
    pub fn read_back(&self) -> (Lfts, BTreeMap<Guid, Lid>) {
        read_fts(&self.script(&["ib", "dump_fts"]))
    }

    /// The SL that the subnet administrator gives for a path.
    pub fn path_sl(&self, from: Lid, to: Lid) -> u8 {
        let (from, to) = (from.to_string(), to.to_string());
        let text = self.script(&["ib", "saquery", "PR", "--slid", &from, "--dlid", &to]);
        let line =
            text.lines().find(|l| l.trim_start().starts_with("sl.")).unwrap_or_else(|| panic!("{text}"));
        let digits = line.trim_start_matches(|c: char| !c.is_ascii_digit());
        digits.strip_prefix("0x").map_or_else(|| digits.parse().unwrap(), |h| hex(h) as u8)
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.path().join("log/opensm.log")).unwrap_or_default();
            let lines: Vec<_> = log.lines().filter(|l| l.contains("sarouter") || l.contains("ERR")).collect();
            eprintln!("{}", lines[lines.len().saturating_sub(20)..].join("\n"));
        }
        let down = Command::new(root().join("scripts/testbed"))
            .args(["down", "--dir", self.path().to_str().unwrap()])
            .output();
        if let Err(error) = down {
            eprintln!("the bed is still up: {error}");
        }
    }
}

/// What `dump_fts` printed: tables, and the (base) LIDs of port GUIDs.
pub fn read_fts(text: &str) -> (Lfts, BTreeMap<Guid, Lid>) {
    let (mut lfts, mut lids) = (Lfts::new(), BTreeMap::new());
    let mut switch = None;
    for line in text.lines() {
        let guid = |after: &str| line.split_once(after).map(|(_, rest)| hex(rest));
        if line.starts_with("Unicast lids") {
            switch = guid(" guid 0x").map(|g| Guid::new(g).unwrap());
            lfts.insert(switch.unwrap(), BTreeMap::new());
        } else if let Some(rest) = line.strip_prefix("0x") {
            // A switch that OpenSM just found has a way to LID 0, which is nobody's.
            let Ok(lid) = Lid::new(hex(rest)) else { continue };
            let port = rest.split_whitespace().nth(1).unwrap().parse().unwrap();
            lfts.get_mut(&switch.unwrap()).unwrap().insert(lid, port);
            // The first of a port's LIDs.
            let known = guid("portguid 0x").map(|g| lids.entry(Guid::new(g).unwrap()).or_insert(lid));
            known.into_iter().for_each(|first: &mut Lid| *first = lid.min(*first));
        }
    }
    (lfts, lids)
}

/// The number that a text begins with.
fn hex(text: &str) -> u64 {
    let end = text.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(text.len());
    u64::from_str_radix(&text[..end], 16).unwrap()
}

/// Pairs of hosts without a way between them: who follows the tables read back from a host's switch
/// does not arrive. `fabric` has the cables that are there.
pub fn unreached(bed: &Testbed, fabric: &Fabric) -> Vec<(TerminalId, TerminalId)> {
    without_way(&bed.read_back(), fabric)
}

/// The same of tables that were read before.
pub fn without_way(
    (lfts, lids): &(Lfts, BTreeMap<Guid, Lid>),
    fabric: &Fabric,
) -> Vec<(TerminalId, TerminalId)> {
    let arrives = |from: TerminalId, to: TerminalId| {
        let to = fabric.terminal(to);
        let (mut at, mut hops) = (fabric.terminal(from).switch, 0);
        while let Some(port) = lfts.get(&fabric.switch(at).guid)?.get(lids.get(&to.port_guid)?) {
            if at == to.switch {
                return (*port == to.port.get()).then_some(());
            }
            let out =
                fabric.out(at).iter().map(|c| fabric.channel(*c)).find(|c| c.from_port.get() == *port)?;
            at = out.to;
            hops += 1;
            if hops > fabric.switches().len() {
                return None;
            }
        }
        None
    };
    let hosts: Vec<TerminalId> = fabric.host_ids().collect();
    pairs(&hosts).into_iter().filter(|(a, b)| arrives(*a, *b).is_none()).collect()
}

/// Each of these hosts with each other one.
pub fn pairs(hosts: &[TerminalId]) -> Vec<(TerminalId, TerminalId)> {
    hosts.iter().flat_map(|a| hosts.iter().map(|b| (*a, *b))).filter(|(a, b)| a != b).collect()
}

/// The GUID by which a destination is known on the fabric.
pub fn dest_guid(fabric: &Fabric, d: DestId) -> Guid {
    match fabric.dest_terminal(d) {
        Some(t) => fabric.terminal(t).port_guid,
        None => fabric.switch(fabric.home(d)).guid,
    }
}

/// The tables as they should be read back, for destinations that have a LID.
pub fn expected(fabric: &Fabric, tables: &Tables, lids: &BTreeMap<Guid, Lid>) -> Lfts {
    let mut lfts: Lfts = fabric.switches().iter().map(|s| (s.guid, BTreeMap::new())).collect();
    for d in fabric.dest_ids() {
        let Some(lid) = lids.get(&dest_guid(fabric, d)) else { continue };
        for s in fabric.switch_ids() {
            if let Some(port) = tables.port(s, d) {
                lfts.entry(fabric.switch(s).guid).or_default().insert(*lid, port.get());
            }
        }
    }
    lfts
}

/// Asserts that the switches have exactly these tables.
pub fn assert_in_force(bed: &Testbed, fabric: &Fabric, tables: &Tables) {
    let (found, lids) = bed.read_back();
    assert_eq!(lids.len(), fabric.dest_count(), "not every destination has a LID");
    assert_eq!(found, expected(fabric, tables, &lids));
}

/// Asserts that the subnet administrator gives the tables' layers as SLs, for every pair of hosts
/// in `pairs`.
pub fn assert_sls(bed: &Testbed, fabric: &Fabric, tables: &Tables, pairs: &[(TerminalId, TerminalId)]) {
    let (_, lids) = bed.read_back();
    for (a, b) in pairs {
        let (from, to) = (fabric.terminal(*a), fabric.terminal(*b));
        let wanted = tables.layer(from.switch, fabric.dest_of_terminal(*b)).map(|l| l.get());
        let found = bed.path_sl(lids[&from.port_guid], lids[&to.port_guid]);
        assert_eq!(Some(found), wanted, "{} to {}", from.description, to.description);
    }
}

/// Where Slurm's own plugins are. Where it is no package of Debian, the plugins' builds are told so, too.
fn stock_plugins() -> PathBuf {
    if let Some(told) = std::env::var_os("SLURM_PLUGINS") {
        return told.into();
    }
    let listed = run(Command::new("dpkg").args(["-L", "slurm-wlm-basic-plugins"]));
    let stock = listed.lines().find(|l| l.ends_with("/select_cons_tres.so")).unwrap();
    Path::new(stock).parent().unwrap().to_path_buf()
}

/// The line of slurm.conf by which plugins in a directory stand before Slurm's own.
pub fn plugin_dir(first: &Path) -> String {
    format!("PluginDir={}:{}", first.display(), stock_plugins().display())
}

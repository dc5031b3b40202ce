//! From OpenSM's first trap to its last answered forwarding table, when cables of a simulated fabric are cut. Our
//! plugin, which repairs at once, beside OpenSM's own engines; behind it the service routes what is left.
//!
//! `cargo bench --bench opensm_repair [row] [SPEC [ENGINES…]]`, each of the engines as OpenSM's `routing_engine`; `row` is for
//! the 20 cables in a row alone. Needs what `scripts/test` installs and builds.

#[path = "../tests/real/testbed.rs"]
#[allow(dead_code)]
mod testbed;

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use sarouter::lab::generate::generate;
use sarouter::model::{ChannelId, Fabric};
use sarouter::observe::ibnetdiscover;
use sarouter::publish::opensm::PluginStatus;

use testbed::{Running, Testbed, await_some, unreached};

/// A log without a new line for so long is at its end.
const QUIET: Duration = Duration::from_secs(2);
const ROUNDS: usize = 3;
const CONFIGURED: &str = " tables configured on all switches";

/// A bed, and the service on it if it is for our engine.
struct Managed {
    service: Option<Running>,
    bed: Testbed,
}

impl Managed {
    fn new(fabric: &Fabric, engines: &str) -> Self {
        let engines_line = format!("routing_engine {engines}");
        let lines = [
            "--opensm-line",
            &engines_line,
            "--opensm-line",
            "sweep_interval 10",
            "--opensm-line",
            "log_flags 0x03",
        ];
        let bed = Testbed::fabric(fabric, &lines);
        let service = engines.starts_with("sarouter").then(|| serve(&bed));
        Self { service, bed }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.bed.path().join("log/opensm.log")).unwrap()
    }

    /// Waits until OpenSM has routes for this fabric in force, from us where we are asked, and rests.
    fn settle(&self, fabric: &Fabric) {
        let fingerprint = fabric.fingerprint().to_string();
        let status = || PluginStatus::read(&self.bed.state().join("opensm-status.json")).ok();
        let is_seen = || {
            let path = status()?.fabric_file(&self.bed.state())?;
            let seen = ibnetdiscover::parse(&path, &fs::read_to_string(&path).ok()?).ok()?.fabric;
            (seen.fingerprint() == fabric.fingerprint()).then_some(())
        };
        if self.service.is_some() {
            await_some("the fabric as it is", is_seen);
            await_some("an epoch for it", || {
                status().filter(|s| s.fingerprint.as_ref() == Some(&fingerprint) && s.acknowledged.is_some())
            });
        }
        let mut length = 0;
        await_some("OpenSM to rest", || {
            let before = std::mem::replace(&mut length, self.log().len());
            sleep(QUIET);
            (before == length).then_some(())
        });
    }

    /// Waits for a trap and for tables in this part of the log.
    fn await_routing(&self, begin: usize) {
        await_some("a trap and tables", || {
            let log = self.log();
            (log[begin..].contains("num:128") && log[begin..].contains(CONFIGURED)).then_some(())
        });
    }

    fn console(&self, word: &str, fabric: &Fabric, cables: &[ChannelId]) {
        let lines = cables.iter().map(|c| {
            let cable = fabric.channel(*c);
            format!("{word} \"{}\"[{}]", fabric.switch(cable.from).description, cable.from_port.get())
        });
        self.bed.script(&["console", &lines.collect::<Vec<_>>().join("\n")]);
    }

    /// Cuts cables at once, without the first, which are `gone`; milliseconds from the first trap to the first and to the
    /// last time that all tables were answered, and the engine of the last.
    fn cut(&self, fabric: &Fabric, cut: &[ChannelId], gone: usize) -> (f64, f64, String) {
        let left = fabric.without(|c| cut.contains(&c) || cut.contains(&c.reverse()), |_| false).unwrap();
        // Cut switches are not seen any more.
        let left = left.without(|_| false, |s| left.out(s).is_empty()).unwrap();
        let begin = self.log().len();
        self.console("Unlink", fabric, &cut[gone..]);
        self.await_routing(begin);
        self.settle(&left);
        let log = self.log();
        let times = times(&log[begin..]);
        assert_eq!(unreached(&self.bed, &left).len(), 0, "hosts without a way");
        times
    }

    fn mend(&self, fabric: &Fabric, cut: &[ChannelId]) {
        let begin = self.log().len();
        self.console("Relink", fabric, cut);
        self.await_routing(begin);
        self.settle(fabric);
    }
}

/// The service, which looks when the fabric changes. No jobs.
fn serve(bed: &Testbed) -> Running {
    let path = bed.path().join("sarouter.toml");
    let text = fs::read_to_string(&path).unwrap();
    let own = text.lines().find(|l| l.starts_with("source =")).unwrap();
    let text = text.replace(own, "source = \"opensm\"").replace("[slurm]", "[slurm]\nsqueue = \"/bin/true\"");
    fs::write(&path, text).unwrap();
    let log = fs::File::create(bed.path().join("log/service.log")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sarouter"));
    Running::spawn(command.args(["serve", "--config"]).arg(path).stdout(Stdio::null()).stderr(log))
}

/// See [`Managed::cut`].
fn times(log: &str) -> (f64, f64, String) {
    let lines = || log.lines().filter_map(|line| Some((time(line)?, line)));
    let trap = lines().find(|(_, line)| line.contains("num:128")).expect("a trap").0;
    let done: Vec<(f64, &str)> = lines().filter(|(at, l)| l.contains(CONFIGURED) && *at > trap).collect();
    let (first, last) = (done.first().expect("tables"), done.last().expect("tables"));
    let engine = last.1.split(CONFIGURED).next().and_then(|l| l.split(' ').next_back()).unwrap_or("");
    (first.0 - trap, last.0 - trap, engine.to_string())
}

/// Milliseconds of a log line's day: `Nov 23 07:57:20 525660 [`.
fn time(line: &str) -> Option<f64> {
    let mut words = line.split_whitespace().skip(2);
    let clock: Vec<f64> = words.next()?.split(':').map_while(|n| n.parse().ok()).collect();
    let micros: f64 = words.next()?.parse().ok()?;
    let [h, m, s] = clock[..] else { return None };
    Some(((h * 60.0 + m) * 60.0 + s) * 1e3 + micros / 1e3)
}

fn main() {
    let mut words = std::env::args().skip(1).filter(|a| !a.starts_with("--")).peekable();
    let is_row_alone = words.next_if(|word| word == "row").is_some();
    let spec = words.next().unwrap_or("fattree:56x18,18".to_string());
    let named: Vec<String> = words.collect();
    let all = ["sarouter,updn", "updn", "nue"].map(str::to_string).to_vec();
    let fabric = generate(&spec).unwrap();
    let spine = fabric.switch_ids().find(|s| fabric.attached(*s).is_empty()).unwrap();
    let leaf = fabric.terminals()[0].switch;
    let one = vec![fabric.out(leaf)[0]];
    // One of each of twenty switches, to other ones.
    let leaves = fabric.switch_ids().filter(|s| !fabric.attached(*s).is_empty());
    let twenty: Vec<_> =
        leaves.take(20).enumerate().map(|(i, s)| fabric.out(s)[i % fabric.out(s).len()]).collect();
    println!(
        "{spec}: {} hosts. ms from the first trap to all tables answered: first, last",
        fabric.host_ids().count()
    );
    // All are there all the time, and take turns: what else the machine does hits each of them.
    let all = if named.is_empty() { all } else { named };
    let managed: Vec<(String, Managed)> =
        all.into_iter().map(|engines| (engines.clone(), Managed::new(&fabric, &engines))).collect();
    managed.iter().for_each(|(_, managed)| managed.settle(&fabric));
    let cuts = [("a cable", one), ("a switch", fabric.out(spine).to_vec()), ("20 at once", twenty.clone())];
    for (what, cut) in cuts.iter().filter(|_| !is_row_alone) {
        let mut firsts = vec![Vec::new(); managed.len()];
        for _ in 0..ROUNDS {
            for ((engines, managed), firsts) in managed.iter().zip(&mut firsts) {
                firsts.push(say(engines, what, managed.cut(&fabric, cut, 0)));
                managed.mend(&fabric, cut);
            }
        }
        sum_up(what, &managed, firsts);
    }
    let mut firsts = vec![Vec::new(); managed.len()];
    for gone in 0..twenty.len() {
        for ((engines, managed), firsts) in managed.iter().zip(&mut firsts) {
            firsts.push(say(engines, "in a row", managed.cut(&fabric, &twenty[..=gone], gone)));
        }
    }
    sum_up("20 in a row", &managed, firsts);
}

/// Prints what a cut took; returns the first of it.
fn say(engines: &str, what: &str, (first, last, engine): (f64, f64, String)) -> f64 {
    println!("{engines:14} {what:10} {first:8.0} {last:8.0} {engine}");
    first
}

fn sum_up(what: &str, managed: &[(String, Managed)], firsts: Vec<Vec<f64>>) {
    for ((engines, _), mut firsts) in managed.iter().zip(firsts) {
        firsts.sort_by(f64::total_cmp);
        let (median, worst) = (firsts[firsts.len() / 2], firsts[firsts.len() - 1]);
        println!("{what}: {engines}: of the first, median {median:.0}, worst {worst:.0}");
    }
}

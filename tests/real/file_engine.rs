//! OpenSM without our plugin: its `routing_engine file` loads what the service delivers.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use sarouter::lab::generate::generate;
use sarouter::model::Fabric;
use sarouter::observe::ibnetdiscover::to_net;
use sarouter::publish::EpochStore;

use crate::testbed::{Running, Testbed, assert_in_force, await_some, expected, run, unreached};

/// OpenSM as a vendor's manager would run it, and the service beside it.
struct Site {
    service: Running,
    bed: Testbed,
}

impl Site {
    /// The service is up and has delivered its first epoch; OpenSM is not.
    fn new(fabric: &Fabric) -> Self {
        let options = [
            ["--opensm-line", "event_plugin_name (null)"],
            ["--opensm-line", "routing_engine file"],
            ["--opensm-line", "lfts_file @BED@/state/lft.txt"],
            ["--no-slurm", "--no-opensm"],
        ];
        let bed = Testbed::start(fabric, options.as_flattened(), Vec::new(), |_| {});
        let path = |name: &str| bed.path().join(name);
        fs::create_dir(path("state/spool")).unwrap();
        fs::write(path("state/spool/jobs"), "1 n[1,5,9,13]\n").unwrap();
        let settings = format!(
            "[state]\ndirectory = \"state\"\n[fabric]\nsource = \"{}\"\n[slurm]\nsource = \"spool\"\n\
             min_job_age_seconds = 0\n[spool]\ndirectory = \"state/spool\"\n[routing]\nlayers = 1\n\
             min_gain_seconds = 0\nmin_pause_seconds = 0\n[service]\ninterval_seconds = 3600\n\
             [opensm]\nwatch = false\nlft_file = \"state/lft.txt\"\n",
            path("fabric.net").display()
        );
        fs::write(path("sarouter.toml"), settings).unwrap();
        let log = fs::File::create(path("log/service.log")).unwrap();
        let mut serve = Command::new(env!("CARGO_BIN_EXE_sarouter"));
        serve.args(["serve", "--config"]).arg(path("sarouter.toml")).stdout(Stdio::null()).stderr(log);
        let service = Running::spawn(&mut serve);
        let site = Self { bed, service };
        site.await_file(1);
        site
    }

    fn file(&self) -> PathBuf {
        self.bed.state().join("lft.txt")
    }

    fn await_file(&self, epoch: u64) {
        await_some(&format!("epoch {epoch} in lft.txt"), || {
            let text = fs::read_to_string(self.file()).ok()?;
            text.starts_with(&format!("# sarouter: epoch {epoch} of fabric ")).then_some(())
        });
    }

    /// Has OpenSM read its file again, until the switches have these tables.
    fn reload(&self, fabric: &Fabric, epoch: u64) {
        let store = EpochStore::open(&self.bed.state()).unwrap();
        let tables = store.epoch(epoch.to_string().parse().unwrap()).unwrap().tables(fabric).unwrap();
        let pid = fs::read_to_string(self.bed.path().join("run/opensm.pid")).unwrap();
        run(Command::new("kill").args(["-HUP", pid.trim()]));
        await_some(&format!("the tables of epoch {epoch}"), || {
            let (found, lids) = self.bed.read_back();
            (found == expected(fabric, &tables, &lids)).then_some(())
        });
        assert_in_force(&self.bed, fabric, &tables);
    }

    fn status(&self) -> (bool, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sarouter"));
        let output = command.args(["status", "--config"]).arg(self.bed.path().join("sarouter.toml"));
        let output = output.output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn the_file_engine_of_opensm_loads_each_epoch() {
    let fabric = generate("fattree:4x4,2").unwrap();
    let site = Site::new(&fabric);
    site.bed.script(&["start", "opensm"]);
    site.reload(&fabric, 1);
    assert!(site.bed.logged("file tables configured on all switches") > 0);
    let first = fs::read_to_string(site.file()).unwrap();

    // Other jobs, other tables.
    fs::write(site.bed.state().join("spool/jobs"), "2 n[2,6,10,14]\n3 n[3,4,7,8]\n").unwrap();
    site.await_file(2);
    site.reload(&fabric, 2);

    // A file of yesterday: OpenSM takes it, and the service tells.
    fs::write(site.file(), &first).unwrap();
    site.reload(&fabric, 1);
    run(Command::new("kill").args(["-HUP", &site.service.id().to_string()]));
    let told = await_some("the stale file", || Some(site.status()).filter(|(well, _)| !well));
    assert!(told.1.contains("is stale: it has epoch 1, in force is epoch 2"), "{}", told.1);

    // A cable is cut; the new epoch leads around it.
    let cut = fabric.out(fabric.terminals()[0].switch)[0];
    let without = fabric.without(|c| c == cut || c.reverse() == cut, |_| false).unwrap();
    let channel = fabric.channel(cut);
    site.bed.cut(&fabric.switch(channel.from).description, channel.from_port.get());
    fs::write(site.bed.path().join("new.net"), to_net(&without)).unwrap();
    fs::rename(site.bed.path().join("new.net"), site.bed.path().join("fabric.net")).unwrap();
    site.await_file(3);
    site.reload(&without, 3);
    assert_eq!(unreached(&site.bed, &without), []);
    await_some("the end of the trouble", || Some(site.status()).filter(|(well, _)| *well));
}

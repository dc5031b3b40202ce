//! A standby that copies what a running service has in force, and all that can go wrong on the way.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use sarouter::model::Tables;
use sarouter::publish::handoff;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::program;
use crate::site::{Serving, Site, json as parsed, refusal};

const TOKEN: &str = "0123456789abcdef-read";

/// A service on a socket and a port, which looks only when asked, and an empty directory for a standby.
struct Pair {
    site: Site,
    serving: Option<Serving>,
    port: u16,
    home: tempfile::TempDir,
}

impl Pair {
    fn new() -> Self {
        let site = Site::new("interval_seconds = 3600");
        let port = site.open_port(&format!("{TOKEN} read\n"));
        let serving = Serving::routed(&site);
        let home = tempfile::tempdir().unwrap();
        let pair = Self { site, serving: Some(serving), port, home };
        pair.token(TOKEN);
        pair
    }

    fn standby(&self) -> PathBuf {
        self.home.path().join("standby")
    }

    /// What the standby shows.
    fn token(&self, token: &str) {
        let path = self.home.path().join("token");
        std::fs::write(&path, format!("{token}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn command(&self, url: &str) -> Command {
        let mut command = self.site.command(&["follow", url]);
        command.arg("--state").arg(self.standby()).arg("--token-file").arg(self.home.path().join("token"));
        command
    }

    fn once_at(&self, url: &str) -> (i32, String) {
        let output = self.command(url).arg("--once").output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), said)
    }

    /// One round over the network.
    fn once(&self) -> (i32, String) {
        self.once_at(&format!("http://127.0.0.1:{}", self.port))
    }

    /// One round that ends well.
    fn did(&self) -> Value {
        let (code, said) = self.once();
        assert_eq!(code, 0, "{said}");
        parsed(&said)
    }

    /// One round that does not end well: words of why.
    fn refused(&self, code: i32, words: &str) {
        let before = self.in_force();
        let (found, said) = self.once();
        assert!(found == code && said.contains(words), "{found}: {said}");
        assert_eq!(self.in_force(), before, "what was in force still is");
        let told = parsed(&std::fs::read_to_string(self.standby().join("followed.json")).unwrap());
        assert!(told["trouble"].as_str().unwrap().contains(words), "{told}");
        let status = self.site.run(&["status", "--state", self.standby().to_str().unwrap()]);
        assert!(status.0 == 1 && status.1.contains("\"follows\": {"), "{status:?}");
    }

    fn in_force(&self) -> Option<PathBuf> {
        std::fs::read_link(self.standby().join("current")).ok()
    }

    /// The service publishes for these jobs.
    fn publish(&self, jobs: &str) -> u64 {
        self.site.jobs(jobs);
        self.site.look();
        let line = self.serving.as_ref().unwrap().line();
        line["epoch"]["epoch"].as_u64().unwrap_or_else(|| panic!("{line}"))
    }

    /// What is there is here, byte for byte, and current.
    fn agrees(&self, epoch: u64) {
        let name = format!("epochs/{epoch:06}");
        assert_eq!(self.in_force(), Some(PathBuf::from(&name)));
        for file in ["plan.json", "lft.bin", "report.json", "SHA256SUMS"] {
            let read = |state: &Path| std::fs::read(state.join(&name).join(file)).unwrap();
            assert_eq!(read(&self.standby()), read(&self.site.path("state")), "{file}");
        }
        assert!(!self.standby().join("incoming").exists());
    }

    /// Ends the service, changes its state, starts it again; it must not publish.
    fn restart(&mut self, change: impl FnOnce(&Path)) {
        assert_eq!(self.serving.take().unwrap().stop(), 0);
        change(&self.site.path("state"));
        let serving = Serving::start(&self.site);
        serving.ready(&self.site);
        serving.until(|| TcpStream::connect(("127.0.0.1", self.port)).is_ok());
        self.serving = Some(serving);
    }
}

const TWO: &str = "1|RUNNING|n[1,5,9]|100\n2|RUNNING|n[2,6]|100\n";
const THREE: &str = "1|RUNNING|n[1,5,9]|100\n3|RUNNING|n[3,8]|100\n";

/// Replaces a file of an epoch of the service, and makes the checksums right again.
fn plant(state: &Path, epoch: u64, file: &str, change: impl FnOnce(Vec<u8>) -> Vec<u8>) {
    let directory = state.join(format!("epochs/{epoch:06}"));
    let bytes = change(std::fs::read(directory.join(file)).unwrap());
    std::fs::write(directory.join(file), bytes).unwrap();
    let mut sums = String::new();
    for name in ["plan.json", "lft.bin", "report.json"] {
        for byte in Sha256::digest(std::fs::read(directory.join(name)).unwrap()) {
            write!(sums, "{byte:02x}").unwrap();
        }
        writeln!(sums, "  {name}").unwrap();
    }
    std::fs::write(directory.join("SHA256SUMS"), sums).unwrap();
}

#[test]
fn a_standby_has_what_the_service_has_epoch_by_epoch() {
    let pair = Pair::new();
    assert_eq!(pair.did(), json!({ "did": "took", "epoch": 1, "before": null }));
    pair.agrees(1);
    assert_eq!(pair.did(), json!({ "did": "same", "epoch": 1 }));
    assert_eq!(pair.publish(TWO), 2);
    assert_eq!(pair.publish(THREE), 3);
    // What was in force in between is not asked for.
    assert_eq!(pair.did(), json!({ "did": "took", "epoch": 3, "before": 1 }));
    pair.agrees(3);
    assert!(!pair.standby().join("epochs/000002").exists());
    // The same over the socket; whoever asks there needs no token.
    let (code, said) = pair.once_at(&format!("unix:{}", pair.site.path("state/api.sock").display()));
    assert_eq!((code, &parsed(&said)["did"]), (0, &json!("same")), "{said}");
    // The copy is a state directory as any other.
    let status = pair.site.run(&["status", "--state", pair.standby().to_str().unwrap()]);
    assert!(status.0 == 0 && status.1.contains("\"agreed\": \"20"), "{status:?}");
    let judged = pair.site.run(&["show", "3", "--state", pair.standby().to_str().unwrap()]);
    assert!(judged.0 == 0 && judged.1.contains("\"engine\": \"dfsssp\""), "{judged:?}");
}

/// A standby that nobody keeps any more says so, however well its last round went.
#[test]
fn a_follower_that_has_stopped_is_told() {
    let pair = Pair::new();
    let url = format!("http://127.0.0.1:{}", pair.port);
    let mut following = pair.command(&url).stdout(std::process::Stdio::null()).spawn().unwrap();
    let file = pair.standby().join("followed.json");
    let told = || parsed(&std::fs::read_to_string(&file).unwrap_or("{}".into()));
    pair.serving.as_ref().unwrap().until(|| told()["next"].is_string());
    let status = || pair.site.run(&["status", "--state", pair.standby().to_str().unwrap()]);
    assert_eq!(status().0, 0, "{:?}", status());
    following.kill().unwrap();
    following.wait().unwrap();
    // Two minutes later.
    let mut memory = told();
    let next: chrono::DateTime<chrono::Utc> = memory["next"].as_str().unwrap().parse().unwrap();
    memory["next"] = json!((next - chrono::TimeDelta::minutes(2)).to_rfc3339());
    std::fs::write(&file, memory.to_string()).unwrap();
    let (code, said) = status();
    assert!(code == 1 && said.contains("`sarouter follow` has stopped"), "{said}");
    // Rounds that somebody starts have no time at which they are due.
    pair.did();
    assert_eq!(status().0, 0, "{:?}", status());
}

#[test]
fn a_rollback_and_a_hold_go_along() {
    let pair = Pair::new();
    assert_eq!(pair.did()["did"], "took");
    assert_eq!(pair.publish(TWO), 2);
    assert_eq!(pair.did()["epoch"], 2);
    assert_eq!(pair.site.run(&["rollback", "1", "--hold"]).0, 0);
    assert_eq!(pair.did(), json!({ "did": "went_back_to", "epoch": 1, "before": 2 }));
    pair.agrees(1);
    let held = |state: &Path| std::fs::read_to_string(state.join("hold.json")).ok();
    assert!(held(&pair.standby()).is_some());
    assert_eq!(held(&pair.standby()), held(&pair.site.path("state")));
    // A round that ended in the middle: what it had not written yet is written by the next one.
    let followed = pair.standby().join("followed.json");
    let mut half = parsed(&std::fs::read_to_string(&followed).unwrap());
    half["hold"] = Value::Null;
    std::fs::write(&followed, half.to_string()).unwrap();
    pair.did();
    std::fs::remove_file(pair.standby().join("hold.json")).unwrap();
    pair.did();
    assert_eq!(held(&pair.standby()), held(&pair.site.path("state")));
    assert_eq!(pair.site.run(&["resume"]).0, 0);
    pair.did();
    assert_eq!(held(&pair.standby()), None);
    // A hold of the standby's own keeps what it has.
    let standby = pair.standby();
    assert_eq!(pair.site.run(&["hold", "--state", standby.to_str().unwrap()]).0, 0);
    pair.refused(1, "holds what is in force here");
    assert_eq!(pair.site.run(&["resume", "--state", standby.to_str().unwrap()]).0, 0);
    pair.did();
}

#[test]
fn nothing_damaged_and_nothing_unproved_comes_into_force() {
    let pair = Pair::new();
    pair.did();
    assert_eq!(pair.publish(TWO), 2);
    let state = pair.site.path("state");
    let path = state.join("epochs/000002/lft.bin");
    let good = std::fs::read(&path).unwrap();
    let mut bad = good.clone();
    bad[200] ^= 1;
    std::fs::write(&path, &bad).unwrap();
    pair.refused(2, "does not match its line in SHA256SUMS");
    std::fs::write(&path, &good[..good.len() - 1]).unwrap();
    pair.refused(2, "does not match its line in SHA256SUMS");
    // Sums that are right, tables that go in a circle; with the certificate of the good ones and without.
    let fabric = handoff::fabric(&good).unwrap();
    let decoded = handoff::decode(&good).unwrap();
    let certificate = decoded.certificate(&fabric).expect("an epoch has a certificate");
    let mut ports = decoded.ports.clone();
    let (width, engine) = (decoded.switches.len(), decoded.engine.clone());
    // All leaves send what goes to host 0 up, and so does its own.
    let home = fabric.home(fabric.dest_ids().next().unwrap());
    let up = fabric.channel(fabric.out(home)[0]).from_port.get();
    ports[home.index()] = up;
    let looping = Tables::new(&fabric, &engine, ports, decoded.layers.clone()).unwrap();
    assert_eq!(width, fabric.switches().len());
    let promise = decoded.promise.expect("an epoch says what it promises");
    for proof in [Some((&certificate, promise)), None] {
        plant(&state, 2, "lft.bin", |_| handoff::encode_lids(&fabric, &looping, None, None, proof, 2));
        pair.refused(1, "epoch 2 is rejected");
    }
    // Tables of another number.
    plant(&state, 2, "lft.bin", |_| std::fs::read(state.join("epochs/000001/lft.bin")).unwrap());
    pair.refused(2, "it is of epoch 1");
    plant(&state, 2, "lft.bin", |_| good.clone());
    assert_eq!(pair.did()["epoch"], 2);
    pair.agrees(2);
    // What is damaged here is brought again.
    std::fs::write(pair.standby().join("epochs/000002/plan.json"), "{}").unwrap();
    assert_eq!(pair.did(), json!({ "did": "took", "epoch": 2, "before": 2 }));
    pair.agrees(2);
}

/// A way to the service that breaks off once, in the middle of the tables; tells what was asked for.
fn breaking(port: u16) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    std::thread::spawn(move || {
        let mut broken = false;
        for client in listener.incoming() {
            let (mut client, mut service) =
                (client.unwrap(), TcpStream::connect(("127.0.0.1", port)).unwrap());
            let mut head = BufReader::new(client.try_clone().unwrap());
            let mut first = String::new();
            let mut rest = String::new();
            head.read_line(&mut first).unwrap();
            while !rest.ends_with("\r\n\r\n") && head.read_line(&mut rest).unwrap() > 0 {}
            let rest = rest.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
            service.write_all(format!("{first}{rest}").as_bytes()).unwrap();
            let mut answer = Vec::new();
            service.read_to_end(&mut answer).unwrap();
            let mut sent = answer.len();
            if first.contains("/lft.bin") && !broken {
                (broken, sent) = (true, answer.len() - 100);
            }
            log.lock().unwrap().push(first.split(' ').nth(1).unwrap().to_string());
            let _ = client.write_all(&answer[..sent]);
        }
    });
    (own, asked)
}

#[test]
fn a_download_that_breaks_off_goes_on_where_it_was() {
    let pair = Pair::new();
    let (port, asked) = breaking(pair.port);
    let url = format!("http://127.0.0.1:{port}");
    let (code, said) = pair.once_at(&url);
    assert!(code == 2 && said.contains("/v1/epochs/1/files/lft.bin"), "{said}");
    assert_eq!(pair.in_force(), None);
    let length = |state: &Path| std::fs::metadata(state.join("lft.bin")).unwrap().len();
    let whole = length(&pair.site.path("state/epochs/000001"));
    let kept = length(&pair.standby().join("incoming/000001"));
    assert_eq!(kept, whole - 100);
    asked.lock().unwrap().clear();
    assert_eq!(pair.once_at(&url).0, 0);
    pair.agrees(1);
    let files: Vec<String> =
        asked.lock().unwrap().iter().filter(|path| path.contains("from=")).cloned().collect();
    let rest = format!("/v1/epochs/1/files/lft.bin?from={kept}");
    assert_eq!(files, [rest.as_str(), "/v1/epochs/1/files/report.json?from=0"]);
}

#[test]
fn a_half_of_another_epoch_is_not_gone_on_with() {
    let pair = Pair::new();
    let (port, _) = breaking(pair.port);
    let url = format!("http://127.0.0.1:{port}");
    assert_eq!(pair.once_at(&url).0, 2);
    assert_eq!(pair.publish(TWO), 2);
    assert_eq!(pair.did()["epoch"], 2);
    pair.agrees(2);
}

#[test]
fn who_may_not_ask_gets_nothing() {
    let pair = Pair::new();
    pair.did();
    assert_eq!(pair.publish(TWO), 2);
    pair.token("another-token-0123456789");
    pair.refused(2, "this token is not known");
    pair.token(TOKEN);
    std::fs::set_permissions(pair.home.path().join("token"), std::fs::Permissions::from_mode(0o644)).unwrap();
    pair.refused(2, "its mode is 644");
    for (url, words) in [
        ("http://192.0.2.1:6830", "the token would be sent in the clear"),
        ("ftp://localhost", "is not where a service is"),
        ("unix:api.sock", "is not where a service is"),
        ("manager", "is not where a service is"),
    ] {
        let (code, said) = pair.once_at(url);
        assert!(code == 2 && said.contains(words), "{url}: {said}");
    }
    // A file that no epoch has, wherever the path leads.
    for path in
        ["epochs/1/files/..%2F..%2Fservice.id", "epochs/1/files/x", "epochs/9/files", "epochs/9/files/x"]
    {
        assert_eq!(refusal(pair.site.get(&format!("/v1/{path}"))).0, 404, "{path}");
    }
}

#[test]
fn two_services_are_told_apart() {
    let mut pair = Pair::new();
    pair.did();
    assert_eq!(pair.publish(TWO), 2);
    assert_eq!(pair.did()["epoch"], 2);
    // Another service, with epochs of its own, at the same place.
    let other = Pair::new();
    let (code, said) = pair.once_at(&format!("http://127.0.0.1:{}", other.port));
    assert!(code == 1 && said.contains("split brain") && said.contains("is service "), "{said}");
    // The same service, which lost what it had published.
    let first = std::fs::read(pair.site.path("state/service.id")).unwrap();
    pair.restart(|state| {
        std::fs::remove_file(state.join("current")).unwrap();
        std::os::unix::fs::symlink("epochs/000001", state.join("current")).unwrap();
        std::fs::remove_dir_all(state.join("epochs/000002")).unwrap();
    });
    assert_eq!(std::fs::read(pair.site.path("state/service.id")).unwrap(), first);
    // It publishes what was due: its second epoch is another.
    assert_eq!(pair.serving.as_ref().unwrap().line()["epoch"]["epoch"], 2);
    pair.refused(1, "epoch 2 of the service is another than epoch 2 here");
    // And one that is told to hold what it has only went back.
    pair.restart(|state| {
        std::fs::remove_file(state.join("current")).unwrap();
        std::os::unix::fs::symlink("epochs/000001", state.join("current")).unwrap();
        std::fs::remove_dir_all(state.join("epochs/000002")).unwrap();
        std::fs::write(state.join("hold.json"), "{}").unwrap();
    });
    pair.refused(1, "the service went back: its newest epoch is 1, here is 2");
}

#[test]
fn another_subnet_is_not_taken_for_this_one() {
    let pair = Pair::new();
    pair.did();
    // Cables go: the same fabric with a damage.
    pair.site.write_fabric(|c| c < 2);
    assert_eq!(pair.publish(TWO), 2);
    assert_eq!(pair.did()["epoch"], 2);
    // Other switches altogether.
    let text = std::fs::read_to_string(pair.site.path("fabric.net")).unwrap();
    pair.site.replace("fabric.net", &text.replace("20000", "70000"));
    assert_eq!(pair.publish(THREE), 3);
    pair.refused(1, "epoch 3 is for another fabric: 0 of its 6 switches");
}

#[test]
fn one_at_a_time_works_on_a_state_directory() {
    let pair = Pair::new();
    let url = format!("http://127.0.0.1:{}", pair.port);
    let mut command = pair.command(&url);
    let mut child = command.args(["--interval", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || parsed(&lines.next().unwrap().unwrap());
    assert_eq!(next(), json!({ "did": "took", "epoch": 1, "before": null }));
    assert_eq!(pair.publish(TWO), 2);
    assert_eq!(next(), json!({ "did": "took", "epoch": 2, "before": 1 }));
    let (code, said) = pair.once();
    assert!(code == 2 && said.contains("service.lock is held by process"), "{said}");
    // Nor does a service start in the copy.
    let text = std::fs::read_to_string(pair.site.path("sarouter.toml")).unwrap();
    let text =
        text.replace("directory = \"state\"", &format!("directory = \"{}\"", pair.standby().display()));
    pair.site.replace("standby.toml", &text.replace("[api]", "[api]\nenable = false"));
    let output =
        program::command(".", ["serve", "--config"]).arg(pair.site.path("standby.toml")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("service.lock is held by process"));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    // Then it goes on from the copy, whose epochs the first service never had.
    pair.site.jobs(THREE);
    let served = Serving::with(&pair.site, |serve| {
        *serve = program::command(".", ["serve", "--format", "json", "--config"]);
        serve.arg(pair.site.path("standby.toml"));
    });
    assert_eq!(served.line()["epoch"]["epoch"], 3);
    assert_eq!(served.stop(), 0);
    // The first service is told apart from it at once.
    assert_eq!(pair.publish("4|RUNNING|n[4,10]|100\n"), 3);
    pair.refused(1, "epoch 3 of the service is another than epoch 3 here");
}

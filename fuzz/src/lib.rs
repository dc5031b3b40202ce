//! A service of a small fabric in this process, so that the fuzzer sees which of its branches a request takes.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sarouter::config::Settings;
use sarouter::lab::generate::generate;
use sarouter::observe::ibnetdiscover::to_ibnetdiscover;

/// A service that has anything to say begins by then, or waits for more.
const SHORT: Duration = Duration::from_millis(20);
/// Longer than any answer may take.
const LONG: Duration = Duration::from_secs(60);

/// Where the service listens.
pub struct Service {
    directory: tempfile::TempDir,
}

impl Service {
    /// Starts it, and waits for its first epoch and its sockets. A heavy question starts this program once more, as
    /// `answer`: that never returns.
    pub fn start() -> Self {
        if std::env::args().nth(1).is_some_and(|word| word == "answer") {
            let _ = sarouter::cli::main();
            std::process::exit(0);
        }
        let directory = tempfile::tempdir().expect("a directory");
        lay_out(directory.path()).expect("files of a site");
        let config = directory.path().join("sarouter.toml");
        std::thread::spawn(move || {
            let settings = Settings::load(Some(&config)).expect("settings");
            let ended = sarouter::service::run::serve(settings, &config, &mut |_| {});
            panic!("the service has ended: {ended:?}");
        });
        let service = Self { directory };
        let begun = Instant::now();
        let is_there = |name: &str| service.path(name).exists();
        while !(is_there("current") && is_there("api.sock") && is_there("select.sock")) {
            assert!(begun.elapsed() < LONG, "the service does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        service
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("state").join(name)
    }

    /// Sends bytes to a socket of the service and takes what it says. Where it says nothing for a while it is told that
    /// no more comes, and then must end by itself.
    pub fn tell(&self, socket: &str, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.send(socket, bytes);
        let mut said = Vec::new();
        stream.set_read_timeout(Some(SHORT)).expect("a bound");
        if stream.read_to_end(&mut said).is_err() {
            let _ = stream.shutdown(Shutdown::Write);
            hear(&mut stream, &mut said);
        }
        said
    }

    /// Asks what the service answers before it ends the connection.
    pub fn ask(&self, socket: &str, question: &[u8]) -> Vec<u8> {
        let mut said = Vec::new();
        hear(&mut self.send(socket, question), &mut said);
        said
    }

    fn send(&self, socket: &str, bytes: &[u8]) -> UnixStream {
        let mut stream = UnixStream::connect(self.path(socket)).expect("the service listens");
        stream.set_write_timeout(Some(LONG)).expect("a bound");
        // Whoever is refused before he has said all may find nobody who listens.
        let _ = stream.write_all(bytes);
        stream
    }
}

/// Takes all that is said to the end.
fn hear(stream: &mut UnixStream, said: &mut Vec<u8>) {
    stream.set_read_timeout(Some(LONG)).expect("a bound");
    match stream.read_to_end(said) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("no end of an answer"),
        _ => {}
    }
}

/// A fabric of 16 hosts, two jobs, and what Slurm would say.
fn lay_out(directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir(directory.join("spool"))?;
    let fabric = generate("fattree:4x4,2").expect("a spec");
    std::fs::write(directory.join("fabric.net"), to_ibnetdiscover(&fabric))?;
    let program = |name: &str, script: &str| {
        let path = directory.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n"))?;
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755))
    };
    program("squeue", "echo '1|RUNNING|n[1-6]|100'; echo '2|RUNNING|n[7,9,11]|100'")?;
    program("sinfo", "echo n[12-16]")?;
    program("scontrol", "exit 1")?;
    let at = directory.display();
    let settings = format!(
        "[state]\ndirectory = \"state\"\nkeep_epochs = 4\n[fabric]\nsource = \"fabric.net\"\n\
         [slurm]\nsqueue = \"{at}/squeue\"\n[spool]\ndirectory = \"spool\"\n[opensm]\nwatch = false\n\
         [api]\n[handoff]\nmin_length_seconds = 0\nreroute_interval_seconds = 0\ndeadline_seconds = 2\n\
         [placement]\nselect_socket = \"state/select.sock\"\nsinfo = \"{at}/sinfo\"\nscontrol = \"{at}/scontrol\"\n"
    );
    std::fs::write(directory.join("sarouter.toml"), settings)
}

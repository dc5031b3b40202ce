//! The service's network interface and metrics, judged by other people's programs.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::testbed::{Running, await_some, free_port, run};

struct Service {
    _child: Running,
    dir: tempfile::TempDir,
    port: u16,
}

const TOKEN: &str = "0123456789abcdef-read";

impl Service {
    /// With TLS; publishes one epoch.
    fn up() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let port = free_port();
        certificate(dir.path(), "localhost", &[]);
        fs::create_dir(path("spool")).unwrap();
        fs::write(path("spool/jobs"), "1 n[1,5]\n").unwrap();
        fs::write(path("tokens"), format!("{TOKEN} read\n")).unwrap();
        for secret in ["tokens", "key.pem"] {
            fs::set_permissions(path(secret), fs::Permissions::from_mode(0o600)).unwrap();
        }
        let settings = format!(
            "[state]\ndirectory = \"state\"\n[fabric]\nsource = \"fattree:4x4,2\"\n[slurm]\nsource = \"spool\"\n\
             [spool]\ndirectory = \"spool\"\n[opensm]\nwatch = false\n[api]\ntcp = \"127.0.0.1:{port}\"\n\
             token_file = \"tokens\"\ntls_certificate = \"cert.pem\"\ntls_key = \"key.pem\"\n\
             [routing]\nmin_gain_seconds = 0\n"
        );
        fs::write(path("sarouter.toml"), settings).unwrap();
        let mut serve = Command::new(env!("CARGO_BIN_EXE_sarouter"));
        serve.args(["serve", "--format", "json", "--config"]).arg(path("sarouter.toml"));
        let mut child = Running::spawn(serve.stdout(Stdio::piped()));
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("\"epoch\""), "{line}");
        Self { _child: child, dir, port }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// What curl gets, or its exit code.
    fn curl(&self, path: &str, token: &str, more: &[&str]) -> Result<String, i32> {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--fail", "--cacert"]).arg(self.path("cert.pem"));
        // Not on the command line: others can see that.
        command.args(["--header", "@-"]).args(more).arg(format!("https://localhost:{}{path}", self.port));
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        writeln!(child.stdin.take().unwrap(), "Authorization: Bearer {token}").unwrap();
        let output = child.wait_with_output().unwrap();
        match output.status.code() {
            Some(0) => Ok(String::from_utf8(output.stdout).unwrap()),
            code => Err(code.unwrap_or(-1)),
        }
    }
}

/// Writes `cert.pem` and `key.pem`.
pub fn certificate(dir: &Path, name: &str, more: &[&str]) {
    run(Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", &format!("/CN={name}"), "-addext", &format!("subjectAltName=DNS:{name}"), "-keyout"])
        .arg(dir.join("key.pem"))
        .arg("-out")
        .arg(dir.join("cert.pem"))
        .args(more));
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn promtool_accepts_the_metrics_and_curl_the_certificate() {
    use std::os::unix::fs::PermissionsExt;
    let service = Service::up();
    let metrics = service.curl("/metrics", TOKEN, &[]).unwrap();
    assert!(metrics.contains("\nsarouter_epoch 1\n"), "{metrics}");
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.is_empty(), "promtool: {said}\n{metrics}");
    // Every series of the dashboard and of the alerts is told.
    let config = |name: &str| fs::read_to_string(crate::testbed::root().join("config").join(name)).unwrap();
    let dashboard = config("grafana-dashboard.json");
    let _: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    let both = dashboard + &config("prometheus-alerts.yml");
    let names = both.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let used: std::collections::BTreeSet<&str> =
        names.filter(|n| n.starts_with("sarouter_") || n.starts_with("process_")).collect();
    assert!(used.len() > 10, "{used:?}");
    for name in used {
        assert!(metrics.contains(&format!("# TYPE {name} ")), "{name} is not told");
    }
    // 22: HTTP says no; 60: the certificate is not the expected one; 52 and 56: no answer.
    assert_eq!(service.curl("/v1/health", "wrong-wrong-wrong-wrong", &[]), Err(22));
    assert_eq!(service.curl("/v1/look", TOKEN, &["--request", "POST"]), Err(22));
    let plain = run(Command::new("sh")
        .arg("-c")
        .arg(format!("curl --silent http://localhost:{}/v1/health; test $? != 0", service.port)));
    assert_eq!(plain, "");
    // A new certificate is used without a restart.
    let old = service.path("old.pem");
    fs::copy(service.path("cert.pem"), &old).unwrap();
    certificate(service.dir.path(), "localhost", &[]);
    fs::set_permissions(service.path("key.pem"), fs::Permissions::from_mode(0o600)).unwrap();
    await_some("the new certificate", || service.curl("/v1/health", TOKEN, &[]).ok());
    assert_eq!(service.curl("/v1/health", TOKEN, &["--cacert", old.to_str().unwrap()]), Err(60));
}

/// Each when it should, and not before.
#[test]
#[ignore = "needs Debian's prometheus"]
fn alerts_fire_when_something_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let root = crate::testbed::root();
    let alerts = fs::read_to_string(root.join("config/prometheus-alerts.yml")).unwrap();
    let wanted = fs::read_to_string(root.join("tests/data/prometheus-alerts.test.yml")).unwrap();
    // None goes untested.
    for name in alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(wanted.contains(&format!("alertname: {name}, exp_alerts")), "{name}");
    }
    fs::write(dir.path().join("prometheus-alerts.yml"), &alerts).unwrap();
    fs::write(dir.path().join("test.yml"), wanted).unwrap();
    let promtool = |words: &[&str]| {
        let output = Command::new("promtool").current_dir(dir.path()).args(words).output().unwrap();
        let said =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert!(output.status.success(), "{words:?}: {said}");
    };
    promtool(&["check", "rules", "prometheus-alerts.yml"]);
    promtool(&["test", "rules", "test.yml"]);
}

//! The web page in Chromium, served by the real service.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::browser::{Browser, forward};
use super::page_compare::select;
use super::script::script;
use super::testbed::{await_some, free_port, root, run};

/// The tokens of [`Site::with_tokens`]: for who may only ask, and for who may change things.
pub const READ: &str = "0123456789abcdef-read";
pub const WRITE: &str = "0123456789abcdef-write";

/// True once what the page compares with is there and drawn, or will not come.
pub const SETTLED: &str = "shown.baseline !== 'late' && shown.load !== null && (comparedWith() === 'before' || Boolean(shown.load.against))";

/// A service on a fabric, with a `squeue` that says what the test wants.
pub struct Site {
    pub directory: tempfile::TempDir,
    service: Option<Child>,
}

impl Site {
    /// Publishes an epoch for each list of jobs (lines `ID NODES`), then serves.
    pub fn new(fabric: &str, engine: &str, lists: &[String]) -> Self {
        Self::with(fabric, engine, lists, "", &[])
    }

    /// The same with more settings, `DIR` in them for the directory, and variables of the service.
    pub fn with(
        fabric: &str,
        engine: &str,
        lists: &[String],
        more: &str,
        variables: &[(&str, &str)],
    ) -> Self {
        const WATCH: &str = "watch = true\n";
        let mut site = Self::laid_out(fabric, engine, "", &more.replace(WATCH, ""));
        // `watch = true` is for the service: a single pass would wait for OpenSM.
        for list in lists {
            let line =
                |l: &str| l.split_once(' ').map(|(id, nodes)| format!("{id}|RUNNING|{nodes}|NONE|NONE\n"));
            let jobs: String = list.lines().filter_map(line).collect();
            site.publish(&jobs);
        }
        if more.contains(WATCH) {
            let path = site.directory.path().join("sarouter.toml");
            let settings = fs::read_to_string(&path).unwrap();
            fs::write(path, settings.replace("watch = false\n", WATCH)).unwrap();
        }
        site.serve(variables);
        site
    }

    /// With jobs as `squeue --json` tells them, an epoch for each list, and more settings.
    pub fn of_slurm(fabric: &str, lists: &[&[Value]], more: &str) -> Self {
        let mut site = Self::laid_out(fabric, "balanced", "squeue_format = \"json\"\n", more);
        for jobs in lists {
            site.publish(&serde_json::json!({"errors": [], "jobs": jobs}).to_string());
        }
        site.serve(&[]);
        site
    }

    /// With `balanced`, and an address beside the socket for whoever has one of two tokens; that address.
    pub fn with_tokens(fabric: &str, lists: &[String]) -> (Self, String) {
        let port = free_port();
        let api = format!("[api]\ntcp = \"127.0.0.1:{port}\"\ntoken_file = \"tokens\"\n");
        (Self::with(fabric, "balanced", lists, &api, &[]), format!("http://127.0.0.1:{port}/"))
    }

    fn laid_out(fabric: &str, engine: &str, slurm: &str, more: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        script(path("squeue"), &format!("#!/bin/sh\ncat {}\n", path("jobs")));
        // Lines of the section before.
        const ROUTING: [&str; 4] = ["min_gain", "baseline", "epochs_per_day", "min_pause"];
        let is_routing = |line: &&str| ROUTING.iter().any(|key| line.starts_with(key));
        let (routing, more): (Vec<&str>, Vec<&str>) = more.split_inclusive('\n').partition(is_routing);
        let (routing, more) = (routing.concat(), more.concat());
        let gain = if routing.contains("min_gain") { "" } else { "min_gain_seconds = 0\n" };
        let [state, squeue] = ["state", "squeue"].map(path);
        let settings = format!(
            "[state]\ndirectory = {state:?}\n[fabric]\nsource = {fabric:?}\n[slurm]\nsqueue = {squeue:?}\nmin_job_age_seconds = 0\n{slurm}\
             [routing]\nengine = {engine:?}\n{gain}{routing}[service]\ninterval_seconds = 3600\n[opensm]\nwatch = false\n"
        );
        // Beside other load answers take their time.
        let slow = if more.contains("[api]") { "" } else { "\n[api]\ndeadline_seconds = 60\n" };
        let more = more.replace("DIR", &directory.path().display().to_string());
        fs::write(path("sarouter.toml"), settings + &more + slow).unwrap();
        fs::write(path("tokens"), format!("{READ} read\n{WRITE} write\n")).unwrap();
        fs::set_permissions(path("tokens"), fs::Permissions::from_mode(0o600)).unwrap();
        Self { directory, service: None }
    }

    /// One pass with what `squeue` says.
    fn publish(&self, jobs: &str) {
        fs::write(self.directory.path().join("jobs"), jobs).unwrap();
        run(&mut self.sarouter("tick"));
    }

    /// Serves again after it was ended.
    pub fn serve(&mut self, variables: &[(&str, &str)]) {
        let mut serve = self.sarouter("serve");
        serve.envs(variables.iter().copied()).stdout(Stdio::null()).stderr(Stdio::null());
        self.service = Some(serve.spawn().unwrap());
    }

    /// The service hangs, or goes on.
    pub fn hang(&self, hangs: bool) {
        let signal = if hangs { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_child(self.service.as_ref().unwrap()), signal).unwrap();
    }

    pub fn sarouter(&self, word: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sarouter"));
        command.arg(word).arg("--config").arg(self.directory.path().join("sarouter.toml"));
        command
    }

    /// Where a browser finds it.
    pub fn address(&self) -> String {
        let socket = self.directory.path().join("state/api.sock");
        await_some("the socket", || socket.exists().then_some(()));
        format!("http://127.0.0.1:{}/", forward(socket))
    }
}

impl Site {
    /// Ends the service, as a machine that loses its power does.
    pub fn end(&mut self) {
        if let Some(mut service) = self.service.take() {
            let _ = service.kill();
            let _ = service.wait();
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.end();
    }
}

/// axe finds nothing on the page, with all tables open. Not tried where `SAROUTER_AXE` names no axe.
pub fn assert_accessible(browser: &Browser) {
    let Some(axe) = std::env::var_os("SAROUTER_AXE") else { return println!("no SAROUTER_AXE: not tried") };
    let axe = fs::read_to_string(axe).unwrap();
    browser.eval("document.querySelectorAll('details').forEach((d) => { d.open = true; })");
    let found = "axe.run().then((r) => r.violations.map((v) => v.id + ': ' + v.nodes[0].html))";
    let found = browser.eval(&format!("(() => {{ {axe}\n return {found}; }})()"));
    assert_eq!(found, Value::Array(Vec::new()));
}

/// Jobs in a row, then the three of the thesis' Figure 5.2.
pub fn island() -> Site {
    let scattered = fs::read_to_string(root().join("tests/data/figure-5.2.jobs")).unwrap();
    let others = "104 n[1-60]\n105 n[61-75]\n106 n[80-84,120-180]\n107 n[77-78]\n".to_string();
    Site::new("fattree:10x18,5", "balanced", &[others, scattered])
}

/// A direct torus of 64 nodes with two jobs, each announced by a prolog.
pub fn direct_torus() -> Site {
    let site = Site::new("angara:4x4x4", "angara-balanced", &[String::new()]);
    site.address();
    for (job, nodes) in [("1", "n[1-32]"), ("2", "n[33-64]")] {
        run(site.sarouter("prolog").env_remove("SLURM_JOB_ID").args(["--job", job, "--nodes", nodes]));
    }
    site
}

/// A number for what a canvas shows.
pub const PIXELS: &str = "(() => { const c = document.getElementById('now');
    const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
    let h = 0; for (let i = 0; i < d.length; i++) h = (h * 31 + d[i]) | 0; return h; })()";

pub fn text(browser: &Browser, id: &str) -> String {
    browser.eval(&format!("document.getElementById({id:?}).textContent")).as_str().unwrap().to_string()
}

fn shown_jobs(browser: &Browser) -> Vec<String> {
    let ids = browser.eval("[...document.querySelectorAll('#jobs tr')].map((row) => row.dataset.job)");
    ids.as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_string()).collect()
}

/// Loads the page and waits for the first picture.
pub fn open(site: &Site, browser: &Browser) -> String {
    let address = site.address();
    browser.go(&address);
    browser.until(
        "document.body.dataset.drawn !== undefined && document.querySelectorAll('#jobs tr').length > 0",
    );
    address
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn the_page_shows_epochs_jobs_and_load_and_asks_no_other_host() {
    let site = island();
    let browser = Browser::start(1400, 1000);
    let address = open(&site, &browser);
    assert!(
        text(&browser, "health").contains(" · healthy · epoch 2 in force"),
        "{}",
        text(&browser, "health")
    );
    let plan = fs::read_to_string(site.directory.path().join("state/epochs/000002/plan.json")).unwrap();
    let figures: Value = serde_json::from_str(&plan).unwrap();
    let most = |when: &str| figures[when]["effective"]["max"].as_u64().unwrap();
    assert_ne!(most("after"), most("before"));
    let said = format!("Epoch 2: at most {} routes inside jobs on a channel, ", most("after"));
    assert!(text(&browser, "t-now").starts_with(&said), "{}", text(&browser, "t-now"));
    assert!(text(&browser, "t-before").starts_with("The baseline ("), "{}", text(&browser, "t-before"));
    select(&browser, "against", "before");
    browser.until("document.getElementById('t-before').textContent.startsWith('Tables before')");
    let said = format!(": at most {} routes inside jobs on a channel, ", most("before"));
    assert!(text(&browser, "t-before").contains(&said), "{}", text(&browser, "t-before"));
    assert_eq!(shown_jobs(&browser), ["1", "2", "3"]);
    // What it is worth, and for which job most.
    let verdict = text(&browser, "verdict");
    assert!(
        verdict.starts_with("Now ")
            && verdict.contains(" times the ideal; OpenSM alone (")
            && verdict.contains(" % less time now. Largest load "),
        "{verdict}"
    );
    browser.click("#columns th[data-key='gain']");
    assert_eq!(browser.eval("document.querySelector('#columns th[data-key=gain]').ariaSort"), "descending");
    let gains = browser
        .eval("[...document.querySelectorAll('#jobs tr')].map((row) => Number(row.querySelector('.gain').textContent))");
    let gains: Vec<f64> = gains.as_array().unwrap().iter().map(|g| g.as_f64().unwrap()).collect();
    assert!(gains.len() == 3 && gains.is_sorted_by(|a, b| a >= b) && gains[0] >= 1.0, "{gains:?}");
    browser.click("#columns th[data-key='id']");
    browser.click("#csv");
    assert_eq!(shown_jobs(&browser), ["1", "2", "3"]);
    browser.screenshot("page");
    let picture = browser.eval(PIXELS);

    // Another epoch: its own jobs, another picture, nothing before it.
    browser.click("#epochs button[data-epoch='1']");
    browser.until("document.getElementById('t-now').textContent.startsWith('Epoch 1:')");
    browser.until("document.querySelector('#jobs tr').dataset.job === '104'");
    assert_eq!(shown_jobs(&browser), ["104", "105", "106", "107"]);
    assert!(text(&browser, "epoch").starts_with("Epoch 1,"), "{}", text(&browser, "epoch"));
    assert_eq!(browser.eval("document.querySelector('#epochs [aria-pressed=true]').dataset.epoch"), "1");
    assert_eq!(browser.eval("document.getElementById('before').closest('figure').hidden"), true);
    assert_ne!(browser.eval(PIXELS), picture);

    // A filter by node, by id, and a job alone.
    browser.write("#filter", "n83");
    browser.until("document.querySelectorAll('#jobs tr').length === 1");
    assert_eq!(shown_jobs(&browser), ["106"]);
    browser.write("#filter", "107");
    assert_eq!(shown_jobs(&browser), ["107"]);
    browser.write("#filter", "n7");
    assert_eq!(shown_jobs(&browser), ["104"], "n7 and not n[77-78]");
    browser.click("#jobs tr[data-job='104']");
    browser.until("document.getElementById('t-now').textContent.includes('routes of job 104')");
    browser.click("#all");
    browser.until("document.getElementById('t-now').textContent.includes('inside jobs')");
    browser.click("#epochs button[data-epoch='2']");
    browser.until("document.getElementById('t-now').textContent.startsWith('Epoch 2:')");

    // Only what the service has, and nothing that the policy forbids.
    let asked = browser.eval("performance.getEntriesByType('resource').map((e) => e.name)");
    let asked: Vec<&str> = asked.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(asked.len() > 6 && asked.iter().all(|url| url.starts_with(&address)), "{asked:?}");
    assert_eq!(browser.complaints(), [Value::Null; 0]);
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn dark_comes_from_the_system_or_the_button_and_is_kept() {
    let site = island();
    let browser = Browser::start(1400, 1000);
    browser.prefer("light");
    let address = open(&site, &browser);
    let paper = "getComputedStyle(document.body).backgroundColor";
    let (light, picture) = (browser.eval(paper), browser.eval(PIXELS));
    assert_eq!(light, "rgb(255, 255, 255)");
    browser.prefer("dark");
    browser.until(&format!("{paper} !== 'rgb(255, 255, 255)'"));
    assert_ne!(browser.eval(PIXELS), picture);
    browser.screenshot("page-dark");
    browser.click("#theme");
    assert_eq!((browser.eval(paper), browser.eval(PIXELS)), (light.clone(), picture));
    browser.prefer("light");
    browser.click("#theme");
    assert_eq!(text(&browser, "theme"), "dark");
    browser.go(&address);
    browser.until("document.body.dataset.drawn !== undefined");
    assert_ne!(browser.eval(paper), light);
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn names_of_switches_are_text_and_other_sites_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let net = dir.path().join("evil.net");
    let mut made = Command::new(env!("CARGO_BIN_EXE_sarouter"));
    run(made.args(["fabric", "generate", "fattree:3x4,2", "--out"]).arg(&net));
    let evil = fs::read_to_string(&net).unwrap().replace("\"S0000\"", "\"<img src=x onerror=alert(1)>\"");
    fs::write(&net, evil).unwrap();
    let site = Site::new(net.to_str().unwrap(), "balanced", &["1 n[1-12]\n".to_string()]);
    let browser = Browser::start(900, 900);
    let address = open(&site, &browser);
    browser.click("#pictures ~ details summary");
    assert!(
        text(&browser, "busiest").contains("<img src=x onerror=alert(1)>:"),
        "{}",
        text(&browser, "busiest")
    );
    assert_eq!(browser.eval("document.querySelectorAll('img').length"), 0);
    assert_eq!(browser.complaints(), [Value::Null; 0]);

    // What a page of another site makes a browser send to a forwarded port.
    let from = |site: &str| asked(&address, "GET /v1/health", &format!("Sec-Fetch-Site: {site}\r\n"));
    assert_eq!(["none", "same-origin", "same-site", "cross-site"].map(from), [200, 200, 403, 403]);
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn a_node_is_found_a_job_tried_out_and_the_address_says_what_is_shown() {
    let site = island();
    let browser = Browser::start(1400, 1000);
    let address = open(&site, &browser);
    let hash = || browser.eval("decodeURIComponent(location.hash)").as_str().unwrap().to_string();
    assert_eq!(hash(), "");
    browser.write("#filter", "n83");
    browser.eval("document.getElementById('filter').dispatchEvent(new Event('change'))");
    browser.until("document.getElementById('node').textContent.startsWith('n83: LID ')");
    assert_eq!(hash(), "#filter=n83");

    // Where a kept address leads; a job that is over is forgotten.
    browser.go("about:blank");
    browser.go(&format!("{address}#job=2&sort=-gain"));
    browser.until("document.getElementById('t-now').textContent.includes('routes of job 2')");
    browser.until("document.querySelector('#columns th[data-key=gain]').ariaSort === 'descending'");
    assert_eq!(hash(), "#job=2&sort=-gain");
    browser.eval("location.hash = '#epoch=1'");
    browser.until("document.getElementById('t-now').textContent.startsWith('Epoch 1:')");
    browser.go("about:blank");
    browser.go(&format!("{address}#job=999"));
    browser.until("document.querySelectorAll('#jobs tr').length === 3");
    browser.until("document.getElementById('t-now').textContent.includes('inside jobs')");
    assert_eq!(hash(), "");

    // What if a job ran there?
    let ask = |nodes: &str, pattern: &str| {
        browser.write("#if-nodes", nodes);
        browser.write("#if-pattern", pattern);
        browser.click("#whatif button");
        browser.until("!['', 'asking …'].includes(document.getElementById('if-answer').textContent)");
        text(&browser, "if-answer")
    };
    let said = ask("n[21-40,101-120]", "ring");
    assert!(said.starts_with("Routes would change") && said.contains("This job: "), "{said}");
    assert!(said.contains("times what their own cables need"), "{said}");
    browser.screenshot("page-what-if");

    // The picture as a document, and the channels of a switch.
    let parsed = "new DOMParser().parseFromString(shown.pictures.now.svg(), 'image/svg+xml')";
    assert_eq!(browser.eval(&format!("{parsed}.querySelectorAll('circle').length")), 15);
    assert_eq!(browser.eval(&format!("{parsed}.querySelectorAll('parsererror').length")), 0);
    browser.click("#pictures ~ details summary");
    let name = browser.eval("shown.fabric.names[0]").as_str().unwrap().to_string();
    browser.write("#which", &name);
    let others = format!(
        "[...document.querySelectorAll('#busiest tr')].filter((r) => !r.textContent.includes({name:?})).length"
    );
    browser.until(&format!("{others} === 0 && document.querySelectorAll('#busiest tr').length > 0"));
    // What people did.
    assert_eq!(browser.eval("document.getElementById('acts').closest('details').hidden"), true);
    run(site.sarouter("hold").args(["--reason", "cable work"]));
    browser.until("document.getElementById('acts').textContent.includes('cable work')");
    assert_eq!(browser.eval("document.getElementById('acts').closest('details').hidden"), false);
    assert_eq!(browser.complaints(), [Value::Null; 0]);
    // The browser complains of this one itself.
    let said = ask("n[21-40", "");
    assert!(said.contains("n[21-40"), "{said}");
}

#[test]
#[ignore = "needs Debian's chromium-driver, and axe.min.js where SAROUTER_AXE says"]
fn axe_finds_nothing() {
    let jobs = || ["1 n[1-30]\n".to_string(), "2 n[3,9,20-40]\n".to_string()];
    let sites = [
        island(),
        Site::new("torus:4x4x4,hosts=2", "updown", &["1 n[1-64]\n".to_string()]),
        Site::new("dragonfly:4,2,2,9", "balanced", &jobs()),
        direct_torus(),
    ];
    for site in sites {
        for scheme in ["light", "dark"] {
            let browser = Browser::start(1400, 1000);
            browser.prefer(scheme);
            open(&site, &browser);
            assert_accessible(&browser);
        }
    }
}

/// The status of a request (method and path) without a body, with more headers.
pub fn asked(address: &str, what: &str, header: &str) -> u16 {
    let host = address.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(host).unwrap();
    let request = format!("{what} HTTP/1.1\r\nHost: {host}\r\n{header}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
#[ignore = "takes a minute; needs Debian's chromium-driver"]
fn the_picture_of_a_thousand_switches_is_drawn_once_all_of_it_is_known() {
    let jobs = |shift: usize| {
        let node = |i: usize| (i * 7 + shift) % 1000 + 1;
        let nodes =
            |job: usize| (0..25).map(|i| format!("n{}", node(job * 25 + i))).collect::<Vec<_>>().join(",");
        (0..40).map(|job| format!("{} {}\n", 1000 + job, nodes(job))).collect::<String>()
    };
    let site = Site::new("torus:10x10x10,hosts=1", "updown", &[jobs(0), jobs(3)]);
    let browser = Browser::start(1400, 1000);
    let address = open(&site, &browser);
    let drawn = || browser.eval("Number(document.body.dataset.drawn)").as_u64().unwrap();
    let mut times = vec![drawn()];
    browser.screenshot("page-torus");
    for _ in 0..5 {
        browser.go("about:blank");
        browser.go(&address);
        browser.until("document.body.dataset.drawn !== undefined");
        times.push(drawn());
    }
    println!("milliseconds to the first picture, the first with nothing computed before: {times:?}");
    // Planes of a torus: all switches, both directions of all cables.
    let all = "[shown.pictures.now.drawn.place.length, shown.pictures.now.lines.length]";
    assert_eq!(browser.eval(all), serde_json::json!([1000, 6000]));
}

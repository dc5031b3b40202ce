//! The web page in Chromium on five fabrics: a tree of 180 hosts and one of 2,000, in short of 640, a dragonfly, a torus of
//! switches, a torus without.

use serde_json::{Value, json};

use super::browser::Browser;
use super::often::often;
use super::page::{PIXELS, SETTLED, Site, assert_accessible, direct_torus, open, text};
use super::page_compare::{find, hash, select};
use super::testbed::root;

/// A job of the newest epoch of each, on several switches.
const JOB: &str = "2";

/// A fabric, and what the page makes of it.
struct Case {
    name: &'static str,
    site: Site,
    /// The class that draws it, and what its places follow.
    drawn: [&'static str; 2],
    /// Nodes of a job that is not there.
    nodes: &'static str,
}

/// Who submits jobs, by what, for how long they have run.
const SUBMITTED: [(&str, &str, i64); 4] =
    [("zoe", "climate", 400), ("bob", "cfd-wing", 95), ("ann", "protein", 31), ("kim", "lattice", 12)];

/// A job as `squeue --json` tells it.
fn job(id: usize, nodes: &str) -> Value {
    let (user, name, minutes) = SUBMITTED[id % SUBMITTED.len()];
    let start = chrono::Utc::now().timestamp() - 60 * minutes;
    json!({"job_id": id, "job_state": "RUNNING", "nodes": nodes, "user_name": user, "name": name,
        "partition": if minutes > 60 { "long" } else { "batch" }, "start_time": start})
}

/// Two epochs, each of a list of jobs: numbers and nodes.
fn made(fabric: &str, lists: [&[(usize, &str)]; 2]) -> Site {
    made_with(fabric, lists, "")
}

fn made_with(fabric: &str, lists: [&[(usize, &str)]; 2], more: &str) -> Site {
    let lists = lists.map(|list| list.iter().map(|(id, nodes)| job(*id, nodes)).collect::<Vec<_>>());
    Site::of_slurm(fabric, &[&lists[0], &lists[1]], more)
}

/// Those of the thesis' Figure 5.2, after jobs in a row.
fn tree(more: &str) -> Site {
    let scattered = std::fs::read_to_string(root().join("tests/data/figure-5.2.jobs")).unwrap();
    let number = |id: &str| id.parse().unwrap();
    let scattered: Vec<(usize, &str)> =
        scattered.lines().filter_map(|l| l.split_once(' ')).map(|(id, nodes)| (number(id), nodes)).collect();
    let row = [(104, "n[1-60]"), (105, "n[61-75]"), (106, "n[80-84,120-180]"), (107, "n[77-78]")];
    made_with("fattree:10x18,5", [&row, &scattered], more)
}

/// On three levels.
fn large_tree() -> Case {
    let (fabric, lists, nodes): (_, [&[(usize, &str)]; 2], _) = match often(2, 1) {
        1 => (
            "kary:8,3,hosts=10",
            [&[(1, "n[1-100]")], &[(1, "n[1-100]"), (2, "n[101-240]"), (3, "n[241-260,341-640]")]],
            "n[261-320]",
        ),
        _ => (
            "kary:12,3,hosts=14",
            [&[(1, "n[1-300]")], &[(1, "n[1-300]"), (2, "n[301-700]"), (3, "n[701-760,1001-1900]")]],
            "n[761-820]",
        ),
    };
    Case { name: "large-tree", site: made(fabric, lists), drawn: ["Picture", "levels"], nodes }
}

/// Two epochs each.
fn cases() -> Vec<Case> {
    vec![
        Case { name: "tree", site: tree(""), drawn: ["Picture", "levels"], nodes: "n[21-40,101-120]" },
        large_tree(),
        Case {
            name: "dragonfly",
            site: made(
                "dragonfly:6,3,3,10",
                [&[(1, "n[1-60]")], &[(1, "n[1-60]"), (2, "n[61-120]"), (3, "n[121-170]")]],
            ),
            drawn: ["Matrix", "circle"],
            nodes: "n[171-180]",
        },
        Case {
            name: "torus",
            site: made("torus:4x4x4,hosts=4", [&[(1, "n[1-100]")], &[(1, "n[1-100]"), (2, "n[101-200]")]]),
            drawn: ["Picture", "grid"],
            nodes: "n[201-240]",
        },
        Case { name: "direct-torus", site: direct_torus(), drawn: ["Picture", "grid"], nodes: "n[1-8]" },
    ]
}

/// Kept from now on instead of saved: the name and the text of the newest file.
const CATCH_FILES: &str = "(window.save = (name, _, text) => { window.saved = [name, text]; }) && true";

fn saved(browser: &Browser, button: &str) -> [String; 2] {
    browser.click(button);
    [0, 1].map(|i| browser.eval(&format!("window.saved[{i}]")).as_str().unwrap().to_string())
}

#[test]
#[ignore = "takes minutes; needs Debian's chromium-driver, and axe.min.js where SAROUTER_AXE says"]
fn five_fabrics_are_shown_searched_tried_out_saved_and_found_again() {
    for case in cases() {
        println!("{}", case.name);
        let browser = Browser::start(1400, 1000);
        let address = open(&case.site, &browser);
        browser.eval(CATCH_FILES);
        strip_and_timeline(&case, &browser);
        picture_of_a_job(&case, &browser);
        searches(&case, &browser);
        files(&case, &browser);
        address_restores(&case, &browser, &address);
        what_if(&case, &browser);
        assert_accessible(&browser);
        assert_eq!(browser.complaints(), [Value::Null; 0], "{}", case.name);
    }
}

impl Case {
    fn is_direct(&self) -> bool {
        self.name == "direct-torus"
    }
}

fn strip_and_timeline(case: &Case, browser: &Browser) {
    let newest = browser.eval("shown.current").as_u64().unwrap();
    let health = text(browser, "health");
    let said = match case.is_direct() {
        true => format!("live · healthy · change {newest} on the nodes"),
        false => format!("healthy · epoch {newest} in force"),
    };
    assert!(health.contains(&said) && health.contains("last pass "), "{}: {health}", case.name);
    let verdict = text(browser, "verdict");
    assert!(verdict.starts_with("Now ") && verdict.contains(" times the ideal"), "{}: {verdict}", case.name);
    // A direct torus is not routed without jobs.
    let is_beside = verdict.contains("; OpenSM alone (");
    assert_eq!(is_beside, !case.is_direct(), "{}: {verdict}", case.name);
    assert_eq!(newest, 2, "{}", case.name);
    let labels = "[...document.querySelectorAll('#timeline .label')].map((e) => Number(e.getAttribute('y'))).sort((a, b) => a - b)";
    let labels: Vec<f64> = serde_json::from_value(browser.eval(labels)).unwrap();
    let is_apart = labels.windows(2).all(|pair| pair[1] - pair[0] > 13.9);
    assert!(is_apart && labels.last() < Some(&127.0), "{}: {labels:?}", case.name);
    browser.click("#epochs button[data-epoch='1']");
    if case.is_direct() {
        browser.until("document.getElementById('epoch').textContent.startsWith('Change 1, not drawn below')");
    } else {
        browser.until("document.getElementById('t-now').textContent.startsWith('Epoch 1:')");
        browser.until("document.getElementById('why').textContent.includes('nothing was in force')");
    }
    assert_eq!(hash(browser), "#epoch=1", "{}", case.name);
    browser.click("#epochs button[data-epoch='2']");
    browser.until("!document.getElementById('epoch').textContent.includes('not drawn')");
    browser.until("/^(Epoch|Change) 2:/.test(document.getElementById('t-now').textContent)");
    if !case.is_direct() {
        // It takes room: a click before would miss its row.
        browser.until("document.getElementById('why').textContent.includes('Jobs that came: ')");
    }
}

fn picture_of_a_job(case: &Case, browser: &Browser) {
    let kind = browser.eval("[shown.pictures.now.constructor.name, shown.fabric.layout]");
    assert_eq!(kind, Value::from(case.drawn.to_vec()), "{}", case.name);
    let is_chosen = browser.eval("document.getElementById('as').checkVisibility()");
    assert_eq!(is_chosen, case.drawn[0] == "Matrix", "{}", case.name);
    let all = browser.eval(PIXELS);
    browser.click(&format!("#jobs tr[data-job='{JOB}']"));
    browser.until(&format!("document.getElementById('t-now').textContent.includes('routes of job {}')", JOB));
    assert_ne!(browser.eval(PIXELS), all, "{}", case.name);
    // Its channels alone carry something, and not all do.
    let used = browser.eval("shown.load.now.filter((n) => n > 0).length").as_u64().unwrap();
    let channels = browser.eval("shown.load.now.length").as_u64().unwrap();
    assert!(0 < used && used < channels, "{}: {used} of {channels}", case.name);
    let selected = browser.eval("document.querySelector('#jobs tr[aria-selected=true]').dataset.job");
    assert_eq!(selected, JOB, "{}", case.name);
}

fn searches(case: &Case, browser: &Browser) {
    let name = browser.eval("shown.fabric.names[shown.fabric.names.length - 1]");
    let name = name.as_str().unwrap();
    let found = find(browser, name);
    let what = if case.is_direct() { "node" } else { "switch" };
    assert!(found.contains(&format!("{what} {name}")), "{}: {found}", case.name);
    if browser.eval("document.querySelectorAll('#found button').length") == 1 {
        assert!(text(browser, "picked").contains(&format!(" {name}: ")), "{}", case.name);
    }
    let found = find(browser, "n5");
    let what = if case.is_direct() { "node n5 at " } else { "adapter n5, LID " };
    assert!(found.contains(what), "{}: {found}", case.name);
    browser.click("#found li:first-child button");
    assert_ne!(text(browser, "picked"), "", "{}", case.name);
    browser.until("document.getElementById('p-title').textContent === 'node n5'");
    browser.click("#p-close");
}

fn files(case: &Case, browser: &Browser) {
    let [name, csv] = saved(browser, "#csv");
    assert_eq!(name, "jobs-epoch-2.csv");
    let jobs = browser.eval("shown.jobs.length").as_u64().unwrap();
    assert_eq!(csv.lines().count() as u64, jobs + 1, "{}: {csv}", case.name);
    assert!(csv.lines().any(|l| l.starts_with(&format!("\"{JOB}\",\""))), "{csv}");
    let [_, channels] = saved(browser, "#channels");
    let count = browser.eval("shown.load.now.length").as_u64().unwrap();
    assert_eq!(channels.lines().count() as u64, count + 1, "{}", case.name);
    let [name, svg] = saved(browser, "#svg");
    assert_eq!(name, "load-epoch-2.svg");
    let parsed = "new DOMParser().parseFromString(window.saved[1], 'image/svg+xml')";
    assert_eq!(browser.eval(&format!("{parsed}.querySelectorAll('parsererror').length")), 0, "{svg:.300}");
    let paths = browser.eval(&format!("{parsed}.querySelectorAll('path').length")).as_u64().unwrap();
    assert!(paths > 1, "{}: what is used and what is not are drawn: {paths}", case.name);
}

fn address_restores(case: &Case, browser: &Browser, address: &str) {
    browser.click("#columns th[data-key='node_count']");
    if case.drawn[0] == "Matrix" {
        select(browser, "as", "circle");
    }
    // Nothing is picked, as nothing of the address picks it.
    browser.write("#find", "no such name");
    browser.click("#finding button");
    browser.until("document.getElementById('found-count').textContent === 'nothing is called so'");
    browser.eval("pick(null)");
    browser.until(SETTLED);
    let seen = || {
        let order = "[...document.querySelectorAll('#jobs tr')].map((row) => row.dataset.job).join()";
        let kind = browser.eval("shown.pictures.now.constructor.name");
        (hash(browser), text(browser, "t-now"), browser.eval(order), browser.eval(PIXELS), kind)
    };
    let before = seen();
    assert!(before.0.contains(&format!("job={JOB}")) && before.0.contains("sort=-node_count"));
    let kept = browser.eval("location.hash");
    browser.go("about:blank");
    browser.go(&format!("{address}{}", kept.as_str().unwrap()));
    browser.until(&format!("document.getElementById('t-now').textContent === {:?}", before.1));
    browser.until("document.getElementById('found-count').textContent !== ''");
    browser.until("document.getElementById('scale').textContent !== ''");
    browser.until(SETTLED);
    assert_eq!(seen(), before, "{}", case.name);
}

fn what_if(case: &Case, browser: &Browser) {
    browser.write("#if-nodes", case.nodes);
    browser.write("#if-pattern", "ring");
    browser.click("#whatif button");
    browser.until("!['', 'asking …'].includes(document.getElementById('if-answer').textContent)");
    let said = text(browser, "if-answer");
    assert!(said.starts_with("Routes would "), "{}: {said}", case.name);
    assert!(said.contains("This job: ") || said.contains("what-if: "), "{}: {said}", case.name);
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn the_pointer_on_an_epoch_tells_jobs_gain_and_entries_and_the_list_marks_winners() {
    let site = tree("min_gain_seconds = 1\nepochs_per_day = 0\nmin_pause_seconds = 0\n");
    let browser = Browser::start(1400, 1000);
    open(&site, &browser);
    let plan = std::fs::read_to_string(site.directory.path().join("state/epochs/000002/plan.json")).unwrap();
    let plan: Value = serde_json::from_str(&plan).unwrap();
    let (gain, blocks) = (plan["worth"]["gain"].as_f64().unwrap(), &plan["worth"]["changed_blocks"]);
    browser.eval("timeline.point(1)");
    let told = "document.querySelector('#timeline .told').textContent";
    browser.until(&format!("{told}.includes('Jobs that came: ')"));
    let said = browser.eval(told);
    let said = said.as_str().unwrap();
    assert!(
        said.contains("jobs changed: ")
            && said.contains(". Jobs that came: 1, 2, 3; that went: 104, 105, 106, 107. ")
    );
    assert!(said.contains(&format!(". Gain {gain:.2} node-hours")), "{said}");
    assert!(said.contains(&format!(": {blocks} blocks of 64 table entries written, ")), "{said}");
    // Of the first there is nothing before it, and nothing was asked of it.
    browser.eval("timeline.point(0)");
    browser.until(&format!("did.get(1) === '' && {told}.startsWith('epoch 1, ')"));

    let marks = "[...document.querySelectorAll('#jobs .gain')].map((cell) => [cell.className, Math.sign(cell.textContent)])";
    assert_eq!(browser.eval(marks), json!([["gain won", 1], ["gain won", 1], ["gain won", 1]]));
    select(&browser, "gains", "losers");
    assert_eq!((text(&browser, "count").as_str(), hash(&browser).as_str()), ("0 of 3 jobs", "#gains=losers"));
    // All at once: the next look would bring the true figure.
    let one_loses = format!(
        "(() => {{ shown.jobs[1].baseline = 1; showJobs(); const lost = {marks}; $('gains').value = 'winners'; showJobs();
        return [lost, $('count').textContent]; }})()"
    );
    assert_eq!(browser.eval(&one_loses), json!([[["gain lost", -1]], "2 of 3 jobs"]));
    assert_eq!(browser.complaints(), [Value::Null; 0]);
}

/// The pictures of docs: `scripts/screenshots`. All of the page, from the first line on.
#[test]
#[ignore = "makes the screenshots of docs; needs Debian's chromium-driver"]
fn screenshots() {
    // Otherwise nobody looks at them.
    if std::env::var_os("SAROUTER_SCREENSHOTS").is_none() {
        return;
    }
    for case in cases() {
        println!("{}", case.name);
        let browser = Browser::start(1400, 1700);
        browser.prefer(if case.name == "torus" { "dark" } else { "light" });
        open(&case.site, &browser);
        browser.until("document.getElementById('why').textContent !== ''");
        // Pictures that show a loss would speak against what they are for.
        let verdict = text(&browser, "verdict");
        assert!(!verdict.contains("gain nothing"), "{}: {verdict}", case.name);
        let gains = "[...document.querySelectorAll('#jobs .gain')].map((cell) => Number(cell.textContent))";
        let gains: Vec<f64> = serde_json::from_value(browser.eval(gains)).unwrap();
        assert!(!gains.is_empty() && gains.iter().all(|gain| *gain >= 0.0), "{}: {gains:?}", case.name);
        let height = browser
            .eval("Math.ceil(document.querySelector('main').getBoundingClientRect().bottom + scrollY)");
        browser.resize(1400, height.as_u64().unwrap());
        let is_drawn = "innerHeight === document.documentElement.clientHeight && shown.pictures.now.drawn.width === $('now').clientWidth";
        browser.until(is_drawn);
        for part in ["state", "verdict", "timeline", "jobs", "now"] {
            let seen = format!(
                "(() => {{ const r = $({part:?}).getBoundingClientRect(); return r.height > 10 && r.top >= 0 && r.bottom <= innerHeight; }})()"
            );
            assert_eq!(browser.eval(&seen), true, "{}: {part}", case.name);
        }
        browser.screenshot(&format!("page-{}", case.name));
    }
}

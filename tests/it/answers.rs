//! What an operator asks, answered by one command each: the table "Questions" of `docs/OPERATE.md`, on a service that
//! runs, is held, and makes a job wait.

use std::fs;
use std::process::Command;

use crate::site::{Serving, Site};

/// The question as the table has it, exit code, and what decides the answer.
type Row = (&'static str, i32, &'static [&'static str]);

/// Whatever else is wrong with a test's site.
const ANY: i32 = i32::MIN;

/// While the service is held.
const HELD: &[Row] = &[
    ("Is all well?", 1, &["NOT healthy"]),
    (
        "Are we held, by whom, since when and why?",
        1,
        &["HELD        epoch 2 is held since ", " by ", "(new spines)"],
    ),
    ("Is OpenSM behind?", 1, &["epoch 2 is published, OpenSM has epoch 1 in force"]),
    ("Who held, resumed or rolled back, and when?", 0, &["  held by ", ": new spines"]),
    ("Does the site fit?", ANY, &[" to fix"]),
    ("Who may publish, hold and roll back?", ANY, &["publish, hold and roll back: ", "also nobody else"]),
];

/// While it is not.
const FREE: &[Row] = &[
    ("Who held, resumed or rolled back, and when?", 0, &["  held by ", "  resumed by "]),
    ("What was published, and what did it gain?", 0, &["      1  ", "\n*      2  ", "jobs changed"]),
    ("What was the worst epoch this week?", 0, &["mean slow-down"]),
    ("Why was there an epoch at 14:05?", 0, &["epoch 2, published at", "jobs came   17 (3 nodes)"]),
    ("What changed in the last epoch?", 0, &["jobs came   17 (3 nodes)", "jobs went   none"]),
    ("What would OpenSM alone give?", 0, &["with the best engine that knows no jobs"]),
    ("What is in epoch 2?", 0, &["epoch         2, in force", "3 nodes  n[2,6,15]"]),
    ("Which cable is worst, which ports, whose routes?", 0, &["from -> to", "] -> S000", " ("]),
    ("Do the switches have what the epoch says?", 0, &["Unicast lids [0x0-0x16]"]),
    ("Which job gains least?", 0, &["gain, %"]),
    ("Which jobs wait, and how long?", 0, &["no job waits for routes"]),
    ("What did job 17 get?", 0, &["job         17, running, 3 nodes under 3 switches"]),
    ("In which order do the ranks of job 17 exchange fastest?", 0, &["n15"]),
    ("Where is node n17, and whose is it?", 0, &["node        n15", " of switch S0003", "jobs        17"]),
    (
        "Which LID and SL does a pair use, and which way?",
        0,
        &["n1 -> n15: LID 21, SL ", "epoch 2", "S0000 ", "S0003 "],
    ),
    ("Which way did it go before?", 0, &["n1 -> n15: LID 21, SL ", "epoch 1"]),
    ("What would be done now?", 0, &["nothing"]),
    ("What would be done for other jobs?", 1, &["due"]),
    ("Which nodes route best for a job of four?", 0, &["nodes         n"]),
    ("Which engine is best for the jobs of now?", 0, &["balanced", "dfsssp", "accepted"]),
    ("Are the routes in force free of deadlock?", 0, &["accepted"]),
    ("What is the fabric, as the service reads it?", 0, &["switches              6"]),
    ("Which nodes of Slurm have no adapter?", 1, &["1 nodes without adapters\n  n77"]),
    ("How many connections are lost when two cables fail?", 0, &["dfsssp", "Prop. 4.2"]),
    ("Which jobs of a direct torus end when a link or node fails?", 0, &["angara-balanced", "jobs over"]),
    ("Is it worth it here?", 0, &["slow-down"]),
    ("Is it a day with routes for jobs or without?", 1, &["there is no trial"]),
];

/// Commands of the table, by question.
fn command_of(table: &str, question: &str) -> String {
    let start = format!("| {question} | `");
    let line = table.lines().find_map(|line| line.strip_prefix(&start));
    let line = line.unwrap_or_else(|| panic!("docs/OPERATE.md does not answer: {question}"));
    line.split('`').next().unwrap().to_string()
}

/// What a question's command says, as people read it.
fn ask(site: &Site, table: &str, question: &str) -> (i32, String) {
    let path = |name: &str| site.path(name).display().to_string();
    let history = site.run(&["history"]).1;
    let rows: serde_json::Value = serde_json::from_str(&history).unwrap();
    let created = rows["epochs"][1]["created"].as_str().unwrap_or_default();
    let typed = command_of(table, question);
    let words = typed.split(' ').skip(1).map(|word| match word {
        "FABRIC" => path("fabric.net"),
        "TORUS" => "angara:4x4".to_string(),
        "JOBS" => path("more"),
        "TRACE" => path("trace"),
        "LIST" => "n[1-16,77]".to_string(),
        "STATE/current" => path("state/current"),
        // The day of the test, and a node that this small fabric has.
        "14:05" => created.get(..16).unwrap_or_default().to_string(),
        "n17" => "n15".to_string(),
        word => word.to_string(),
    });
    let output = site.in_words(words).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), said)
}

fn try_rows(site: &Site, table: &str, rows: &[Row]) {
    for (question, code, parts) in rows {
        let (found, said) = ask(site, table, question);
        assert!(*code == ANY || found == *code, "{question}: {found}: {said}");
        for part in *parts {
            assert!(said.contains(part), "{question}: {part:?} is not in:\n{said}");
        }
    }
}

#[test]
fn each_question_has_its_answer_in_one_command() {
    let paper = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/OPERATE.md");
    let table = fs::read_to_string(paper).unwrap();
    let site = Site::new("interval_seconds = 3600");
    site.settings(
        "[handoff]\nmin_length_seconds = 0\nreroute_interval_seconds = 0\ndeadline_seconds = 100\n",
    );
    site.replace("more", "1 n[1,5,9]\n17 n[2,6,15]\n3 n[3,7,11]\n");
    site.replace(
        "trace",
        "JobID|State|Submit|Start|End|NodeList\n\
         17|COMPLETED|2026-12-01T10:00:00|2026-12-01T10:00:00|2026-12-01T11:00:00|n[1,5,9]\n",
    );
    let serving = Serving::routed(&site);
    site.jobs("1|RUNNING|n[1,5,9]|100\n17|RUNNING|n[2,6,15]|100\n");
    serving.signal(rustix::process::Signal::HUP);
    assert_eq!(serving.line()["epoch"]["epoch"], 2);

    assert_eq!(site.run(&["hold", "--reason", "new spines"]).0, 0);
    let status = serde_json::json!({
        "format": 1, "plugin": "0.1.0", "opensm": "OpenSM 3.3.23", "pid": 7, "running": true,
        "written": chrono::Utc::now(), "heartbeat": 600, "engine": "sarouter", "generation": 1,
        "fingerprint": "00", "layers": 1, "acknowledged": "2026-01-01T00:00:00Z", "routings": 2,
        "lost_entries": 0, "uncovered_lids": 0, "guest_lids": 0,
        "refused_generation": null, "refused_reason": null,
    });
    site.replace("state/opensm-status.json", &status.to_string());
    // OpenSM has had its time.
    let mut touch = Command::new("touch");
    assert!(
        touch.args(["-h", "-d", "1 hour ago"]).arg(site.path("state/current")).status().unwrap().success()
    );
    try_rows(&site, &table, HELD);
    serving.until(|| site.log().contains("audit: an administrator's hold"));

    assert_eq!(site.run(&["resume"]).0, 0);
    serving.until(|| site.log().contains("held=false"));
    fs::remove_file(site.path("state/opensm-status.json")).unwrap();
    try_rows(&site, &table, FREE);

    let epochs = |words: &[&str]| {
        let told: serde_json::Value = serde_json::from_str(&site.run(words).1).unwrap();
        told["epochs"].as_array().unwrap().clone()
    };
    let slow = |epoch: &serde_json::Value| epoch["slowdown_after"].as_f64().unwrap();
    let all = epochs(&["history"]);
    let worst = epochs(&["history", "--days", "7", "--worst", "1"]);
    assert!(
        worst.len() == 1 && all.iter().all(|epoch| slow(epoch) <= slow(&worst[0])),
        "{worst:?} of {all:?}"
    );
    assert_eq!(epochs(&["history", "--last", "1"]), all[1..]);
    assert_eq!(epochs(&["history", "--days", "4294967295"]), all);

    // Slurm does not answer, so a job that starts has to wait.
    site.squeue(
        "while ! [ -e \"$(dirname \"$0\")/go\" ]; do sleep 0.05; done; cat \"$(dirname \"$0\")/jobs\"",
    );
    let mut prolog = site.command(&["prolog", "--job", "4", "--nodes", "n[4,8]"]);
    let mut prolog = prolog.stdout(std::process::Stdio::null()).spawn().unwrap();
    serving.until(|| {
        ask(&site, &table, "Which jobs wait, and how long?").1.contains("job 4, 2 nodes, has waited")
    });
    site.replace("go", "");
    assert!(prolog.wait().unwrap().success());
    assert_eq!(serving.stop(), 0);
}

//! Every command on every kind of network: on what a service serves, and on a network that is named.

use crate::site::{Serving, Site};

/// The exit code, and words of what is printed (of the error, where the code is 2).
type Wanted = (i32, &'static str);

/// Whatever else is wrong with a test's site.
const ANY: i32 = i32::MIN;

/// What is typed, what comes of it on a switched fabric, what on a direct torus. `STATE` and `MORE` stand for
/// paths of the site.
type Row = (&'static str, Wanted, Wanted);

/// In this order, while a service with routes for job 1 runs.
const LIVE: &[Row] = &[
    ("status", (0, "\"healthy\": true"), (0, "\"sizes\": \"4x4\"")),
    ("history", (0, "\"reason\": \"first\""), (0, "\"jobs_in\": [")),
    ("show current", (0, "\"in_force\": true"), (0, "\"reason\": \"first\"")),
    ("show 1", (0, "\"engine\": \"dfsssp\""), (0, "\"engine\": \"angara-sar\"")),
    ("show 1 --lft", (2, "no --format json"), (2, "a direct torus has no forwarding tables")),
    (
        "follow unix:STATE/api.sock --state STATE/standby --once",
        (0, "{\"did\":\"took\",\"epoch\":1"),
        (2, "there is nothing to follow"),
    ),
    ("show 1 --cables 2", (0, "\"routes\": "), (2, "a direct torus has no forwarding tables")),
    ("explain 1", (0, "\"reason\": \"first\""), (0, "\"reason\": \"first\"")),
    ("explain 1", (0, "\"oblivious\": 1"), (0, "\"reason\": \"first\"")),
    ("history", (0, "\"slowdown_oblivious\": 1"), (0, "\"slowdown_oblivious\": null")),
    ("show 1", (0, "\"oblivious\": 1"), (0, "\"engine\": \"angara-sar\"")),
    ("explain 9", (2, "no epoch 9"), (2, "no change 9")),
    ("show 9", (2, "no epoch 9"), (2, "no change 9")),
    ("job", (0, "\"id\": \"1\""), (0, "\"id\": \"1\"")),
    ("job 1", (0, "\"now\": {"), (0, "\"now\": {")),
    ("job 9", (1, "no job 9"), (1, "no job 9")),
    ("order --job 1", (0, "\"routes\": \"epoch 1\""), (0, "\"routes\": \"its tables\"")),
    ("order --job 9", (2, "no job 9"), (2, "no job 9")),
    ("plan", (0, "\"due\": false"), (0, "\"due\": false")),
    ("plan --jobs MORE", (1, "\"due\": true"), (1, "\"starting\": [\n    \"2\"")),
    ("plan --jobs MORE", (1, "\"slowdown_mean\""), (1, "\"slowdown_mean\"")),
    ("prolog --job 2 --nodes n[2,6]", (0, "\"in_force\""), (0, "\"in_force\"")),
    ("epilog --job 2", (0, ""), (0, "")),
    ("hold --reason test", (0, "\"reason\": \"test\""), (0, "\"reason\": \"test\"")),
    ("status", (1, "holds what is in force"), (1, "holds what is in force")),
    ("prolog --job 3 --nodes n[3,7]", (0, "\"held\""), (0, "\"held\"")),
    ("resume", (0, "true"), (0, "true")),
    ("resume", (1, "false"), (1, "false")),
    ("doctor", (ANY, "engine"), (ANY, "direct torus 4x4")),
    ("rollback 9", (2, "no epoch 9"), (2, "tables belong to jobs")),
    ("trial", (1, "null"), (1, "null")),
    ("trial --days 14", (0, "\"without\": \"updown\""), (2, "a trial needs a switched fabric")),
    ("trial --end", (0, "true"), (1, "false")),
    ("capture STATE/record --out STATE/captured", (0, "\"epochs\""), (2, "a direct torus names its nodes")),
    ("replay-events STATE/record --out STATE/again", (0, "\"different\": []"), (0, "\"different\": []")),
    ("tick", (0, "{\"epoch\":"), (0, "{\"epoch\":null}")),
];

/// On `fattree:4x4,2` and `angara:4x4`, one after the other in one directory.
const NAMED: &[Row] = &[
    ("route --fabric NET --engine ENGINE --out STATE/tables", (0, "\"engine\""), (0, "\"engine\"")),
    ("verify --fabric NET --tables STATE/tables", (0, "accepted"), (0, "accepted")),
    ("compare --fabric NET", (0, "dfsssp"), (0, "angara-balanced")),
    ("place --fabric NET --nodes 4", (0, "\"nodes\""), (0, "\"nodes\"")),
    ("place --fabric NET --nodes 5 --pattern ring", (0, "\"slowdown\""), (0, "\"slowdown\"")),
    ("plan --fabric NET --jobs MORE --engine ENGINE", (1, "\"due\": true"), (1, "\"due\": true")),
    ("order --fabric NET --nodes n[1-4]", (0, "\"order alone\""), (0, "\"order alone\"")),
    (
        "order --fabric NET --nodes n[1-4] --jobs MORE --transit any",
        (2, "--transit is for a direct"),
        (0, "\"order alone\""),
    ),
    (
        "replay --fabric NET --trace generated:taurus,days=1 --every 12h --engines dfsssp",
        (0, "run"),
        (2, "--every is for switched fabrics"),
    ),
    (
        "survive matrix --fabric NET --engines ENGINE --time 10000",
        (0, "\"result\": \"o\""),
        (0, "\"result\": \"o\""),
    ),
    (
        "survive throughput --fabric NET --engines ENGINE --faults 0,1 --seeds 2 --packets 1 --out STATE/throughput",
        (0, "\"failed\": 0"),
        (0, "\"failed\": 0"),
    ),
    ("survive lost --fabric NET --faults 1", (0, "\"cables\": 1"), (0, "\"mended\": 1.0")),
];

fn try_rows(kind: &str, site: &Site, rows: &[Row], names: [&str; 2], pick: impl Fn(&Row) -> Wanted) {
    site.replace("more", "1 n[1,5,9]\n2 n[2,6]\n");
    let state = site.path("state").display().to_string();
    let more = site.path("more").display().to_string();
    for row in rows {
        let typed = row.0.replace("NET", names[0]).replace("ENGINE", names[1]);
        let words = typed.split(' ').map(|word| word.replace("STATE", &state).replace("MORE", &more));
        let words: Vec<String> = words.collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = site.command(&words).output().unwrap();
        let (code, part) = pick(row);
        let said =
            String::from_utf8(if code == 2 { output.stderr.clone() } else { output.stdout.clone() }).unwrap();
        let what = format!("{kind}: {typed}: {} {}", said, String::from_utf8_lossy(&output.stderr));
        assert!(code == ANY || output.status.code() == Some(code), "{what}");
        assert!(said.contains(part), "{what}");
    }
}

#[test]
fn every_command_answers_while_a_service_of_any_kind_runs() {
    let switched = Site::new("interval_seconds = 3600");
    switched.settings(
        "[handoff]\nmin_length_seconds = 0\nreroute_interval_seconds = 0\ndeadline_seconds = 100\n",
    );
    let serving = Serving::routed(&switched);
    try_rows("switched", &switched, LIVE, ["", ""], |row| row.1);
    assert_eq!(serving.stop(), 0);
    let direct = Site::torus("sizes = [4, 4]\ntransit = \"any\"\n");
    let serving = Serving::start(&direct);
    serving.ready(&direct);
    assert_eq!(direct.starts("1", "n[1,5,9]"), "in_force");
    serving.until(|| direct.run(&["history"]).1.contains("first"));
    try_rows("direct", &direct, LIVE, ["", ""], |row| row.2);
    assert_eq!(serving.stop(), 0);
}

#[test]
fn every_command_on_a_named_network_takes_it_or_says_why_not() {
    let site = Site::new("");
    try_rows("switched", &site, NAMED, ["fattree:4x4,2", "dfsssp"], |row| row.1);
    std::fs::remove_dir_all(site.path("state")).unwrap();
    try_rows("direct", &site, NAMED, ["angara:4x4", "angara-sar"], |row| row.2);
}

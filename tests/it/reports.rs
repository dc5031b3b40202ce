//! Reports as pages: each command's has its verdict, a picture, the figures as a file to save, and the command.

use std::path::Path;

use serde_json::Value;

use crate::program;

/// Runs a command that writes a page, and returns what it printed as JSON, and the page.
fn report(dir: &Path, words: &[&str]) -> (Value, String) {
    let printed = program::report(dir, [words, &["--html", "page.html"]].concat());
    let page = std::fs::read_to_string(dir.join("page.html")).unwrap();
    (printed, page)
}

/// What is inside the first element that begins so.
fn inside<'a>(page: &'a str, begin: &str, end: &str) -> &'a str {
    let rest = page.split_once(begin).unwrap_or_else(|| panic!("no {begin} in {page}")).1;
    rest.split_once(end).unwrap().0
}

/// The content of a link that saves something.
fn saved(page: &str, name: &str) -> String {
    let url = inside(page, &format!("download=\"{name}\" href=\"data:"), "\"");
    let mut bytes = Vec::new();
    let mut left = url.split_once(',').unwrap().1.bytes();
    while let Some(byte) = left.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [left.next().unwrap(), left.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            other => other,
        });
    }
    String::from_utf8(bytes).unwrap()
}

/// What holds of every page.
fn is_whole(page: &str, words: &[&str]) {
    assert!(!inside(page, "<p class=\"verdict\">", "</p>").trim().is_empty(), "{words:?}");
    assert!(page.contains("<svg class=\"chart\""), "{words:?}");
    let command = inside(page, "<pre>", "</pre>");
    assert!(command.starts_with(&format!("sarouter {} ", words[0])), "{command}");
    // One script: the file that the service's page has, too, and that of heat maps if there are some.
    let (before, after) = page.split_once("<script>").unwrap();
    let own =
        after.split_once("</script>").unwrap().0.strip_prefix(include_str!("../../src/report/chart.js"));
    let heat = if before.contains("data-heat=") { include_str!("../../src/report/heat.js") } else { "" };
    assert_eq!(own, Some(heat), "{words:?}");
    for foreign in ["http://", "https://", "src=", "@import", "fetch(", "import("] {
        assert!(!page.contains(foreign), "{words:?}: the page has {foreign}");
    }
    assert!(!before.contains("<script") && after.matches("<script").count() == 0, "{words:?}");
}

const JOBS: &str = "17 n[1-40]\n18 n[41-100]\n19 n[101-102] ring\n";

#[test]
fn compare_says_who_gains_and_what_is_saved_is_what_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("jobs"), JOBS).unwrap();
    let words = ["compare", "--fabric", "fattree:10x18,5", "--jobs", "jobs", "--engines", "dfsssp,balanced"];
    let (rows, page) = report(dir.path(), &words);
    is_whole(&page, &words);
    assert!(inside(&page, "<p class=\"verdict\">", "</p>").starts_with("Worth it: with balanced "), "{page}");
    assert!(
        inside(&page, "<h2>Is it for you?</h2><p>", "</p>")
            .starts_with("2 of 3 jobs are on several switches, with 98 %")
    );
    let json: Value = serde_json::from_str(&saved(&page, "routing-engines-compared.json")).unwrap();
    assert_eq!(json[1]["time"], rows[1]["time"]);
    let csv = saved(&page, "engines.csv");
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines.len() == 3 && lines[2].starts_with("balanced,"), "{csv}");
    // Two jobs gain; each has its slow-down without and with.
    let name = page
        .split("download=\"")
        .find_map(|p| p.split_once('"').filter(|(n, _)| n.starts_with("gain-by-job")));
    let gains = saved(&page, name.unwrap().0);
    assert_eq!(gains.lines().count(), 3, "{gains}");
    let jobs = rows[1]["time"]["jobs"].as_array().unwrap();
    for line in gains.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let job = jobs.iter().find(|job| job["id"] == cells[0]).unwrap();
        assert_eq!(cells[4], format!("{:.3}", job["slowdown"].as_f64().unwrap()), "{line}");
        assert!(cells[3].parse::<f64>().unwrap() > cells[4].parse::<f64>().unwrap(), "{line}");
    }
    // A heat map for each engine, folded.
    assert_eq!(page.matches("<details>").count(), 2);
}

#[test]
fn compare_says_where_it_is_not_for_you() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("jobs"), "1 n[1-4]\n").unwrap();
    let words = ["compare", "--fabric", "fattree:10x18,5", "--jobs", "jobs", "--engines", "dfsssp,balanced"];
    let (_, page) = report(dir.path(), &words);
    is_whole(&page, &words);
    assert!(
        page.contains("It is not for you: no exchange of theirs passes a cable between switches."),
        "{page}"
    );
    let words = ["compare", "--fabric", "angara:4x4x2", "--engines", "angara-sssp,angara-balanced"];
    let (_, page) = report(dir.path(), &words);
    is_whole(&page, &words);
    assert_eq!(saved(&page, "engines.csv").lines().count(), 3);
}

#[test]
fn studies_of_faults_and_simulations_have_their_pages() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("jobs"), JOBS).unwrap();
    let lost = [
        "survive",
        "lost",
        "--fabric",
        "kary:4,2",
        "--engines",
        "updown,balanced",
        "--faults",
        "1,3",
        "--seeds",
        "4",
    ];
    let (rows, page) = report(dir.path(), &lost);
    is_whole(&page, &lost);
    let least = rows.as_array().unwrap().iter().map(|r| r["mean"].as_f64().unwrap()).fold(1.0, f64::min);
    assert!(page.contains(&format!("1 cable cut {:.2} % of all connections", 100.0 * least)), "{page}");
    let torus = ["survive", "lost", "--fabric", "angara:4x4", "--engines", "angara-sssp"];
    is_whole(&report(dir.path(), &torus).1, &torus);
    let matrix =
        ["survive", "matrix", "--fabric", "torus:3x3", "--engines", "minhop,dfsssp", "--time", "20000"];
    let (cells, page) = report(dir.path(), &matrix);
    is_whole(&page, &matrix);
    assert_eq!(
        page.contains("without deadlock on all 1 fabrics: dfsssp."),
        cells[0]["result"] != "o",
        "{cells}"
    );
    let throughput = [
        "survive",
        "throughput",
        "--fabric",
        "random:8,16,20,seed=1",
        "--engines",
        "updown",
        "--faults",
        "0,1",
        "--seeds",
        "2",
        "--packets",
        "1",
        "--out",
        "runs",
    ];
    let (found, page) = report(dir.path(), &throughput);
    is_whole(&page, &throughput);
    assert!(
        page.contains("0 to 1 faults: updown.") && found["rows"].as_array().unwrap().len() == 2,
        "{page}"
    );
    let simulate = ["simulate", "--fabric", "fattree:10x18,5", "--jobs", "jobs", "--traffic", "ring"];
    let (run, page) = report(dir.path(), &simulate);
    is_whole(&page, &simulate);
    let last = run["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|j| j["finished_ns"].as_f64().unwrap())
        .fold(0.0, f64::max);
    assert!(page.contains(&format!("finished after {:.1} µs.", last / 1000.0)), "{page}");
}

#[test]
fn benches_have_their_pages() {
    let dir = tempfile::tempdir().unwrap();
    let time = [
        "bench",
        "time",
        "--fabric",
        "kary:4,2",
        "--seeds",
        "7",
        "--sizes",
        "4",
        "--patterns",
        "ring,shift",
        "--no-adaptive",
    ];
    let (summary, page) = report(dir.path(), &time);
    is_whole(&page, &time);
    assert_eq!(saved(&page, "times-on-kary-4-2.csv").lines().count(), 3);
    assert!(summary["geometric_mean"].as_f64().unwrap() > 0.0);
    let adversary = ["bench", "adversary", "--fabric", "kary:4,2", "--layers", "1", "--mix", "3"];
    let (_, page) = report(dir.path(), &adversary);
    is_whole(&page, &adversary);
    assert!(
        inside(&page, "<p class=\"verdict\">", "</p>").starts_with("1 cases: balanced is behind"),
        "{page}"
    );
}

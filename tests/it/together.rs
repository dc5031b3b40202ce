//! Several fabrics look together: Slurm is asked once for all, and none waits for another.

use crate::fabrics::{JOB, two};
use crate::prolog::prolog;
use crate::site::{Serving, Site};
use crate::troubles::Line;

/// Lets the script count how often it is asked, one line each, and slows it down so that looks meet.
fn counting(site: &Site) {
    site.squeue(
        "dir=\"$(dirname \"$0\")\"; echo asked >>\"$dir/asked\"; sleep 0.2; \
         [ -e \"$dir/mute\" ] && { echo no answer >&2; exit 1; }; cat \"$dir/jobs\"",
    );
}

fn asked(site: &Site) -> usize {
    std::fs::read_to_string(site.path("asked")).unwrap_or_default().lines().count()
}

/// Good passes of a fabric.
pub fn passes(site: &Site, name: &str) -> u64 {
    site.told_health()["fabrics"][name]["passes"].as_u64().unwrap()
}

#[test]
fn slurm_is_asked_once_for_all_fabrics() {
    let site = two("");
    counting(&site);
    let serving = Serving::start(&site);
    serving.line();
    serving.line();
    let both = |least: u64| passes(&site, "ib0") >= least && passes(&site, "ib1") >= least;
    serving.until(|| both(1));
    assert_eq!(asked(&site), 1, "the first look of both");
    for round in 2..6 {
        // Later than a look that somebody wants too soon.
        std::thread::sleep(std::time::Duration::from_millis(1100));
        site.look();
        serving.until(|| both(round));
        assert_eq!(asked(&site), round as usize, "round {round}");
    }
    // One fabric looks: the other has the answer too.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    site.post("/fabrics/ib1/v1/look", &serde_json::json!({})).unwrap();
    serving.until(|| both(6));
    assert_eq!(asked(&site), 6);
    // It fails once, and is told once.
    std::fs::write(site.path("mute"), "").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    site.look();
    let failing = |name: &str| site.told_health()["fabrics"][name]["failing"]["stage"] == "jobs";
    serving.until(|| failing("ib0") && failing("ib1"));
    let problems = site.told_health()["problems"].take();
    let problems = problems.as_array().unwrap();
    assert_eq!(problems.len(), 1, "{problems:?}");
    let text = problems[0].as_str().unwrap();
    assert!(text.starts_with("ib0, ib1: asking for jobs failed") && text.contains("no answer"), "{text}");
    assert_eq!(asked(&site), 7);
}

/// A trouble of one fabric is told with its name in all places, those of the other do not hide it.
#[test]
fn a_trouble_of_one_fabric_is_told_in_every_place_by_its_name() {
    let site = two("");
    let line = Line::listen(&site);
    let notify = site.path("notify");
    let serving = Serving::with(&site, |command| {
        command.env("NOTIFY_SOCKET", &notify);
    });
    serving.line();
    serving.line();
    let everywhere = |is_there: bool| {
        site.look();
        let health = site.told_health();
        let systemd = line.0.lock().unwrap().clone();
        let both: Vec<&str> = systemd.split(" | ").collect();
        let held = "sarouter_trouble_since_seconds{fabric=\"ib1\",kind=\"held\"}";
        let (code, status) = site.run(&["status"]);
        let said = [
            health["problems"].to_string().contains("ib1: ") && health["healthy"] == false,
            site.text("/metrics").contains(held),
            both.len() == 2 && both[0].ends_with("all well") && both[1].contains("holds what is in force"),
            code == 1 && status.contains("new spines"),
        ];
        let is_well = |line: &&str| line.ends_with("all well");
        said.iter().all(|said| *said == is_there) && (is_there || both.iter().all(is_well))
    };
    assert_eq!(site.run(&["hold", "--reason", "new spines", "--fabric-name", "ib1"]).0, 0);
    serving.until(|| everywhere(true));
    assert_eq!(site.run(&["resume", "--fabric-name", "ib1"]).0, 0);
    serving.until(|| everywhere(false));
    let told = site.log().lines().filter(|line| line.contains("trouble=\"held\"")).count();
    assert_eq!(told, 2, "{}", site.log());
}

#[test]
fn one_pass_over_two_fabrics_asks_slurm_once() {
    let site = two("");
    counting(&site);
    assert_eq!((site.run(&["tick"]).0, asked(&site)), (0, 1));
    for name in ["ib0", "ib1"] {
        assert!(site.path(&format!("state/{name}/current")).exists(), "{name}");
    }
}

/// The source of one fabric hangs; the other has its epochs meanwhile.
#[test]
fn a_fabric_that_is_slow_to_read_holds_up_no_other() {
    let site = two("");
    site.alter("source = \"fattree:2x8,2\"", "command = [\"sleep\", \"1000\"]\ndeadline_seconds = 900");
    let serving = Serving::start(&site);
    assert_eq!(serving.line()["fabric"], "ib0");
    let mut waiting = site.command(&["prolog"]).args(JOB).spawn().unwrap();
    serving.until(|| site.told_health()["fabrics"]["ib0"]["handoff"]["started"]["in_force"] == 1);
    let slow = site.told_health()["fabrics"]["ib1"].take();
    assert_eq!(
        (&slow["passes"], &slow["handoff"]["waiting_jobs"][0]["job"]),
        (&0.into(), &"7".into()),
        "{slow}"
    );
    waiting.kill().unwrap();
    waiting.wait().unwrap();
}

/// While a prolog waits, both fabrics wait for it, with one deadline.
#[test]
fn a_job_waits_for_all_fabrics_at_once() {
    let site = two("");
    site.alter("deadline_seconds = 100", "deadline_seconds = 6");
    // Nobody can look: what both wait for does not come.
    site.squeue("exec sleep 1000");
    let serving = Serving::start(&site);
    serving.ready(&site);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| prolog(&site, &JOB));
        let of = |health: &serde_json::Value, name: &str| {
            health["fabrics"][name]["handoff"]["waiting_jobs"].as_array().unwrap().first().cloned()
        };
        let mut both = None;
        serving.until(|| {
            let health = site.told_health();
            both = of(&health, "ib0").zip(of(&health, "ib1"));
            both.is_some() || waiting.is_finished()
        });
        let (ib0, ib1) = both.expect("both wait at one time");
        assert_eq!((&ib0["job"], &ib1["job"]), (&"7".into(), &"7".into()));
        let deadline = |waits: &serde_json::Value| {
            chrono::DateTime::parse_from_rfc3339(waits["deadline"].as_str().unwrap()).unwrap()
        };
        let apart = (deadline(&ib0) - deadline(&ib1)).abs();
        assert!(apart < chrono::TimeDelta::seconds(6), "two deadlines, one after the other: {apart}");
        let (_, answer, _) = waiting.join().unwrap();
        assert_eq!(answer["fabrics"], serde_json::json!({"ib0": "deadline", "ib1": "deadline"}), "{answer}");
    });
}

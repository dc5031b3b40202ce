//! A trial at a site: what its days do to routes, and what a dump of Slurm's accounting tells.

use chrono::{DateTime, Local, TimeDelta, Utc};
use sarouter::lab::trial::sacct::{FIELDS, Runs};
use sarouter::lab::trial::{Difference, Run, difference};
use sarouter::model::rng::Rng;
use sarouter::pass::trial::Trial;
use serde_json::Value;

use crate::often::often;
use crate::site::{Site, json};

/// The engine of the epoch in force, and why there is that epoch.
fn in_force(site: &Site) -> [String; 2] {
    let plan = json(&std::fs::read_to_string(site.path("state/current/plan.json")).unwrap());
    ["engine", "reason"].map(|key| plan[key].as_str().unwrap().to_string())
}

/// Begins a trial whose first day is this many days ago and today is a day of this kind.
fn begin(site: &Site, days_ago: i64, with: bool) -> Value {
    let from = (Local::now() - TimeDelta::days(days_ago)).format("%Y-%m-%d").to_string();
    let drawn = (0..64).map(|seed: u32| {
        site.run(&["trial", "--end"]);
        let (code, text) = site.run(&["trial", "--days", "14", "--from", &from, "--seed", &seed.to_string()]);
        assert_eq!(code, 0, "{text}");
        json(&text)
    });
    let mut today = drawn.filter(|trial| trial["days"][days_ago as usize]["with"] == with);
    today.next().unwrap()
}

#[test]
fn days_without_have_routes_that_know_no_jobs() {
    let site = Site::new("");
    site.alter("dfsssp", "balanced");
    site.run(&["tick"]);
    assert_eq!(in_force(&site), ["balanced", "first"]);
    // Midnight may come between two commands: the middle of a trial has days before and after.
    begin(&site, 5, false);
    site.run(&["tick"]);
    assert_eq!(in_force(&site), ["updown", "engine_changed"]);
    let status = json(&site.run(&["status"]).1);
    assert!(
        status["trial"].as_str().unwrap().contains("of 14, without routes for jobs (updown)"),
        "{status}"
    );
    begin(&site, 5, true);
    site.run(&["tick"]);
    assert_eq!(in_force(&site), ["balanced", "engine_changed"]);
    begin(&site, 5, false);
    site.run(&["tick"]);
    assert_eq!(site.run(&["trial", "--end"]).0, 0);
    site.run(&["tick"]);
    assert_eq!(in_force(&site), ["balanced", "engine_changed"]);
    assert!(json(&site.run(&["status"]).1)["trial"].is_null());
}

#[test]
fn a_trial_that_could_tell_nothing_is_not_begun() {
    let site = Site::new("");
    for (words, why) in [
        (&["--days", "15"][..], "whole pairs of weeks"),
        (&["--days", "0"], "whole pairs of weeks"),
        (&["--days", "14", "--without", "sar"], "that engine knows jobs"),
        (&["--days", "14", "--without", "updwn"], "updown"),
    ] {
        let output = site.command(&[&["trial"], words].concat()).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && errors.contains(why), "{words:?}: {errors}");
    }
    site.alter("engine = \"dfsssp\"", "engines = [\"sar\", \"updown\"]");
    let output = site.command(&["trial", "--days", "14"]).output().unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().contains("one of the settings' own engines"));
    assert_eq!(site.run(&["trial"]).0, 1);
    // A second draw would forget the first.
    let words = ["trial", "--days", "14", "--without", "minhop"];
    assert_eq!(site.run(&words).0, 0);
    let drawn = site.run(&["trial"]).1;
    let again = site.command(&words).output().unwrap();
    assert_eq!(again.status.code(), Some(2), "{again:?}");
    assert!(String::from_utf8_lossy(&again.stderr).contains("a trial is there until"), "{again:?}");
    assert_eq!(site.run(&["trial"]).1, drawn);
}

#[test]
fn a_trial_needs_another_engine_and_days_that_somebody_lives_through() {
    let site = Site::new("");
    for (words, said) in [
        (["--days", "14", "--without", "dfsssp"], "dfsssp is one of the settings' own engines"),
        (["--days", "140000000", "--without", "updown"], "--days: at most"),
    ] {
        let output = site.command(&[&["trial"][..], &words].concat()).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && text.contains(said), "{text}");
    }
}

#[test]
fn what_was_planted_in_the_accounting_is_found() {
    let site = Site::new("");
    let trial = begin(&site, 13, true);
    let mut dump = String::from("JobID|User|NNodes|State|Start|End|JobName\n");
    for (i, day) in trial["days"].as_array().unwrap().iter().enumerate() {
        let first: DateTime<Utc> = day["from"].as_str().unwrap().parse().unwrap();
        for run in 0..40 {
            // Nine of ten as long on days with routes, if on several nodes; all a little different.
            let nodes = if run % 4 == 0 { 1 } else { 8 };
            let gain = if nodes > 1 && day["with"] == true { 900 } else { 1000 };
            let seconds = (1000 + run % 5) * gain / 1000 + (i as i64 * 7 + run * 3) % 11;
            let start = first + TimeDelta::minutes(10 * run);
            let time = |t: DateTime<Utc>| t.format("%Y-%m-%dT%H:%M:%S").to_string();
            let (from, to) = (time(start), time(start + TimeDelta::seconds(seconds)));
            dump += &format!("{i}{run:02}|u{}|{nodes}|COMPLETED|{from}|{to}|run|{}\n", run % 2, run % 5);
        }
    }
    site.replace("jobs.sacct", &dump);
    let path = site.path("jobs.sacct").display().to_string();
    let (code, text) = site.run(&["trial", "--report", &path]);
    assert_eq!(code, 0, "{text}");
    let (found, one) = (&json(&text)["several"], &json(&text)["one"]);
    let figure = |of: &Value, key: &str| of[key].as_f64().unwrap();
    assert!((9.0..11.0).contains(&figure(found, "less_percent")), "{text}");
    assert!((8.0..10.0).contains(&figure(found, "from_percent")), "{text}");
    assert!(figure(one, "from_percent") < 0.0 && figure(one, "to_percent") > 0.0, "{text}");
    site.replace("jobs.sacct", &dump.replace("|8|COMPLETED|", "|8|COMPLETED|x"));
    let output = site.command(&["trial", "--report", &path]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("jobs.sacct: line 3: "));
}

/// So many days that begin an hour before midnight, and the end of the last.
fn midnights(days: i64) -> Vec<DateTime<Utc>> {
    let first: DateTime<Utc> = "2026-03-01T23:00:00Z".parse().unwrap();
    (0..=days).map(|d| first + TimeDelta::days(d)).collect()
}

/// A month of 30 kinds of jobs, about four a day each, that take 15 % more or less by themselves and 2 % by
/// the day, and with routes for them so much less.
fn month(seed: u64, less_percent: f64) -> Option<Difference> {
    let trial = Trial::draw(&midnights(28), "updown", seed).unwrap();
    let mut rng = Rng::new(seed + 1000);
    let normal = move |rng: &mut Rng| (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
    let mut runs = Vec::new();
    for (day, kind) in trial.days.iter().enumerate() {
        let of_day = 0.02 * normal(&mut rng);
        let gain = if kind.with { (1.0 - less_percent / 100.0).ln() } else { 0.0 };
        for _ in 0..120 {
            let kind = rng.below(30);
            let log = 5.0 + 0.1 * kind as f64 + of_day + gain + 0.15 * normal(&mut rng);
            runs.push(Run { day, kind: kind.to_string(), seconds: log.exp() });
        }
    }
    difference(&trial, &runs)
}

#[test]
fn planted_differences_are_found_and_none_is_not() {
    let seeds = often(100, 40) as u64;
    let most = seeds as usize;
    let found = |less| {
        let all: Vec<Difference> = (0..seeds).map(|seed| month(seed, less).unwrap()).collect();
        let covers = all.iter().filter(|d| d.from_percent <= less && less <= d.to_percent).count();
        let says_less = all.iter().filter(|d| d.from_percent > 0.0).count();
        let says_more = all.iter().filter(|d| d.to_percent < 0.0).count();
        eprintln!("{less} %: {says_less} less, {says_more} more, {covers} cover it; {:?}", all[0]);
        (says_less, says_more, covers)
    };
    let (less, more, covers) = found(0.0);
    assert!(less + more <= most / 10 && covers >= most * 9 / 10, "{less} {more} {covers}");
    for planted in [5.0, 20.0] {
        let (less, _, covers) = found(planted);
        assert!(less == most && covers >= most * 9 / 10, "{planted}: {less} {covers}");
    }
}

/// Jobs of ten hours that begin at any time, as `sacct` prints them; a fifth less with routes for them.
fn long_jobs(seed: u64) -> Runs {
    let trial = Trial::draw(&midnights(28), "updown", seed).unwrap();
    let mut rng = Rng::new(seed + 2000);
    let mut dump = FIELDS.replace(',', "|");
    for (i, day) in trial.days.iter().enumerate() {
        for run in 0..60 {
            let start = day.from + TimeDelta::seconds(rng.below(86_400) as i64);
            let (gain, spread) = (if day.with { 0.8 } else { 1.0 }, 0.6 * (rng.unit() - 0.5));
            let end = start + TimeDelta::seconds((36_000.0 * gain * spread.exp()) as i64);
            let [start, end] = [start, end].map(|time| time.format("%Y-%m-%dT%H:%M:%S"));
            dump += &format!("\n{i}{run:02}|u|8|COMPLETED|{start}|{end}|run {}", rng.below(3));
        }
    }
    Runs::read(&dump, &trial).unwrap()
}

#[test]
fn long_jobs_are_not_taken_for_faster_because_the_slower_ones_run_over_midnight() {
    let found: Vec<Difference> = (0..20)
        .map(|seed| {
            let trial = Trial::draw(&midnights(28), "updown", seed).unwrap();
            difference(&trial, &long_jobs(seed).several).unwrap()
        })
        .collect();
    let covers = found.iter().filter(|d| d.from_percent <= 20.0 && 20.0 <= d.to_percent).count();
    let mean = found.iter().map(|d| d.less_percent).sum::<f64>() / found.len() as f64;
    assert!(covers >= 17 && (19.0..21.0).contains(&mean), "{covers} {mean}");
}

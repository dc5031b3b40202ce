//! The web page in Chromium: the first line says the state in one word, since when, and the command that helps.

use std::fs;

use serde_json::Value;

use super::browser::Browser;
use super::opensm_status::opensm_status;
use super::page::{Site, direct_torus, island, open, text};
use super::page_compare::by_hand;
use super::testbed::run;

/// Looks again, and waits until the state is this one; returns the line.
fn state(browser: &Browser, word: &str) -> String {
    browser.eval("inTurn(refresh) && true");
    browser.until(&format!("document.getElementById('state')?.textContent === {word:?}"));
    text(browser, "health")
}

/// What OpenSM's plugin would write.
fn opensm_says(site: &Site, edit: &[(&str, Value)]) {
    let path = site.directory.path().join("state/opensm-status.json");
    fs::write(path.with_extension("new"), opensm_status(2, edit)).unwrap();
    fs::rename(path.with_extension("new"), path).unwrap();
}

/// Held, resumed, ended, begun again: told alike whatever the network is.
fn held_and_stopped(mut site: Site, browser: &Browser, word: &str) {
    by_hand(&site, "hold", &["--reason", "cable <b>work</b>"]);
    let held = state(browser, "HELD");
    let who = run(std::process::Command::new("id").arg("-un"));
    assert!(held.starts_with(&format!("HELD by {}, ", who.trim())), "{held}");
    assert!(held.contains(" s ago: cable <b>work</b> (sarouter resume ends it) · "), "{held}");
    assert_eq!(text(browser, "problems"), "", "said once");
    // Ages are not read aloud, and a command that is being copied is left alone.
    let aloud = text(browser, "aloud");
    assert!(aloud.starts_with("HELD, ") && !aloud.contains("ago"), "{aloud}");
    browser
        .eval("(window.code = document.querySelector('#health code')) && inTurn(refresh).then(() => true)");
    assert_eq!(browser.eval("document.querySelector('#health code') === window.code"), true);
    assert_eq!(browser.eval("document.title"), "HELD · sarouter");
    by_hand(&site, "resume", &[]);
    assert!(state(browser, word).contains(" · healthy · "));
    site.end();
    let stopped = state(browser, "stopped");
    assert!(stopped.starts_with("stopped: the service does not answer since "), "{stopped}");
    assert!(stopped.contains(" s ago, the last answer ") && stopped.contains("systemctl status sarouter"));
    assert_eq!(browser.eval("document.getElementById('login').hidden"), true);
    site.serve(&[]);
    browser.until(&format!("document.getElementById('state').textContent === {word:?}"));
    assert!(browser.complaints().iter().all(|said| said["source"] == "network"), "only that nobody answered");
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn a_state_that_nobody_reads_is_a_dry_run_and_is_held_and_stops() {
    let site = island();
    let browser = Browser::start(1400, 1000);
    open(&site, &browser);
    let line = state(&browser, "dry run");
    assert!(
        line.starts_with(
            "dry run: nobody fetches the epochs (sarouter doctor says what is missing) · healthy"
        )
    );
    // One that hangs takes questions and answers none.
    site.hang(true);
    state(&browser, "stopped");
    site.hang(false);
    browser.until("document.getElementById('state').textContent === 'dry run'");
    held_and_stopped(site, &browser, "dry run");
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn a_direct_torus_is_live_and_is_held_and_stops() {
    let site = direct_torus();
    let browser = Browser::start(1400, 1000);
    open(&site, &browser);
    assert!(state(&browser, "live").starts_with("live · healthy · change 2 on the nodes · "));
    held_and_stopped(site, &browser, "live");
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn opensm_that_has_not_acknowledged_is_waited_for_and_troubles_have_their_commands() {
    let jobs = ["1 n[1-60]\n".to_string(), "1 n[1-60]\n2 n[61-90]\n".to_string()];
    let watch = "watch = true\nacknowledge_seconds = 600\n";
    let site = Site::with("fattree:10x18,5", "balanced", &jobs, watch, &[]);
    let browser = Browser::start(1400, 1000);
    open(&site, &browser);
    // Its plugin was never heard of.
    state(&browser, "dry run");
    opensm_says(&site, &[("generation", 1.into())]);
    let waits = state(&browser, "waiting for OpenSM");
    assert!(
        waits.starts_with("waiting for OpenSM: what was published ")
            && waits.contains(" ago is not acknowledged")
    );
    opensm_says(&site, &[]);
    browser.until("document.getElementById('state').textContent === 'live'");
    assert!(text(&browser, "health").contains("live · healthy · epoch 2 in force · OpenSM took it in "));
    opensm_says(&site, &[("running", false.into())]);
    browser.until("document.querySelector('#problems code') !== null");
    let problem = text(&browser, "problems");
    assert!(problem.starts_with("OpenSM has ended") && problem.contains(" · since "), "{problem}");
    assert_eq!(
        browser.eval("document.querySelector('#problems code').textContent"),
        "systemctl start opensm"
    );
    assert_eq!(browser.complaints(), [Value::Null; 0]);
}

//! The web page in Chromium: its address says all that is shown, and Back leads to what was chosen before.

use serde_json::{Value, json};

use super::browser::Browser;
use super::page::{PIXELS, SETTLED, Site, island, open, text};
use super::page_compare::{hash, select};

/// Waits until the picture is of this epoch, and of one job or of all.
fn shows(browser: &Browser, epoch: u32, of: &str) {
    browser.until(&format!(
        "/^Epoch {epoch}: .* routes {of} on a channel/.test(document.getElementById('t-now').textContent)"
    ));
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn back_leads_to_the_epoch_and_the_job_that_were_chosen_before() {
    let site = island();
    let browser = Browser::start(1400, 1000);
    open(&site, &browser);
    let steps = browser.eval("history.length").as_u64().unwrap();
    browser.click("#jobs tr[data-job='2']");
    shows(&browser, 2, "of job 2");
    browser.click("#epochs button[data-epoch='1']");
    shows(&browser, 1, "inside jobs");
    // What is looked at otherwise is no step.
    browser.write("#filter", "n7");
    select(&browser, "against", "before");
    browser.click("#closer");
    browser.click("#fullest summary");
    browser.until("location.hash.includes('details=fullest')");
    assert_eq!(browser.eval("history.length").as_u64().unwrap(), steps + 2);
    assert_eq!(hash(&browser), "#epoch=1&against=before&filter=n7&view=1.50,0.5000,0.5000&details=fullest");

    browser.eval("history.back()");
    shows(&browser, 2, "of job 2");
    assert_eq!(hash(&browser), "#job=2");
    let selected = "document.querySelector('#jobs tr[aria-selected=true]').dataset.job";
    browser.until(&format!("{selected} === '2'"));
    assert_eq!(
        browser.eval("[$('filter').value, shown.view.scale, $('fullest').open]"),
        json!(["", 1, false])
    );
    browser.eval("history.back()");
    shows(&browser, 2, "inside jobs");
    assert_eq!(hash(&browser), "");
    browser.eval("history.go(2)");
    shows(&browser, 1, "inside jobs");
    assert_eq!(hash(&browser), "#epoch=1&against=before&filter=n7&view=1.50,0.5000,0.5000&details=fullest");
    assert_eq!(
        browser.eval("[$('filter').value, shown.view.scale, $('fullest').open]"),
        json!(["n7", 1.5, true])
    );
    assert_eq!(browser.complaints(), [Value::Null; 0]);
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn an_address_that_is_kept_shows_the_same_again() {
    let jobs = ["1 n[1-60]\n".to_string(), "1 n[1-60]\n2 n[61-90]\n".to_string(), "3 n[1-90]\n".to_string()];
    let site = Site::new("fattree:10x18,5", "balanced", &jobs);
    let browser = Browser::start(1400, 1000);
    let address = open(&site, &browser);
    browser.until("document.querySelectorAll('#if-engine option').length > 5");
    browser.eval("timeline.lookAt([shown.epochs[0].created, shown.epochs[2].created].map((at) => Number(new Date(at))))");
    browser.eval("pick({ cable: 3, channel: 7 })");
    browser.click("#closer");
    browser.click("#closer");
    browser.click("#fullest summary");
    browser.write("#which", "S");
    browser.write("#if-nodes", "n[3,30]");
    browser.write("#if-pattern", "ring");
    select(&browser, "if-engine", "updown");
    browser.until("location.hash.includes('details=fullest')");
    let seen = || {
        let fields = "['which', 'if-nodes', 'if-pattern', 'if-engine'].map((id) => $(id).value)";
        let rest = browser.eval(
            "[shown.picked.cable, shown.picked.channel, timeline.span().map(Math.round), $('fullest').open]",
        );
        (hash(&browser), browser.eval(fields), rest, browser.eval(PIXELS), text(&browser, "picked"))
    };
    let before = seen();
    for part in
        ["which=S", "nodes=n[3,30]", "pattern=ring", "engine=updown", "pick=cable:", "view=2.25,", "time="]
    {
        assert!(before.0.contains(part), "{part}: {}", before.0);
    }
    assert!(before.4.starts_with("Cable "), "{}", before.4);
    let kept = browser.eval("location.hash").as_str().unwrap().to_string();
    browser.go("about:blank");
    browser.go(&format!("{address}{kept}"));
    browser.until(
        "shown.picked !== null && $('if-engine').value === 'updown' && timeline && timeline.span() !== null",
    );
    browser.until("document.getElementById('t-before').textContent.startsWith('The baseline')");
    browser.until("document.querySelectorAll('#jobs tr').length === 1");
    assert_eq!(seen(), before);
    assert_eq!(browser.complaints(), [Value::Null; 0]);
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn what_is_gone_is_said_to_be_gone_and_all_is_shown() {
    let jobs = "1 n[1-60]\n2 n[61-90]\n".to_string();
    let site = Site::new("fattree:10x18,5", "balanced", &[jobs]);
    let browser = Browser::start(1400, 1000);
    browser.go(&format!("{}#job=7&open=switch:none&pick=cable:none:1", site.address()));
    browser
        .until("document.getElementById('health').textContent.includes('job 7 is not there, or no longer')");
    shows(&browser, 1, "inside jobs");
    browser.until("document.getElementById('p-body').textContent.includes('no such switch now')");
    browser.until("decodeURIComponent(location.hash) === '#open=switch:none'");
    browser.eval("closePanel()");

    // A job that is looked at ends, and a new epoch comes without it.
    browser.click("#jobs tr[data-job='2']");
    shows(&browser, 1, "of job 2");
    std::fs::write(site.directory.path().join("jobs"), "3|RUNNING|n[1-170]|NONE|NONE\n").unwrap();
    browser.eval("ask('v1/look', {}).then(() => true)");
    browser
        .until("document.getElementById('health').textContent.includes('job 2 is not there, or no longer')");
    shows(&browser, 2, "inside jobs");
    browser.until("document.querySelector('#jobs tr[data-job=\"3\"]') !== null");
    assert_eq!((hash(&browser), text(&browser, "state")), (String::new(), "dry run".into()));
    assert_eq!(browser.complaints(), [Value::Null; 0]);
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn a_late_answer_draws_nothing_over_a_newer_choice() {
    let site = island();
    let browser = Browser::start(1400, 1000);
    open(&site, &browser);
    browser.until(SETTLED);
    // The answer about job 1 comes when it is let go.
    browser.eval(
        "(window.held = [], window.sent = fetch, window.fetch = (path, how) => sent(path, how).then((answer) =>
            path.includes('v1/load?job=1') ? new Promise((go) => held.push(() => go(answer))) : answer)) && true",
    );
    browser.eval(
        "(window.titles = [], new MutationObserver(() => titles.push($('t-now').textContent))
            .observe($('t-now'), { childList: true })) || true",
    );
    let verdict = text(&browser, "verdict");
    browser.click("#jobs tr[data-job='1']");
    browser.until("held.length === 1");
    browser.click("#jobs tr[data-job='2']");
    browser.eval("(held[0](), window.fetch = sent) && true");
    shows(&browser, 2, "of job 2");
    let of_two = text(&browser, "t-now");
    // A picture that is drawn again is of what it was of.
    let titles = browser.eval("(showLoad(), titles.filter((title) => !title.includes('inside jobs')))");
    assert!(titles.as_array().unwrap().iter().all(|title| *title == of_two.as_str()), "{titles}");
    browser.click("#all");
    shows(&browser, 2, "inside jobs");
    assert_eq!(text(&browser, "verdict"), verdict);
    assert_eq!(browser.complaints(), [Value::Null; 0]);
}

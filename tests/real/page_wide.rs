//! The web page in Chromium: the picture that stays in view, rows that stay, the time of the site.

use serde_json::{Value, json};

use super::browser::Browser;
use super::page::{PIXELS, Site, open, text};
use super::page_compare::{by_hand, press};

/// Many jobs under one switch, then two on several.
fn many_jobs() -> String {
    let small: String = (1..=150).map(|i| format!("{i} n{i}\n")).collect();
    small + "899 n[1-60]\n900 n[151-180]\n"
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn the_picture_stays_in_view_beside_a_long_list_of_jobs() {
    let site = Site::new("fattree:10x18,5", "balanced", &[many_jobs()]);
    let browser = Browser::start(1400, 900);
    open(&site, &browser);
    let seen = "(() => { const r = document.getElementById('now').getBoundingClientRect();
        return Math.max(0, Math.min(r.bottom, innerHeight) - Math.max(r.top, 0)) / r.height; })()";
    let picture = browser.eval(PIXELS);
    browser.click("#jobs tr[data-job='900']");
    browser.until("document.getElementById('t-now').textContent.includes('routes of job 900')");
    assert!(browser.eval("scrollY").as_f64().unwrap() > 1000.0, "far down");
    assert_ne!(browser.eval(PIXELS), picture);
    assert!(browser.eval(seen).as_f64().unwrap() > 0.99, "{}", browser.eval(seen));
    // Beside each other, and neither above the other.
    let sides = browser.eval(
        "[document.getElementById('pictures').getBoundingClientRect().right, \
         document.getElementById('jobs').closest('.wide').getBoundingClientRect().left]",
    );
    assert!(sides[0].as_f64() <= sides[1].as_f64(), "{sides}");
    // On a phone one is below the other, and nothing is wider than the screen.
    let phone = Browser::start(500, 900);
    open(&site, &phone);
    let below = "document.getElementById('h-jobs').getBoundingClientRect().top >= document.getElementById('now').getBoundingClientRect().bottom";
    assert_eq!(phone.eval(below), true);
    assert_eq!(phone.eval("document.documentElement.scrollWidth <= innerWidth"), true);
    phone.resize(360, 800);
    phone.until("document.documentElement.clientWidth <= 360");
    let wider = "[...document.querySelectorAll('main *')].filter((e) => e.getBoundingClientRect().right > 361 && !e.closest('.wide')).map((e) => e.tagName + e.id)";
    let wider = phone.eval(wider);
    assert_eq!(phone.eval("document.documentElement.scrollWidth <= innerWidth"), true, "{wider}");
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn the_picture_and_the_verdict_follow_the_jobs_while_no_epoch_comes() {
    let site = Site::new("fattree:10x18,5", "balanced", &["1 n[1-40]\n2 n[41-90]\n".to_string()]);
    let browser = Browser::start(1400, 900);
    open(&site, &browser);
    by_hand(&site, "hold", &[]);
    browser.until("document.getElementById('verdict').textContent.includes('the least possible')");
    let before = [text(&browser, "t-now"), text(&browser, "verdict")];
    let runs = |lines: &str| {
        std::fs::write(site.directory.path().join("jobs"), lines).unwrap();
        browser.eval("ask('v1/look', {}).then(() => true)");
    };
    runs("1|RUNNING|n[1-40]|NONE|NONE\n3|RUNNING|n[41-180]|NONE|NONE\n");
    browser.until("document.querySelector('#jobs tr[data-job=\"3\"]') !== null");
    let shown = format!("document.getElementById('t-now').textContent !== {:?}", before[0]);
    browser.until(&shown);
    let load = "Math.max(...shown.load.now)";
    assert!(browser.eval(load).as_u64() > Some(54), "{before:?}: {}", text(&browser, "t-now"));
    browser
        .until(&format!("document.getElementById('verdict').textContent.includes('Largest load ' + {load})"));
    assert_ne!(text(&browser, "verdict"), before[1]);
    // And once there is none.
    runs("");
    browser.until("document.getElementById('verdict').textContent.startsWith('No job is on several')");
    browser.until("document.getElementById('t-now').textContent.includes(': at most 0 routes')");
    assert_eq!(browser.eval("shown.current"), 1, "no epoch has come");
}

/// Jobs whose names, users, nodes and times are as long as those of a large site.
fn long_names() -> Site {
    let jobs: Vec<Value> = (0..40)
        .map(|i| {
            let nodes = format!("n[{}-{},{}-{}]", 1 + i, 9 + i, 60 + 2 * i, 99 + 2 * i);
            json!({"job_id": 1_234_500 + i, "job_state": if i == 3 { "CONFIGURING" } else { "RUNNING" }, "nodes": nodes,
                "user_name": "weatherforecast", "name": "ensemble_member_0042_of_0128", "partition": "gpu-large-memory",
                "start_time": 1_700_000_000 + i})
        })
        .collect();
    Site::of_slurm("fattree:10x18,5", &[&jobs], "")
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn the_list_of_jobs_needs_no_scrolling_sideways() {
    let site = long_names();
    let browser = Browser::start(1400, 900);
    open(&site, &browser);
    browser.until("document.querySelector('#jobs td.user').textContent === 'weatherforecast'");
    let room = "(() => { const b = document.getElementById('jobs').closest('.wide'); return [b.scrollWidth, b.clientWidth]; })()";
    let fits = |room: &Value| room[0].as_u64() <= room[1].as_u64();
    assert!(fits(&browser.eval(room)), "{}", browser.eval(room));
    assert_eq!(browser.eval("document.documentElement.scrollWidth <= innerWidth"), true);
    browser.screenshot("page-users");
    // Figures are whole: only words are cut, and are in full where the pointer is.
    let cut = "[...document.querySelectorAll('#jobs td')].filter((c) => c.scrollWidth > c.clientWidth).map((c) => c.className)";
    let cut = browser.eval(cut);
    let cut: std::collections::BTreeSet<&str> =
        cut.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(cut.into_iter().collect::<Vec<_>>(), ["name", "nodes", "partition", "state", "user"]);
    let title = "document.querySelector('#jobs td.name').title";
    assert_eq!(browser.eval(title), "ensemble_member_0042_of_0128");
    // The columns of routes are there for whoever asks.
    let seen = "document.querySelector('#jobs td.busiest').checkVisibility()";
    assert_eq!(browser.eval(seen), false);
    browser.click("#routes");
    assert_eq!(browser.eval(seen), true);
    for width in [1200, 1000, 800, 500] {
        let narrow = Browser::start(width, 900);
        open(&site, &narrow);
        narrow.until("document.querySelector('#jobs td.user').textContent === 'weatherforecast'");
        assert!(fits(&narrow.eval(room)), "{width}: {}", narrow.eval(room));
        let gain = "document.querySelector('#jobs td.gain').checkVisibility()";
        assert_eq!(narrow.eval(gain), true);
    }
    let wide = Browser::start(2400, 1000);
    open(&site, &wide);
    assert_eq!(wide.eval(seen), true);
    assert_eq!(wide.eval("document.getElementById('ask-routes').checkVisibility()"), false);
    assert!(fits(&wide.eval(room)), "{}", wide.eval(room));
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn what_fills_later_moves_nothing() {
    let site =
        Site::new("fattree:10x18,5", "balanced", &[many_jobs(), "1 n[1-60]\n2 n[61-90]\n".to_string()]);
    let browser = Browser::start(1400, 900);
    open(&site, &browser);
    browser.until("document.getElementById('why').textContent.startsWith('Published because')");
    let top = "document.getElementById('beside').getBoundingClientRect().top + scrollY";
    let filled = browser.eval(top);
    browser.eval("(document.getElementById('why').textContent = '') + (document.getElementById('epoch').textContent = '') + \
                  (document.getElementById('verdict').textContent = '')");
    assert_eq!(browser.eval(top), filled);
    // All of a long line can be read.
    let long = "(() => { const w = document.getElementById('why'); w.textContent = 'jobs came and went, '.repeat(200); \
                return w.scrollHeight > w.clientHeight && getComputedStyle(w).overflowY === 'auto' && w.tabIndex === 0; })()";
    assert_eq!(browser.eval(long), true);
    assert_eq!(browser.eval(top), filled);
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn rows_stay_while_their_jobs_do_and_one_key_stop_leads_to_them() {
    let site = Site::new("fattree:10x18,5", "balanced", &[many_jobs()]);
    let browser = Browser::start(1400, 900);
    open(&site, &browser);
    for (box_id, count) in [("jobs", 152), ("columns", 16)] {
        let stops = format!("[...document.getElementById({box_id:?}).children].map((e) => e.tabIndex)");
        let stops = browser.eval(&stops);
        let stops = stops.as_array().unwrap();
        assert_eq!((stops.len(), stops.iter().filter(|i| **i == 0).count()), (count, 1), "{box_id}");
    }
    let focused = || browser.eval("document.activeElement.dataset.job");
    browser.eval("document.querySelector('#jobs tr').focus()");
    press(&browser, "ArrowDown");
    press(&browser, "ArrowDown");
    assert_eq!(focused(), "3");
    press(&browser, "End");
    assert_eq!(focused(), "900");
    browser.eval("(window.row = document.activeElement) && true");
    press(&browser, "Enter");
    browser.until("document.getElementById('t-now').textContent.includes('routes of job 900')");
    // Looked at again, and sorted otherwise: it is the same row, and has the focus.
    browser.eval("(document.body.dataset.seen = '')");
    browser.eval("inTurn(refresh).then(() => { document.body.dataset.seen = 'yes'; })");
    browser.until("document.body.dataset.seen === 'yes'");
    browser.eval("(shown.sort = { key: 'node_count', down: true }) && showJobs()");
    assert_eq!(browser.eval("document.querySelectorAll('#jobs tr')[1] === window.row"), true);
    assert_eq!(focused(), "900");
    press(&browser, "Home");
    assert_eq!(focused(), "899");
    press(&browser, "ArrowDown");
    assert_eq!(focused(), "900");
    // Its job ends: the next row has the focus.
    let next = "(shown.jobs = shown.jobs.filter((job) => job.id !== '900'), showJobs(), \
                document.activeElement === document.querySelectorAll('#jobs tr')[1])";
    assert_eq!(browser.eval(next), true);
    assert_eq!(browser.complaints(), [Value::Null; 0]);
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn times_are_those_of_the_site_and_the_readers_are_beside_them() {
    let jobs = ["1 n[1-60]\n".to_string()];
    let site = Site::with("fattree:10x18,5", "balanced", &jobs, "", &[("TZ", "Asia/Tokyo")]);
    let browser = Browser::start(1400, 900);
    open(&site, &browser);
    assert_eq!(text(&browser, "zone"), "times of the site: Asia/Tokyo (UTC+09:00)");
    let created = browser.eval("shown.epochs[0].created").as_str().unwrap().to_string();
    let by = |zone: &str| {
        let time = browser.eval(&format!("new Date({created:?}).toLocaleString(undefined, {zone})"));
        time.as_str().unwrap().to_string()
    };
    let (there, here) = (by("{ timeZone: 'Asia/Tokyo' }"), by("{}"));
    assert_ne!(there, here, "the browser must not run in Tokyo");
    assert!(text(&browser, "epoch").contains(&there), "{}", text(&browser, "epoch"));
    for element in ["#epoch", "#epochs button"] {
        let title = browser.eval(&format!("document.querySelector({element:?}).title"));
        assert!(title.as_str().unwrap().contains(&format!("{here} by your clock")), "{title}");
    }
    // Ages are by the service's clock, whatever the reader's says.
    let skewed = "(() => { const there = Date.now() + 300000; setClock(new Date(there).toUTCString());
        const said = ago(new Date(there)); setClock(new Date().toUTCString()); return said; })()";
    let skewed = browser.eval(skewed);
    assert!(["in 1 s", "in 0 s", "0 s ago", "1 s ago"].iter().any(|said| skewed == *said), "{skewed}");
    // In summer its clocks go otherwise.
    browser.eval("(shown.zone = { name: 'Europe/Berlin', offset_seconds: 3600 })");
    let summer = "clock('2026-07-01T12:00:00Z') === new Date('2026-07-01T14:00:00').toLocaleString()";
    assert_eq!(browser.eval(summer), true);
    // A zone without a name has its hours.
    browser.eval("(shown.zone = { name: null, offset_seconds: -12600 }) && showZone()");
    assert_eq!(text(&browser, "zone"), "times of the site: UTC−03:30");
    let moved = browser.eval(&format!("clock({created:?})"));
    assert_eq!(moved.as_str(), Some(by("{ timeZone: 'America/St_Johns' }").as_str()));
}

/// The answers of the service are those of one with other files.
const UPGRADED: &str = "(window.isOld = true, window.sent = fetch, window.fetch = (path, how) => sent(path, how).then((answer) => {
    const headers = new Headers(answer.headers);
    headers.set('sarouter-page', '1');
    return new Response(answer.body, { status: answer.status, headers });
})) && inTurn(refresh) && true";

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn a_page_that_is_open_over_an_upgrade_is_loaded_anew_when_nobody_types() {
    let site = Site::new("fattree:10x18,5", "balanced", &["1 n[1-60]\n".to_string()]);
    let browser = Browser::start(1400, 900);
    open(&site, &browser);
    assert_eq!(browser.eval("/^[0-9]+$/.test(files)"), true);
    browser.eval("(document.getElementById('find').focus(), true)");
    browser.eval(UPGRADED);
    browser.until("document.getElementById('health').textContent.includes('has been upgraded')");
    assert_eq!(browser.eval("window.isOld"), true);
    browser.eval("(document.activeElement.blur(), true)");
    browser.until("window.isOld === undefined && document.querySelectorAll('#jobs tr').length === 1");
    // Once: another one behind the same address has other files, too.
    browser.eval(UPGRADED);
    browser.until("document.getElementById('health').textContent.includes('has been upgraded')");
    assert_eq!(browser.eval("window.isOld"), true);
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn a_page_for_which_the_browser_keeps_nothing_works() {
    let site = Site::new("fattree:10x18,5", "balanced", &["1 n[1-60]\n".to_string()]);
    let browser = Browser::start(1400, 900);
    let closed = "get() { throw new DOMException('no', 'SecurityError'); }";
    browser.before_all(&format!(
        "for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, name, {{ {closed} }});"
    ));
    open(&site, &browser);
    browser.until("document.querySelectorAll('#jobs tr').length === 1");
    browser.click("#theme");
    assert_eq!(text(&browser, "theme"), "light");
}

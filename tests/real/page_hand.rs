//! The web page in Chromium: what is done by hand, by whom it may be done, and by nobody else.

use std::fs;

use serde_json::Value;

use super::browser::Browser;
use super::page::{READ, Site, WRITE, asked, island, open, text};
use super::testbed::run;

fn buttons(browser: &Browser) -> Vec<String> {
    let names = browser.eval("[...document.querySelectorAll('#hand button')].map((b) => b.dataset.act)");
    names.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_string()).collect()
}

fn current(site: &Site) -> String {
    let link = fs::read_link(site.directory.path().join("state/current")).unwrap();
    link.file_name().unwrap().to_str().unwrap().to_string()
}

fn hold(site: &Site) -> Option<Value> {
    let text = fs::read_to_string(site.directory.path().join("state/hold.json")).ok()?;
    Some(serde_json::from_str(&text).unwrap())
}

/// Clicks what is to be done; returns what the page says before it is.
fn ask_for(browser: &Browser, act: &str) -> String {
    browser.click(&format!("#hand button[data-act='{act}']"));
    browser.until("document.querySelector('dialog').open");
    text(browser, "sure-says")
}

fn strip_says(browser: &Browser, words: &str) {
    browser.until(&format!("document.getElementById('health').textContent.includes({words:?})"));
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn whoever_may_holds_resumes_goes_back_and_looks_after_saying_that_it_is_meant() {
    let site = island();
    let browser = Browser::start(1400, 1000);
    open(&site, &browser);
    assert_eq!(buttons(&browser), ["look", "hold"]);
    let said = ask_for(&browser, "hold");
    assert_eq!(said, "Epoch 2 stays in force, and no job waits for routes, until somebody resumes.");
    browser.click("dialog button[type=button]");
    browser.until("document.querySelector('dialog') === null");
    // Whatever it sends has come back then.
    browser.eval("inTurn(() => {})");
    assert_eq!(hold(&site), None, "cancelled");

    ask_for(&browser, "hold");
    browser.write("#sure-reason", "cable work in <b>row 3</b>");
    browser.click("dialog button[type=submit]");
    strip_says(&browser, "epoch 2 held by you, ");
    let held = hold(&site).unwrap();
    assert_eq!((&held["reason"], &held["epoch"]), (&"cable work in <b>row 3</b>".into(), &2.into()));
    assert_eq!(held["by"], run(std::process::Command::new("id").arg("-un")).trim());
    browser.until("document.getElementById('acts').textContent.includes('<b>row 3</b>')");
    assert_eq!(browser.eval("document.querySelectorAll('#acts b').length"), 0);
    browser.until("document.querySelector('#hand [data-act=resume]') !== null");
    assert_eq!(buttons(&browser), ["look", "resume"]);
    browser.until("document.activeElement.dataset.act === 'resume'");

    ask_for(&browser, "resume");
    browser.click("dialog button[type=submit]");
    strip_says(&browser, "resumed by you, ");
    assert_eq!(hold(&site), None);

    // To the epoch that is shown, and held there; the newest one is not offered.
    browser.click("#epochs button[data-epoch='1']");
    browser.until("document.querySelector('#hand [data-act=rollback]') !== null");
    let said = ask_for(&browser, "rollback");
    assert_eq!(said, "Epoch 1 comes into force again in the place of epoch 2.");
    browser.click("dialog button[type=submit]");
    strip_says(&browser, "epoch 1 put in force again by you and held, ");
    strip_says(&browser, "epoch 1 in force");
    assert_eq!((current(&site).as_str(), hold(&site).unwrap()["epoch"].as_u64()), ("000001", Some(1)));
    browser.until("!document.querySelector('#hand [data-act=rollback]')");

    let passes = "fetch('v1/health').then((a) => a.json()).then((h) => h.passes)";
    let before = browser.eval(passes).as_u64().unwrap();
    ask_for(&browser, "look");
    browser.click("dialog button[type=submit]");
    strip_says(&browser, "the service looks now, ");
    browser.until(&format!("{passes}.then((n) => n > {before})"));
    assert_eq!(browser.complaints(), [Value::Null; 0]);

    // One that another fabric had, or that is not there, does not come back; the page says why.
    browser.eval("carryOut({ ...acts()[0], title: 'Go back', path: 'v1/epochs/77/rollback' }, '', false)");
    strip_says(&browser, "not done (go back): ");
    assert_eq!(current(&site), "000001");
}

/// What can be changed.
const CHANGES: [&str; 4] = ["look", "hold", "resume", "epochs/1/rollback"];

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn whoever_may_only_ask_has_no_buttons_and_is_refused_and_so_are_other_sites() {
    let jobs = ["1 n[1-60]\n".to_string(), "1 n[1-60]\n2 n[61-90]\n".to_string()];
    let (site, far) = Site::with_tokens("fattree:10x18,5", &jobs);
    let near = site.address();
    for (token, wanted) in [(READ, &[][..]), (WRITE, &["look", "hold", "rollback"][..])] {
        let browser = Browser::start(1400, 1000);
        browser.go(&format!("{far}#epoch=1"));
        browser.until("document.getElementById('login').checkVisibility()");
        browser.write("#token", token);
        browser.click("#login button");
        browser.until("document.getElementById('t-now').textContent.startsWith('Epoch 1:')");
        browser.until("document.getElementById('zone').textContent !== ''");
        assert_eq!(buttons(&browser), wanted, "{token}");
        assert_eq!(browser.eval("document.querySelectorAll('dialog').length"), 0);
    }
    for path in CHANGES {
        let post = format!("POST /v1/{path}");
        let body = "Content-Type: application/json\r\nContent-Length: 0\r\n";
        let with = |token: &str| asked(&far, &post, &format!("Authorization: Bearer {token}\r\n{body}"));
        assert_eq!((asked(&far, &post, body), with("wrong"), with(READ)), (401, 401, 403), "{path}");
        // Whoever may change things is not refused; an empty body says nothing.
        assert!([200, 400].contains(&with(WRITE)), "{path}: {}", with(WRITE));
        // What a page of another site makes a browser send.
        for other in
            ["Sec-Fetch-Site: cross-site\r\n", "Sec-Fetch-Site: same-site\r\n", "Origin: http://evil.com\r\n"]
        {
            assert_eq!(asked(&near, &post, &format!("{other}{body}")), 403, "{path} {other}");
            let known = format!("Authorization: Bearer {WRITE}\r\n{other}{body}");
            assert_eq!(asked(&far, &post, &known), 403, "{path} {other}");
        }
    }
    assert_eq!((hold(&site), current(&site).as_str()), (None, "000002"));
}

//! The web page in Chromium: whose jobs these are, for those who may know it, and for nobody else.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::browser::Browser;
use super::page::{Site, assert_accessible, open, text};
use super::testbed::{await_some, free_port};

const USERS: [(&str, &str, &str, &str); 3] = [
    (
        "1",
        "n[1-60]",
        "zoe",
        "=night <b>run</b> with a name that is longer than any column of the page can be",
    ),
    ("2", "n[61-90,120]", "bob", "b-10"),
    ("3", "n[91-119,121-180]", "zoe", "b-9"),
];

/// A service whose `squeue` says who submitted jobs.
fn site(more: &str) -> Site {
    let jobs = USERS.map(|(id, nodes, user, name)| {
        json!({"job_id": id.parse::<u32>().unwrap(), "job_state": "RUNNING", "nodes": nodes, "user_name": user,
            "name": name, "partition": "batch", "start_time": 1_700_000_000})
    });
    Site::of_slurm("fattree:10x18,5", &[&jobs], more)
}

fn column(browser: &Browser, key: &str) -> Vec<String> {
    let cells =
        browser.eval(&format!("[...document.querySelectorAll('#jobs td.{key}')].map((c) => c.textContent)"));
    cells.as_array().unwrap().iter().map(|cell| cell.as_str().unwrap().to_string()).collect()
}

fn heads(browser: &Browser) -> Vec<Value> {
    let shown =
        "[...document.querySelectorAll('#columns th')].filter((h) => !h.hidden).map((h) => h.dataset.key)";
    browser.eval(shown).as_array().unwrap().clone()
}

/// What is in the files that the page has saved, once it keeps them for the test.
const SAVED: &str =
    "(() => { window.saved = []; window.save = (name, type, text) => saved.push(text); return true; })()";

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn whoever_may_write_sees_users_sorts_finds_and_saves_them() {
    let site = site("");
    let browser = Browser::start(1400, 1000);
    open(&site, &browser);
    browser.until("document.querySelector('#jobs td.user').textContent === 'zoe'");
    assert_eq!(heads(&browser)[..4], ["id", "user", "name", "partition"]);
    assert_eq!(column(&browser, "user"), ["zoe", "bob", "zoe"]);
    assert_eq!(column(&browser, "partition"), ["batch"; 3]);
    assert_eq!(browser.eval("document.querySelectorAll('#jobs b').length"), 0, "names are text");
    assert_eq!(column(&browser, "name")[0], USERS[0].3);
    // Sorted as words with numbers in them.
    browser.click("#columns th[data-key=name]");
    assert_eq!(column(&browser, "id"), ["1", "3", "2"]);
    browser.click("#columns th[data-key=user]");
    assert_eq!(column(&browser, "user"), ["bob", "zoe", "zoe"]);
    assert_eq!(browser.eval("location.hash"), "#sort=user");
    browser.write("#filter", "bob");
    assert_eq!(column(&browser, "id"), ["2"]);
    browser.write("#filter", "night");
    assert_eq!(column(&browser, "id"), ["1"]);
    browser.write("#filter", "a");
    browser.write("#filter", "");
    // The one search knows them, too; a single answer needs no click.
    let find = |what: &str| {
        browser.eval("(document.getElementById('found-count').textContent = '')");
        browser.write("#find", what);
        browser.click("#finding button");
        browser.until("document.getElementById('found-count').textContent !== ''");
        text(&browser, "found")
    };
    let found = find("zoe");
    assert!(
        found.contains("job 1 =night <b>run</b>") && found.contains("job 3 b-9 of zoe on n[91-119"),
        "{found}"
    );
    find("b-10");
    browser.until("document.getElementById('t-now').textContent.includes('routes of job 2')");
    // Saved as it is shown; what looks like a formula is text.
    browser.eval(SAVED);
    browser.click("#csv");
    let csv = browser.eval("saved[0]").as_str().unwrap().to_string();
    assert!(csv.starts_with("\"id\",\"user\",\"name\",\"partition\",\"state\""), "{csv}");
    assert!(csv.contains("\"1\",\"zoe\",\"'=night <b>run</b>"), "{csv}");
    assert_eq!(browser.complaints(), [Value::Null; 0]);
    assert_accessible(&browser);
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn readers_see_no_users_unless_the_settings_say_so() {
    const READ: &str = "0123456789abcdef-read";
    for shows in [false, true] {
        let port = free_port();
        let tokens = tempfile::tempdir().unwrap();
        let file = tokens.path().join("tokens");
        fs::write(&file, format!("{READ} read\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let api = format!("[api]\nshow_users = {shows}\ntcp = \"127.0.0.1:{port}\"\ntoken_file = {file:?}\n");
        let site = site(&api);
        site.address();
        let far = format!("http://127.0.0.1:{port}/");
        let asks =
            || super::page::asked(&far, "GET /v1/submissions", &format!("Authorization: Bearer {READ}\r\n"));
        await_some("the service listens", || TcpStream::connect(("127.0.0.1", port)).ok());
        await_some("the service has looked", || (asks() != 503).then_some(()));
        assert_eq!(asks(), if shows { 200 } else { 403 });
        let browser = Browser::start(1400, 1000);
        browser.go(&far);
        browser.until("document.getElementById('login').checkVisibility()");
        browser.write("#token", READ);
        browser.click("#login button");
        browser.until("document.querySelectorAll('#jobs tr').length === 3");
        assert_eq!(heads(&browser).contains(&"user".into()), shows);
        let page =
            browser.eval("document.body.innerText + document.body.outerHTML").as_str().unwrap().to_string();
        assert_eq!((page.contains("zoe"), page.contains("b-10")), (shows, shows));
        browser.eval(SAVED);
        browser.click("#csv");
        let csv = browser.eval("saved[0]").as_str().unwrap().to_string();
        assert_eq!((csv.contains("user"), csv.contains("zoe")), (shows, shows), "{csv}");
        // It does not even ask; before the token it was told 401.
        let complaints = browser.complaints();
        assert!(
            complaints.iter().all(|said| said["message"].as_str().unwrap().contains("401")),
            "{complaints:?}"
        );
    }
}

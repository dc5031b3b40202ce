//! The web page in Chromium: what an epoch is compared with, what is found, keys, print.

use std::fs;

use serde_json::Value;

use super::browser::Browser;
use super::page::{PIXELS, SETTLED, Site, direct_torus, island, open, text};
use super::testbed::{await_some, run};

/// Chooses in a list as a person does.
pub fn select(browser: &Browser, id: &str, value: &str) {
    browser.click(&format!("#{id} option[value='{value}']"));
}

pub fn press(browser: &Browser, key: &str) {
    browser.eval(&format!(
        "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {{ key: {key:?}, bubbles: true }}))"
    ));
}

pub fn find(browser: &Browser, what: &str) -> String {
    browser.eval("(document.getElementById('found-count').textContent = '')");
    browser.write("#find", what);
    browser.click("#finding button");
    browser.until("document.getElementById('found-count').textContent !== ''");
    text(browser, "found")
}

/// The number of routes that a text names after some words.
fn number(text: &str, words: &str) -> u64 {
    let rest = text.split(words).nth(1).unwrap_or_else(|| panic!("{words:?} is not in {text:?}"));
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no number after {words:?} in {text:?}"))
}

pub fn hash(browser: &Browser) -> String {
    browser.eval("decodeURIComponent(location.hash)").as_str().unwrap().to_string()
}

/// Does something by hand as soon as the service, which looks now, has let go of its lock.
pub fn by_hand(site: &Site, word: &str, words: &[&str]) {
    let is_done = || site.sarouter(word).args(words).output().unwrap().status.success();
    await_some(word, || is_done().then_some(()));
}

/// A tree that loses a cable between two epochs, the first of which was held for a while.
pub fn tree_that_lost_a_cable() -> (tempfile::TempDir, Site) {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    for (name, faults) in [("whole.net", ""), ("cut.net", ",faults=2%,seed=3")] {
        let spec = format!("kary:4,3{faults}");
        run(std::process::Command::new(env!("CARGO_BIN_EXE_sarouter"))
            .args(["fabric", "generate", &spec, "--out"])
            .arg(path(name)));
    }
    fs::copy(path("whole.net"), path("now.net")).unwrap();
    let jobs = "1 n[1-40]\n2 n[41-64]\n".to_string();
    let site = Site::new(&path("now.net"), "balanced", std::slice::from_ref(&jobs));
    by_hand(&site, "hold", &["--reason", "cable work"]);
    by_hand(&site, "resume", &[]);
    fs::copy(path("cut.net"), path("now.net")).unwrap();
    let _ = site.sarouter("tick").output();
    (dir, site)
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn an_epoch_is_compared_with_what_the_reader_chooses_and_the_bound_stands_beside() {
    let site = island();
    let browser = Browser::start(1400, 1000);
    let address = open(&site, &browser);
    let plan = fs::read_to_string(site.directory.path().join("state/epochs/000002/plan.json")).unwrap();
    let plan: Value = serde_json::from_str(&plan).unwrap();
    let bound = plan["after"]["effective"]["lower_bound"].as_u64().unwrap();
    let now = text(&browser, "t-now");
    assert!(bound > 1 && now.contains(&format!(" on a channel, {bound} is the least possible, ")), "{now}");
    browser.until("document.getElementById('why').textContent !== ''");
    let why = text(&browser, "why");
    assert!(why.contains("run on other nodes") && why.contains("Jobs that came: 1, 2, 3;"), "{why}");
    assert!(why.contains(&format!(", {bound} is the least possible; slow-down ")), "{why}");
    // Unless told, with the baseline, which has a column of the jobs already.
    let baseline = text(&browser, "t-before");
    let engine = browser.eval("shown.load.against.engine");
    let engine = engine.as_str().unwrap();
    assert!(baseline.starts_with(&format!("The baseline ({engine}), same jobs: ")), "{baseline}");
    assert!(text(&browser, "verdict").contains(&format!("; OpenSM alone ({engine}) would give ")));
    let chosen = "document.querySelector('#against option:checked').textContent";
    assert_eq!(browser.eval(chosen), format!("the baseline ({engine})"));
    let is_seen = "document.getElementById('j-before').checkVisibility()";
    assert_eq!((hash(&browser).as_str(), browser.eval(is_seen)), ("", false.into()));

    select(&browser, "against", "before");
    browser.until("document.getElementById('t-before').textContent.startsWith('Tables before')");
    browser.until(is_seen);
    assert_eq!((hash(&browser).as_str(), text(&browser, "j-before").as_str()), ("#against=before", "before"));
    let before = text(&browser, "t-before");
    let most = |title: &str| number(title, "at most ");
    assert_ne!(most(&baseline), most(&before));
    assert!(most(&now) >= bound && most(&now) < most(&before), "{now} {before}");

    // The same tables have no difference; a job alone has a bound of its own.
    select(&browser, "against", "2");
    browser.until("document.getElementById('t-before').textContent.startsWith('Epoch 2,')");
    let picture = browser.eval(PIXELS);
    select(&browser, "show", "difference");
    assert!(text(&browser, "t-now").contains(": 0 channels carry fewer routes, 0 more, "));
    assert_ne!(browser.eval(PIXELS), picture);
    browser.go("about:blank");
    browser.go(&format!("{address}#against=1&show=difference&job=2"));
    browser.until("document.getElementById('t-now').textContent.startsWith('Epoch 2 against Epoch 1')");
    let said = text(&browser, "t-now");
    assert!(number(&said, "same jobs: ") > 0 && number(&said, "fewer routes, ") > 0, "{said}");
    let of_job = number(&said, &format!("instead of {}, ", number(&said, "instead of ")));
    assert!((1..=number(&said, "largest load ")).contains(&of_job) && of_job <= bound, "{said}");
    let scale = text(&browser, "scale");
    assert!(
        scale.contains("blue, thin and dashed: fewer") && scale.contains("orange, thick: more"),
        "{scale}"
    );
    browser.screenshot("page-difference");
    let parsed = "new DOMParser().parseFromString(shown.pictures.now.svg(), 'image/svg+xml')";
    assert!(
        browser.eval(&format!("{parsed}.querySelectorAll('path[stroke-dasharray]').length")).as_u64()
            > Some(1)
    );
    assert_eq!(browser.complaints(), [Value::Null; 0]);
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn where_no_engine_gives_a_baseline_the_tables_before_are_compared() {
    let jobs = ["1 n[1-60]\n".to_string(), "1 n[1-60]\n2 n[61-90]\n".to_string()];
    // No tree is a torus.
    let site = Site::with("fattree:10x18,5", "balanced", &jobs, "baseline = \"torus\"\n", &[]);
    let browser = Browser::start(1400, 1000);
    open(&site, &browser);
    assert!(text(&browser, "t-before").starts_with("Tables before, same jobs: "));
    assert!(text(&browser, "no-against").starts_with("no baseline: "), "{}", text(&browser, "no-against"));
    let verdict = text(&browser, "verdict");
    assert!(verdict.starts_with("Now ") && verdict.contains(" times the ideal. Largest load "), "{verdict}");
    assert_eq!(
        browser.eval("[document.getElementById('against').value, shown.against]"),
        serde_json::json!(["before", "opensm"])
    );
    assert_eq!(hash(&browser), "");
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn what_takes_too_long_to_compare_leaves_the_rest_of_the_page_as_it_is() {
    let site = island();
    let browser = Browser::start(1400, 1000);
    open(&site, &browser);
    // As where the answer takes longer than the settings allow.
    let slow = |path: &str| {
        browser.eval(&format!(
            "(() => {{ const real = window.fetch; const late = () => new Response('{{\"error\": \"no answer within 10 s\"}}', {{ status: 504 }});
            window.fetch = (url, all) => (url.includes({path:?}) ? Promise.resolve(late()) : real(url, all));
            [loadOf, shown.load] = [null, null]; inTurn(refresh); return true; }})()"
        ))
    };
    slow("against=");
    browser
        .until("document.getElementById('no-against').textContent.startsWith('the baseline takes longer')");
    browser.until("document.getElementById('t-before').textContent.startsWith('Tables before')");
    assert!(text(&browser, "health").starts_with("dry run: "), "{}", text(&browser, "health"));
    // The service answers, if not all.
    slow("v1/jobs");
    browser.until("document.getElementById('health').textContent.includes(' · not all is shown: no answer within 10 s')");
    assert_eq!(text(&browser, "state"), "dry run");
    slow("v1/health");
    browser.until("document.getElementById('state').textContent === 'stopped'");
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn the_timeline_tells_of_holds_and_losses_and_what_was_lost_is_compared() {
    let (_dir, site) = tree_that_lost_a_cable();
    let browser = Browser::start(1400, 1000);
    open(&site, &browser);
    browser.until("document.querySelectorAll('#epochs .loss').length > 0");
    browser.click("#epochs button[data-epoch='2']");
    browser.until("document.getElementById('why').textContent.includes('The fabric: ')");
    assert!(text(&browser, "why").contains("cables changed"), "{}", text(&browser, "why"));
    let why = text(&browser, "why");
    assert!(number(&why, "The fabric: cables 128 → ") < 128, "{why}");
    let order = browser.eval("[...document.querySelectorAll('#epochs button')].map((b) => b.className)");
    assert_eq!(order.as_array().unwrap()[..3], ["", "mark", "loss"], "{order}");
    browser.click("#epochs .mark");
    let held = text(&browser, "why");
    assert!(held.starts_with("Held from ") && held.ends_with("epoch 1 in force: cable work."), "{held}");
    assert!(held.contains(" until ") && held.contains(", ended by ") && held.contains(", by "), "{held}");
    browser.eval("inTurn(refresh).then(() => true)");
    assert_eq!(text(&browser, "why"), held, "it can be read for as long as that takes");
    select(&browser, "against", "fabric");
    browser.until("document.getElementById('t-before').textContent.includes('before the change of fabric')");
    assert!(
        text(&browser, "t-before")
            .starts_with("Epoch 1, before the change of fabric, same jobs, made for another")
    );
    browser.click("#epochs button[data-epoch='1']");
    // There is none before the first.
    browser.until("document.getElementById('no-against').textContent.includes('the fabric has not changed')");
    browser.until("document.getElementById('t-now').textContent.startsWith('Epoch 1:')");
    assert_eq!(hash(&browser), "#epoch=1");
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn cables_lids_and_guids_are_found_and_keys_go_through_the_picture() {
    let jobs = ["1 n[1-30]\n".to_string(), "2 n[3,9,20-40]\n".to_string()];
    let sites = [island(), Site::new("dragonfly:4,2,2,9", "balanced", &jobs), direct_torus()];
    for (site, is_direct) in sites.into_iter().zip([false, false, true]) {
        let browser = Browser::start(1400, 1000);
        let address = open(&site, &browser);
        let end = |i: u32| browser.eval(&format!("endName(0, {i})")).as_str().unwrap().to_string();
        let ends = [end(0), end(1)];
        let both = ends.join(" – ");
        assert_eq!(find(&browser, &ends[0]), format!("cable {both}"));
        let picked = text(&browser, "picked");
        assert!(picked.starts_with(&format!("Cable {both}")) && picked.contains(" routes now"), "{picked}");
        assert_eq!(hash(&browser), format!("#find={0}&open=cable:{0}", ends[0]));
        browser.go("about:blank");
        browser.go(&format!("{address}#find={}", ends[1].replace('+', "%2B")));
        browser.until("document.getElementById('picked').textContent.startsWith('Cable ')");
        assert!(text(&browser, "found").starts_with(&format!("cable {} – ", ends[1])));
        if is_direct {
            let found = find(&browser, "1.0.0");
            assert!(found.starts_with("node n") && found.ends_with(" at 1.0.0"), "{found}");
        } else {
            // A number is the id of a job, too.
            let found = find(&browser, "1");
            let (job, first) = found.split_at(found.find("switch ").unwrap());
            assert!(job.is_empty() || job.starts_with("job 1 on n["), "{found}");
            let guid = first.split("GUID ").nth(1).unwrap().to_string();
            assert!(first.contains(", LID 1, "), "{first}");
            assert_eq!(find(&browser, &guid), first);
            assert!(find(&browser, "n7").contains("adapter n7, LID "), "{}", text(&browser, "found"));
        }
        assert_eq!(find(&browser, "there is no such name"), "");
        // Every switch is reached by arrows, and its cables by Enter.
        browser.eval("document.getElementById('now').focus()");
        press(&browser, "Home");
        let name = |i: u32| browser.eval(&format!("shown.fabric.names[{i}]")).as_str().unwrap().to_string();
        assert!(text(&browser, "picked").contains(&format!(" {}: ", name(0))));
        press(&browser, "ArrowRight");
        assert!(!text(&browser, "picked").contains(&format!(" {}: ", name(0))));
        press(&browser, "Enter");
        let first = text(&browser, "picked");
        assert!(first.starts_with("Cable "), "{first}");
        press(&browser, "ArrowDown");
        assert!(text(&browser, "picked").starts_with("Cable ") && text(&browser, "picked") != first);
        press(&browser, "Escape");
        assert!(!text(&browser, "picked").starts_with("Cable "));
        let picture = browser.eval(PIXELS);
        press(&browser, "+");
        assert_ne!(browser.eval(PIXELS), picture);
        press(&browser, "0");
        assert_eq!(browser.eval(PIXELS), picture);
        assert_eq!(browser.complaints(), [Value::Null; 0]);
    }
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn paper_has_figures_and_tables_and_no_controls() {
    let site = island();
    let browser = Browser::start(1400, 1000);
    browser.prefer("dark");
    open(&site, &browser);
    let is_shown =
        |css: &str| browser.eval(&format!("document.querySelector({css:?}).checkVisibility()")) == true;
    assert!(is_shown(".tools") && is_shown("#find") && !is_shown("#busiest tr"));
    let paper = "getComputedStyle(document.body).backgroundColor";
    assert_ne!(browser.eval(paper), "rgb(255, 255, 255)");
    browser.media("print");
    browser.eval("window.dispatchEvent(new Event('beforeprint'))");
    for gone in [".tools", "#find", "#theme", "#whatif", "#keys"] {
        assert!(!is_shown(gone), "{gone}");
    }
    for kept in ["#verdict", "#why", "#now", "#jobs tr", "#busiest tr", "#scale"] {
        assert!(is_shown(kept), "{kept}");
    }
    assert_eq!(browser.eval(paper), "rgb(255, 255, 255)");
    assert_eq!(
        browser.eval("getComputedStyle(document.querySelector('#epochs .key')).printColorAdjust"),
        "exact"
    );
    browser.eval("window.dispatchEvent(new Event('afterprint'))");
    browser.media("");
    assert!(is_shown(".tools") && !is_shown("#busiest tr"));
}

#[test]
#[ignore = "takes a minute; needs Debian's chromium-driver"]
fn ten_thousand_cables_are_drawn_and_answer_the_mouse_and_the_keys_without_another_picture() {
    let jobs = "1 n[1-300]\n2 n[301-722]\n".to_string();
    let site = Site::new("kary:19,3,hosts=2", "updown", &[jobs]);
    let browser = Browser::start(1400, 1000);
    open(&site, &browser);
    let first = browser.eval("Number(document.body.dataset.drawn)");
    browser.until(SETTLED);
    let cables = browser.eval("shown.fabric.cables.length").as_u64().unwrap();
    assert!(cables > 10_000);
    // Each direction of each cable is one line, of one colour.
    let lines = "[shown.pictures.now.lines.length, shown.pictures.now.drawn.looks.reduce((sum, look) => sum + look.channels.length, 0)]";
    assert_eq!(browser.eval(lines), serde_json::json!([2 * cables, 2 * cables]));
    // The first picture waits for no baseline, and nothing else is asked for before it.
    let asked = "performance.getEntriesByType('resource').map((e) => e.name.split('/v1/')[1]).filter((n) => /^(fabric|load)/.test(n)).slice(0, 3)";
    assert_eq!(browser.eval(asked), serde_json::json!(["fabric", "load", "load?against=opensm"]));
    let count = "(() => { window.drawn = 0; for (const p of Object.values(shown.pictures)) {
        const draw = p.draw.bind(p); p.draw = (...all) => { window.drawn += 1; draw(...all); }; } return true; })()";
    browser.eval(count);
    let time = |what: &str, words: &str| {
        let each = format!(
            "(() => {{ const [t, said] = [performance.now(), new Set()]; for (let i = 0; i < 20; i++) {{ {what} said.add($({words:?}).textContent); }}
            return [(performance.now() - t) / 20, said.size]; }})()"
        );
        let answer = browser.eval(&each);
        (answer[0].as_f64().unwrap(), answer[1].as_u64().unwrap())
    };
    let event = |kind: &str| format!("$('now').dispatchEvent(new {kind});");
    let at = "MouseEvent('mousemove', { clientX: r.left + 20 + 12 * i, clientY: r.top + r.height / 4, bubbles: true })";
    let (hover, tips) = time(&format!("const r = $('now').getBoundingClientRect(); {}", event(at)), "tip");
    browser.eval("$('now').focus()");
    let (key, picked) = time(
        &event("KeyboardEvent('keydown', { key: i % 3 ? 'ArrowRight' : 'Enter', bubbles: true })"),
        "picked",
    );
    println!("milliseconds: first picture {first}, hover {hover:.1}, key {key:.1}");
    assert!(tips > 10 && picked > 10, "{tips} {picked}");
    assert_eq!(browser.eval("window.drawn"), 0, "what is pointed at is drawn above the picture");
}

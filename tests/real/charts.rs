//! Charts in Chromium: those of a report that is opened as a file, and that of the page. One script makes both answer.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::browser::Browser;
use super::page::{Site, assert_accessible, open, text};
use super::page_compare::{by_hand, press, tree_that_lost_a_cable};
use super::testbed::{await_some, run};

/// Keeps what is saved for the test.
const KEEP: &str = "(() => { const make = URL.createObjectURL; window.kept = [];
    URL.createObjectURL = (blob) => { kept.push(blob); return make.call(URL, blob); }; return true; })()";

/// A chart of what the browser shows, by its place.
struct Chart<'a> {
    browser: &'a Browser,
    nth: usize,
}

impl Chart<'_> {
    fn eval(&self, expression: &str) -> Value {
        let chart = format!("const chart = document.querySelectorAll('.charted')[{}];", self.nth);
        self.browser.eval(&format!("(() => {{ {chart} return {expression}; }})()"))
    }

    fn told(&self) -> String {
        self.eval("chart.querySelector('.told').textContent").as_str().unwrap().to_string()
    }

    fn axis(&self) -> Vec<String> {
        let labels = self.eval("[...chart.querySelectorAll('.axis text')].map((label) => label.textContent)");
        labels.as_array().unwrap().iter().map(|label| label.as_str().unwrap().to_string()).collect()
    }

    /// The figures: entries and their values.
    fn rows(&self) -> Vec<(String, Vec<Option<f64>>)> {
        serde_json::from_value(self.eval("JSON.parse(chart.querySelector('svg').dataset.chart).rows"))
            .unwrap()
    }

    /// Where a place of the drawing is in the window, which is scrolled there.
    fn at(&self, x: f64, y: f64) -> [f64; 2] {
        self.eval("chart.scrollIntoView({ block: 'center' })");
        let matrix = "chart.querySelector('svg').getScreenCTM()";
        let at =
            self.eval(&format!("(({{ x, y }}) => [x, y])(new DOMPoint({x}, {y}).matrixTransform({matrix}))"));
        serde_json::from_value(at).unwrap()
    }

    fn hover(&self, x: f64, y: f64) -> String {
        self.browser.mouse("mouseMoved", self.at(x, y), false);
        self.told()
    }

    fn drag(&self, from: f64, to: f64, y: f64) {
        self.browser.mouse("mouseMoved", self.at(from, y), false);
        self.browser.mouse("mousePressed", self.at(from, y), false);
        for share in [0.5, 1.0] {
            self.browser.mouse("mouseMoved", self.at(from + share * (to - from), y), true);
        }
        self.browser.mouse("mouseReleased", self.at(to, y), false);
    }

    /// Clicks its button with these letters, and returns what was saved.
    fn saved(&self, letters: &str) -> String {
        let button = format!(
            "[...chart.querySelectorAll('.chart-tools button')].find((b) => b.textContent === {letters:?})"
        );
        self.eval(&format!("{button}.click()"));
        let saved = self.browser.eval("kept[kept.length - 1].text()");
        saved.as_str().unwrap().to_string()
    }

    fn press(&self, key: &str) {
        self.eval("chart.querySelector('[role=application]').focus()");
        press(self.browser, key);
    }

    /// Elements that a saved picture has.
    fn count(&self, svg: &str, css: &str) -> u64 {
        let parsed = format!("new DOMParser().parseFromString({}, 'image/svg+xml')", Value::from(svg));
        self.eval(&format!("{parsed}.querySelectorAll({css:?}).length")).as_u64().unwrap()
    }
}

/// As the chart says it: four digits that count.
fn figure(value: f64) -> String {
    let digits = 3 - (value.abs().log10().floor() as i32).max(-3);
    let factor = 10f64.powi(digits);
    ((value * factor).round() / factor).to_string()
}

fn sarouter(dir: &Path, words: &[&str]) {
    run(Command::new(env!("CARGO_BIN_EXE_sarouter")).current_dir(dir).args(words));
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn bars_of_a_report_tell_zoom_and_save_their_figures() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("jobs"), "17 n[1-40]\n18 n[41-100]\n19 n[101-140]\n").unwrap();
    let compare =
        ["compare", "--fabric", "fattree:10x18,5", "--jobs", "jobs", "--engines", "dfsssp,updown,balanced"];
    sarouter(dir.path(), &[&compare[..], &["--html", "page.html"]].concat());
    let browser = Browser::start(1200, 900);
    browser.go(&format!("file://{}", dir.path().join("page.html").display()));
    browser.eval(KEEP);
    let chart = Chart { browser: &browser, nth: 0 };
    let rows = chart.rows();
    assert_eq!(
        rows.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["dfsssp", "updown", "balanced"]
    );
    let said = |i: usize| format!("{}: {}", rows[i].0, figure(rows[i].1[0].unwrap()));
    assert_eq!([48.0, 72.0, 96.0].map(|y| chart.hover(300.0, y)), [said(0), said(1), said(2)]);
    assert_eq!(chart.hover(300.0, 20.0), "", "the title is no entry");
    chart.press("Home");
    assert_eq!(chart.told(), said(0));
    chart.press("ArrowDown");
    assert_eq!(chart.told(), said(1));
    chart.press("Escape");
    assert_eq!(chart.told(), "");

    // Between 1.5 and 2 of 0 to 2: labels say so, and bars are drawn from there on.
    let (whole, width) = (chart.axis(), "chart.querySelector('.zooms rect').getBoundingClientRect().width");
    assert_eq!(whole, ["0", "0.5", "1", "1.5", "2"]);
    let bar = chart.eval(width).as_f64().unwrap();
    chart.drag(220.0 + 0.75 * 650.0, 870.0, 100.0);
    let near = chart.axis();
    assert!(
        near.len() > 3 && near.iter().all(|label| (1.5..=2.0).contains(&label.parse::<f64>().unwrap())),
        "{near:?}"
    );
    let times = chart.eval(width).as_f64().unwrap() / bar;
    assert!((times - 4.0).abs() < 0.05, "{times}");
    assert_eq!(chart.hover(300.0, 72.0), said(1));
    chart.press("0");
    assert_eq!((chart.axis(), chart.eval(width).as_f64()), (whole.clone(), Some(bar)));
    chart.press("+");
    assert_ne!(chart.axis(), whole);
    let reset = "chart.querySelectorAll('.chart-tools button')[2]";
    chart.eval(&format!("{reset}.click()"));
    assert_eq!((chart.axis(), chart.eval(&format!("{reset}.disabled"))), (whole, true.into()));

    let csv = chart.saved("CSV");
    let lines: Vec<String> =
        rows.iter().map(|(name, values)| format!("\"{name}\",{}", values[0].unwrap())).collect();
    assert_eq!(csv.lines().skip(1).collect::<Vec<_>>(), lines);
    let svg = chart.saved("SVG");
    assert_eq!((chart.count(&svg, "parsererror"), chart.count(&svg, "rect.bar")), (0, 3));
    assert_eq!(chart.count(&svg, ".cursor"), 0);
    assert!(svg.contains("fill=\"rgb("), "it has its colours with it");
    assert_eq!(browser.complaints(), [Value::Null; 0]);
    assert_accessible(&browser);
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn curves_of_a_report_tell_zoom_and_save_their_figures() {
    let dir = tempfile::tempdir().unwrap();
    sarouter(dir.path(), &["demo", "--hours", "1", "--out", "demo.html"]);
    let browser = Browser::start(1200, 900);
    browser.go(&format!("file://{}", dir.path().join("demo.html").display()));
    browser.eval(KEEP);
    assert_eq!(browser.eval("document.querySelectorAll('.charted .chart').length"), 3);
    for nth in 0..3 {
        let chart = Chart { browser: &browser, nth };
        let (rows, whole) = (chart.rows(), chart.axis());
        let head = chart.eval("JSON.parse(chart.querySelector('svg').dataset.chart).head.slice(1)");
        let names: Vec<&str> = head.as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let said = |i: usize| {
            let each = names
                .iter()
                .zip(&rows[i].1)
                .map(|(name, value)| format!("{name} {}", figure(value.unwrap())));
            format!("{}: {}", rows[i].0, each.collect::<Vec<_>>().join(", "))
        };
        let middle = |i: usize| 56.0 + (960.0 - 56.0 - 150.0) * (i as f64 + 0.5) / rows.len() as f64;
        let last = rows.len() - 1;
        assert_eq!([0, 3, last].map(|i| chart.hover(middle(i), 100.0)), [0, 3, last].map(said), "{nth}");
        // The fourth to the sixth alone, each a third of the width.
        chart.drag(
            middle(3) - 0.5 * (middle(1) - middle(0)),
            middle(5) + 0.5 * (middle(1) - middle(0)),
            100.0,
        );
        let shown = chart.axis();
        assert!(
            !shown.is_empty() && shown.iter().all(|label| rows[3..=6].iter().any(|row| row.0 == *label)),
            "{shown:?}"
        );
        assert_ne!(shown, whole);
        assert_eq!([100.0, 430.0, 750.0].map(|x| chart.hover(x, 100.0)), [3, 4, 5].map(said), "{nth}");
        chart.press("End");
        assert_eq!(chart.told(), said(last), "what a key leads to is moved into view");
        assert_ne!(chart.axis(), shown);
        chart.press("0");
        assert_eq!(chart.axis(), whole);
        let csv = chart.saved("CSV");
        assert_eq!(csv.lines().count(), rows.len() + 1);
        let values: Vec<String> = rows[3].1.iter().map(|value| value.unwrap().to_string()).collect();
        assert_eq!(csv.lines().nth(4).unwrap(), format!("\"{}\",{}", rows[3].0, values.join(",")));
        assert_eq!(chart.count(&chart.saved("SVG"), "path.curve") as usize, names.len());
    }
    assert_eq!(browser.complaints(), [Value::Null; 0]);
}

/// The channels of a heat map with their routes, fullest last, and the ends of their lines.
fn channels(chart: &Chart<'_>) -> Vec<(String, u64, [f64; 4])> {
    let rows: Vec<(String, u64)> =
        serde_json::from_value(chart.eval("JSON.parse(chart.querySelector('.heat').dataset.heat)")).unwrap();
    let lines =
        chart.eval("[...chart.querySelectorAll('.lines path')].map((path) => path.getAttribute('d'))");
    let ends = lines.as_array().unwrap().iter().map(|line| {
        let line: Vec<f64> =
            line.as_str().unwrap()[1..].split([' ', 'L']).map(|n| n.parse().unwrap()).collect();
        [line[0], line[1], line[2], line[3]]
    });
    rows.into_iter().zip(ends).map(|((name, load), ends)| (name, load, ends)).collect()
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn heat_maps_of_a_report_tell_zoom_and_save_their_figures() {
    let dir = tempfile::tempdir().unwrap();
    sarouter(dir.path(), &["demo", "--hours", "1", "--out", "demo.html"]);
    let browser = Browser::start(1200, 900);
    browser.go(&format!("file://{}", dir.path().join("demo.html").display()));
    browser.eval(KEEP);
    assert_eq!(browser.eval("document.querySelectorAll('.charted .heat').length"), 2);
    browser.eval("document.querySelector('details').open = true");
    for nth in 3..5 {
        let chart = Chart { browser: &browser, nth };
        let all = channels(&chart);
        let (last, said) = (all.len() - 1, |i: usize| format!("{}: {}", all[i].0, all[i].1));
        assert!(all.is_sorted_by_key(|(_, load, _)| *load) && all[0].1 < all[last].1);
        for (key, at) in [
            ("Home", last),
            ("ArrowRight", last - 1),
            ("ArrowDown", last - 2),
            ("ArrowLeft", last - 1),
            ("End", 0),
        ] {
            chart.press(key);
            assert_eq!(chart.told(), said(at), "{key}");
        }
        // On the line of the fullest channel, near its first end, where others are farther.
        let spot = |at: usize| {
            let [x1, y1, x2, y2] = all[at].2;
            (x1 + 0.3 * (x2 - x1), y1 + 0.3 * (y2 - y1))
        };
        let (x, y) = spot(last);
        assert_eq!(chart.hover(x, y), said(last));
        assert_eq!(chart.hover(500.0, 12.0), "", "no line is there");
        // Nearer around it: what is seen there is the same, and lines lie farther from each other.
        chart.press("Home");
        chart.press("+");
        chart.press("+");
        let matrix = chart
            .eval("(({ a, e, f }) => [a, e, f])(chart.querySelector('.zooms').transform.baseVal[0].matrix)");
        let [scale, dx, dy]: [f64; 3] = serde_json::from_value(matrix).unwrap();
        assert!((scale - 2.56).abs() < 1e-3, "{scale}");
        let [x1, y1, x2, y2] = all[last].2;
        let middle = (scale * (x1 + x2) / 2.0 + dx, scale * (y1 + y2) / 2.0 + dy);
        assert_eq!(chart.hover(middle.0, middle.1), said(last));
        assert_ne!(chart.hover(x, y), said(last));
        // What is held moves with the pointer.
        let edge = "chart.querySelector('.zooms').transform.baseVal[0].matrix.e";
        let before = chart.eval(edge).as_f64().unwrap();
        let by = if before < -100.0 { 100.0 } else { -100.0 };
        chart.drag(500.0, 500.0 + by, 120.0);
        let moved = chart.eval(edge).as_f64().unwrap() - before;
        assert!((moved - by).abs() < 2.0, "{moved}");
        chart.press("0");
        assert_eq!(chart.hover(x, y), said(last));
        let csv = chart.saved("CSV");
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!((lines.len(), lines[0]), (all.len() + 1, "\"channel\",\"routes\""));
        assert_eq!(lines[1], format!("\"{}\",{}", all[last].0, all[last].1));
        let svg = chart.saved("SVG");
        let parts = ["parsererror", ".lines path", ".cursor", "circle"].map(|part| chart.count(&svg, part));
        let switches = chart.eval("chart.querySelectorAll('circle').length").as_u64().unwrap();
        assert_eq!(parts, [0, all.len() as u64, 0, switches]);
    }
    assert_eq!(browser.complaints(), [Value::Null; 0]);
    assert_accessible(&browser);
}

/// Without its script a report is what it was: all in the picture, nothing that does nothing.
#[test]
#[ignore = "needs Debian's chromium-driver"]
fn a_report_without_its_script_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    sarouter(dir.path(), &["demo", "--hours", "1", "--out", "demo.html"]);
    let page = std::fs::read_to_string(dir.path().join("demo.html")).unwrap();
    let (before, rest) = page.split_once("<script>").unwrap();
    std::fs::write(dir.path().join("plain.html"), [before, rest.split_once("</script>").unwrap().1].concat())
        .unwrap();
    let browser = Browser::start(1200, 900);
    browser.go(&format!("file://{}", dir.path().join("plain.html").display()));
    assert_eq!(browser.eval("document.querySelectorAll('.charted, button').length"), 0);
    let drawn = "[...document.querySelectorAll('svg.chart')].map((svg) => \
                 [svg.querySelectorAll('path.curve').length, svg.querySelectorAll('.axis text').length > 3])";
    assert_eq!(browser.eval(drawn), serde_json::json!([[2, true], [3, true], [2, true]]));
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn the_timeline_of_the_page_tells_zooms_saves_and_leads_to_epochs() {
    let lists = ["1 n[1-60]\n2 n[61-120]\n", "1 n[1-60]\n3 n[5,61-110]\n", "4 n[1-170]\n"].map(String::from);
    let site = Site::new("fattree:10x18,5", "balanced", &lists);
    let browser = Browser::start(1400, 1000);
    open(&site, &browser);
    browser.eval(KEEP);
    let chart = Chart { browser: &browser, nth: 0 };
    let (rows, whole) = (chart.rows(), chart.axis());
    let epochs = browser.eval("shown.epochs");
    for (i, (name, values)) in rows.iter().enumerate() {
        assert!(name.starts_with(&format!("epoch {}, ", i + 1)), "{name}");
        let is = ["slowdown_oblivious", "slowdown_after"].map(|key| epochs[i][key].as_f64());
        assert_eq!(values[..], [is[0], is[1], Some(1.0)]);
    }
    // Each epoch is as wide as its time in force.
    let edges: Vec<f64> =
        serde_json::from_value(chart.eval("JSON.parse(chart.querySelector('svg').dataset.chart).edges"))
            .unwrap();
    let middle = |i: usize| (edges[i] + edges[i + 1]) / 2.0;
    let said = |i: usize| {
        let [without, now] = [0, 1].map(|s| figure(rows[i].1[s].unwrap()));
        format!("{}: baseline {without}, now {now}, least possible 1", rows[i].0)
    };
    // What it did follows when it has been asked for.
    let tells = |told: String, i: usize| assert!(told.starts_with(&said(i)), "{told}");
    (0..3).for_each(|i| tells(chart.hover(middle(i), 50.0), i));
    let seen = "chart.querySelector('.zooms').getAttribute('transform')";
    chart.drag(edges[1], edges[2], 50.0);
    assert_ne!(chart.eval(seen), Value::Null);
    [100.0, 1200.0].into_iter().for_each(|x| tells(chart.hover(x, 50.0), 1)); // it fills the chart
    chart.press("0");
    assert_eq!(chart.axis(), whole);
    tells(chart.hover(middle(2), 50.0), 2);
    chart.press("Home");
    tells(chart.told(), 0);
    chart.press("Enter");
    browser.until("document.getElementById('t-now').textContent.startsWith('Epoch 1:')");
    browser.mouse("mousePressed", chart.at(middle(1), 50.0), false);
    browser.mouse("mouseReleased", chart.at(middle(1), 50.0), false);
    browser.until("document.getElementById('t-now').textContent.startsWith('Epoch 2:')");
    assert!(text(&browser, "epoch").starts_with("Epoch 2,"), "{}", text(&browser, "epoch"));
    let csv = chart.saved("CSV");
    assert!(csv.starts_with("\"epoch\",\"baseline\",\"now\",\"least possible\"\r\n"), "{csv}");
    let values: Vec<String> = rows[1].1.iter().map(|value| value.unwrap().to_string()).collect();
    assert_eq!(csv.lines().nth(2).unwrap(), format!("\"{}\",{}", rows[1].0, values.join(",")));
    let svg = chart.saved("SVG");
    assert_eq!((chart.count(&svg, "parsererror"), chart.count(&svg, "path.curve")), (0, 3));
    // Nothing that the policy of the page forbids.
    assert_eq!(browser.complaints(), [Value::Null; 0]);
    assert_accessible(&browser);
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn the_timeline_tells_why_it_was_held_gone_back_and_cut_and_a_new_epoch_keeps_its_zoom() {
    let (_dir, site) = tree_that_lost_a_cable();
    by_hand(&site, "rollback", &["1", "--force"]);
    let browser = Browser::start(1400, 1000);
    open(&site, &browser);
    let chart = Chart { browser: &browser, nth: 0 };
    let marks = "JSON.parse(chart.querySelector('svg').dataset.chart).marks";
    let marks = || serde_json::from_value::<Vec<(f64, String)>>(chart.eval(marks)).unwrap();
    let words =
        ["Fabric changed: 3 cables lost: S0004[7] -> S0022[1], ", "Gone back to epoch 1 at ", "Held from "];
    for word in words {
        // The page looks again now and then, and its chart goes on to the time of that: aimed at again then.
        await_some(word, || {
            let (at, said) = marks().into_iter().find(|(_, said)| said.starts_with(word))?;
            // Beside it, and at the sign above.
            [50.0, 8.0].iter().all(|y| chart.hover(at, *y) == said).then_some(())
        });
    }
    let marks = marks();
    assert!(
        marks.iter().any(|(_, said)| said.starts_with("Held ") && said.ends_with(": cable work")),
        "{marks:?}"
    );
    let back = browser.eval("document.querySelector('#epochs .mark.back').title");
    assert!(marks.iter().any(|(_, said)| back == said.as_str()), "{back}");
    // By keys: what happened while an epoch was in force stands behind its figures.
    chart.press("Home");
    let mut heard = chart.told();
    for _ in 1..chart.rows().len() {
        chart.press("ArrowRight");
        heard += &chart.told();
    }
    assert!(marks.iter().all(|(_, said)| heard.contains(said)), "{heard}");

    // Plain scrolling stays the page's; with Ctrl held it zooms.
    let wheel = |ctrl: bool| {
        let place = "clientX: 400, clientY: chart.getBoundingClientRect().top + 50";
        chart.eval(&format!("chart.querySelector('svg').dispatchEvent(new WheelEvent('wheel', {{ deltaY: -100, ctrlKey: {ctrl}, cancelable: true, bubbles: true, {place} }}))"))
    };
    assert_eq!((wheel(false), browser.eval("timeline.span()")), (Value::from(true), Value::Null));
    assert_eq!(wheel(true), false);
    let span =
        |browser: &Browser| serde_json::from_value::<[f64; 2]>(browser.eval("timeline.span()")).unwrap();
    let zoomed = span(&browser);
    let count = browser.eval("shown.epochs.length").as_u64().unwrap();
    std::fs::write(site.directory.path().join("jobs"), "1|RUNNING|n[1-50]|NONE|NONE\n").unwrap();
    let _ = site.sarouter("tick").output();
    browser.until(&format!("inTurn(refresh).then(() => shown.epochs.length > {count})"));
    browser.until(&format!(
        "JSON.parse(document.querySelector('#timeline svg').dataset.chart).rows.length > {count}"
    ));
    let after = span(&browser);
    assert!((0..2).all(|i| (zoomed[i] - after[i]).abs() < 2.0), "{zoomed:?} {after:?}");
    assert_eq!(browser.complaints(), [Value::Null; 0]);
}

//! The web page in Chromium: the matrix of fabrics that have neither levels nor a grid.

use serde_json::Value;

use super::browser::Browser;
use super::page::{PIXELS, Site, open, text};
use super::page_compare::{hash, press, select};

fn dragonfly() -> Site {
    let jobs = ["1 n[1-30]\n".to_string(), "1 n[1-30]\n2 n[3,9,20-70]\n".to_string()];
    Site::new("dragonfly:4,2,2,9", "balanced", &jobs)
}

/// The colour at a place of the picture, and how much of it: 0 or 255.
fn colour(browser: &Browser, [x, y]: [f64; 2]) -> Vec<u64> {
    let pixel = format!(
        "[...document.getElementById('now').getContext('2d').getImageData({}, {}, 1, 1).data]",
        x.round(),
        y.round()
    );
    browser.eval(&pixel).as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).collect()
}

/// Where the cell of a row and a column is.
fn cell(browser: &Browser, row: u64, column: u64) -> [f64; 2] {
    let middle =
        |which: &str, i| browser.eval(&format!("shown.pictures.now.{which}({i} + 0.5)")).as_f64().unwrap();
    [middle("across", column), middle("down", row)]
}

/// A click on a place of the picture.
fn click_at(browser: &Browser, [x, y]: [f64; 2]) {
    browser.eval(&format!(
        "(() => {{ const c = document.getElementById('now'); const r = c.getBoundingClientRect();
        c.dispatchEvent(new MouseEvent('click', {{ clientX: r.left + {x}, clientY: r.top + {y}, bubbles: true }})); }})()"
    ));
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn a_cell_is_coloured_by_the_load_from_its_row_to_its_column_and_picks_the_cable() {
    let site = dragonfly();
    let browser = Browser::start(1400, 1000);
    browser.prefer("light");
    let address = open(&site, &browser);
    assert_eq!(browser.eval("shown.pictures.now.constructor.name"), "Matrix");
    let number = |what: &str| browser.eval(what).as_u64().unwrap();
    browser.click("#jobs tr[data-job='1']");
    browser.until("document.getElementById('t-now').textContent.includes('routes of job 1')");
    // The fullest channel, an unused one, and two switches without a cable.
    let fullest = number("shown.load.now.indexOf(largest(shown.load.now))");
    let unused = number("shown.load.now.indexOf(0)");
    let ends = |channel: u64| {
        let of = |i| number(&format!("shown.pictures.now.cell({channel})[{i}]"));
        [of(0), of(1)]
    };
    let cables = format!("shown.fabric.cables[{}]", fullest / 2);
    let [from, to] = ends(fullest);
    assert_eq!([from, to], [fullest % 2, 1 - fullest % 2].map(|i| number(&format!("{cables}[{i}]"))));
    let at = |[row, column]: [u64; 2]| cell(&browser, row, column);
    let stop = |i: i32| -> Vec<u64> {
        let stops = browser.eval(&format!("STOPS.light.at({i})"));
        stops.as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).chain([255]).collect()
    };
    select(&browser, "colours", "load");
    // The scale ends at the fullest of both pictures.
    select(&browser, "against", "before");
    browser.until("document.getElementById('t-before').textContent.startsWith('Tables before')");
    assert_eq!(colour(&browser, at([from, to])), stop(-1));
    assert_eq!(colour(&browser, at(ends(unused))), [0xcd, 0xd4, 0xdc, 255]);
    let blank = "shown.fabric.names.findIndex((_, s) => s > 0 && !shown.pictures.now.cells.has(s))";
    let nobody = number(blank);
    assert_eq!(colour(&browser, at([0, nobody])), [0; 4]);
    // A group is a block on the diagonal: all its pairs have cables.
    let pairs = "[0, 1, 2, 3].every((a) => [0, 1, 2, 3].every((b) => a === b || shown.pictures.now.cells.has(36 * a + b)))";
    assert_eq!(browser.eval(pairs), true);

    // Cells are cables, heads are switches, nothing is nothing.
    click_at(&browser, at([from, to]));
    let name = |i: u64| browser.eval(&format!("shown.fabric.names[{i}]")).as_str().unwrap().to_string();
    let picked = text(&browser, "picked");
    assert!(picked.starts_with("Cable ") && picked.contains(" – the fullest channel"), "{picked}");
    assert!(picked.contains(&format!("{}:", name(from))) && picked.contains(&format!("{}:", name(to))));
    let head = browser.eval("shown.pictures.now.area.left - 6").as_f64().unwrap();
    click_at(&browser, [head, at([to, to])[1]]);
    assert!(text(&browser, "picked").starts_with(&format!("Switch {}: ", name(to))));
    let top = browser.eval("shown.pictures.now.area.top - 6").as_f64().unwrap();
    click_at(&browser, [at([from, from])[0], top]);
    assert!(text(&browser, "picked").starts_with(&format!("Switch {}: ", name(from))));
    click_at(&browser, at([0, nobody]));
    assert_eq!(text(&browser, "picked"), "");
    select(&browser, "colours", "bound");
    select(&browser, "against", "opensm");
    browser.click("#all");
    browser.until("document.getElementById('t-now').textContent.includes('inside jobs')");
    zoom_and_circle(&browser, &address);
    assert_eq!(browser.complaints(), [Value::Null; 0]);
}

fn zoom_and_circle(browser: &Browser, address: &str) {
    // What is picked stays in the middle of a matrix that is nearer.
    let all = browser.eval(PIXELS);
    browser.eval("document.getElementById('now').focus()");
    press(browser, "Home");
    press(browser, "Enter");
    press(browser, "+");
    let off = "(() => { const p = shown.pictures.now; const [row, column] = p.cell(shown.picked.channel);
        return Math.hypot(p.across(column + 0.5) - p.area.left - p.area.side / 2, p.down(row + 0.5) - p.area.top - p.area.side / 2); })()";
    assert!(browser.eval(off).as_f64().unwrap() < 1.0);
    assert_eq!(
        browser.eval(
            "shown.pictures.now.at(...[shown.picked.channel].flatMap((c) => { const p = shown.pictures.now; \
        const [r, k] = p.cell(c); return [p.across(k + 0.5), p.down(r + 0.5)]; })) === shown.picked.channel"
        ),
        true
    );
    // A drag that the browser takes for something else has ended.
    let cut = "((kinds) => { const c = document.getElementById('now'); const { x } = shown.view;
        kinds.forEach((kind, i) => c.dispatchEvent(new PointerEvent(kind, { clientX: 200 + 30 * i, clientY: 200, bubbles: true })));
        return [shown.view.x - x, getComputedStyle(c).touchAction]; })(['pointerdown', 'pointercancel', 'pointermove'])";
    assert_eq!(browser.eval(cut), serde_json::json!([0, "none"]));
    press(browser, "0");
    assert_eq!(browser.eval(PIXELS), all);
    browser.eval("pick(null)");
    select(browser, "as", "circle");
    assert_eq!(
        (browser.eval("shown.pictures.now.constructor.name"), hash(browser)),
        ("Picture".into(), "#as=circle".into())
    );
    assert_ne!(browser.eval(PIXELS), all);
    // The wheel leaves what is under the pointer there.
    let by = "(() => { const [c, [x, y]] = [document.getElementById('now'), shown.pictures.now.drawn.place[3]];
        const { left, top } = c.getBoundingClientRect();
        c.dispatchEvent(new WheelEvent('wheel', { ctrlKey: true, deltaY: -1, clientX: left + x, clientY: top + y, bubbles: true }));
        const [nearX, nearY] = shown.pictures.now.drawn.place[3];
        return [shown.view.scale, Math.hypot(nearX - x, nearY - y) < 2]; })()";
    assert_eq!(browser.eval(by), serde_json::json!([1.5, true]));
    browser.go("about:blank");
    browser.go(&format!("{address}#as=circle"));
    browser.until("document.body.dataset.drawn !== undefined");
    assert_eq!(browser.eval("shown.pictures.now.constructor.name"), "Picture");
    assert!(text(browser, "scale").contains("two lines"));
    select(browser, "as", "matrix");
    assert!(text(browser, "scale").contains("two cells"));
    assert_eq!((browser.eval(PIXELS), hash(browser)), (all, String::new()));
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn cells_of_a_difference_tell_less_from_more_by_size_too() {
    let site = dragonfly();
    let browser = Browser::start(1400, 1000);
    browser.prefer("light");
    let address = open(&site, &browser);
    browser.go("about:blank");
    browser.go(&format!("{address}#show=difference"));
    browser.until("document.getElementById('t-now').textContent.includes(' against ')");
    // Some carry less, some more, and no cell of the one is as large as one of the other.
    let sizes = |sign: &str| {
        let of = format!(
            "[...new Set(shown.pictures.now.drawn.looks.filter((l) => l.colour !== null).flatMap((l) => l.channels
            .filter((c) => shown.load.now[c] {sign} beside().loads[c]).map(() => l.part)))]"
        );
        browser.eval(&of).as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((sizes("<"), sizes(">")), (vec![0.6], vec![1.0]));
    let scale = text(&browser, "scale");
    assert!(scale.contains("blue, small: fewer") && scale.contains("orange, large: more"), "{scale}");
    let parsed = "new DOMParser().parseFromString(shown.pictures.now.svg(), 'image/svg+xml')";
    assert_eq!(browser.eval(&format!("{parsed}.querySelectorAll('parsererror').length")), 0);
    assert!(browser.eval(&format!("{parsed}.querySelectorAll('path').length")).as_u64() > Some(2));
    browser.screenshot("page-matrix-difference");
    assert_eq!(browser.complaints(), [Value::Null; 0]);
}

#[test]
#[ignore = "takes a minute; needs Debian's chromium-driver"]
fn the_matrix_of_a_thousand_switches_has_all_cells_and_answers_the_mouse() {
    let jobs = "1 n[1-300]\n2 n[301-722]\n".to_string();
    let site = Site::new("random:1000,1000,4000,seed=1", "updown", &[jobs]);
    let browser = Browser::start(1400, 1000);
    let address = open(&site, &browser);
    assert_eq!(browser.eval("shown.pictures.now.constructor.name + shown.fabric.names.length"), "Matrix1000");
    let mut times = Vec::new();
    for _ in 0..5 {
        browser.go("about:blank");
        browser.go(&address);
        browser.until("document.body.dataset.drawn !== undefined");
        times.push(browser.eval("Number(document.body.dataset.drawn)").as_u64().unwrap());
    }
    let each = "(() => { const c = document.getElementById('now'); const r = c.getBoundingClientRect();
        const [t, tips] = [performance.now(), new Set()];
        for (let i = 0; i < 100; i++) {
            c.dispatchEvent(new MouseEvent('mousemove', { clientX: r.left + r.width * (0.2 + i / 200), clientY: r.top + r.height * (0.4 + i / 400), bubbles: true }));
            tips.add(document.getElementById('tip').textContent);
        }
        return [(performance.now() - t) / 100, tips.size]; })()";
    let hover = browser.eval(each);
    println!("milliseconds to the first picture: {times:?}, to a cell's words: {hover}");
    let cells = "[...shown.pictures.now.cells.values()].flat().length === 2 * shown.fabric.cables.length";
    assert_eq!(browser.eval(cells), true);
    assert!(hover[1].as_u64() > Some(20), "{hover}");
}

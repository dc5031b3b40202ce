//! The web page in Chromium: colours mean what the legend says, to all eyes, and what is read or used has contrast and a
//! name.

use serde_json::{Value, json};

use super::browser::Browser;
use super::page::{SETTLED, Site, island, open};
use super::page_compare::{find, select};

/// `lin`, `lum`: a part of a colour and a colour as light. `ratio`: the contrast of two.
const LIGHT: &str = "const lin = (v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
    const lum = ([r, g, b]) => 0.2126 * lin(r) + 0.7152 * lin(g) + 0.0722 * lin(b);
    const ratio = (a, b) => { const [x, y] = [lum(a), lum(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
    const parts = (text) => text.match(/[\\d.]+/g).map(Number);";

/// Of each channel of a matrix that is drawn in colour: how far it is from what it is compared with, and the colour at
/// its cell's middle.
fn cells(browser: &Browser, far: &str, is_coloured: &str) -> Vec<(f64, [f64; 3])> {
    let read = format!(
        "(() => {{ const [p, c, other] = [shown.pictures.now, document.getElementById('now'), beside().loads];
        const {{ now, bound }} = shown.load;
        const full = Math.max(largest(now), largest(other));
        const {{ data }} = c.getContext('2d').getImageData(0, 0, c.width, c.height);
        const alone = [...p.cells.values()].filter((channels) => channels.length === 1).flat();
        return alone.filter((channel) => {is_coloured}).map((channel) => {{
            const [row, column] = p.cell(channel);
            const at = 4 * (Math.round(p.down(row + 0.5)) * c.width + Math.round(p.across(column + 0.5)));
            return [{far}, [...data.slice(at, at + 3)]];
        }}); }})()"
    );
    serde_json::from_value(browser.eval(&read)).unwrap()
}

/// Blue is less, orange is more, grey is neither; and what is farther is darker on light paper, lighter on dark.
fn assert_parted(cells: &[(f64, [f64; 3])], dark: bool, what: &str) {
    for side in [-1.0, 0.0, 1.0] {
        let mut of_side: Vec<_> =
            cells.iter().filter(|(far, _)| far.signum() * far.abs().ceil().min(1.0) == side).collect();
        assert!(!of_side.is_empty(), "{what}: {side}");
        for (far, [red, _, blue]) in &of_side {
            let hue = if (red - blue).abs() < 30.0 { 0.0 } else { (red - blue).signum() };
            assert_eq!(hue, side, "{what}: {far}: red {red}, blue {blue}");
        }
        of_side.sort_by(|(a, _), (b, _)| a.abs().total_cmp(&b.abs()));
        let light = |[red, green, blue]: &[f64; 3]| red + green + blue;
        let goes_on = |pair: &[&(f64, [f64; 3])]| {
            let by = light(&pair[1].1) - light(&pair[0].1);
            if dark { by >= 0.0 } else { by <= 0.0 }
        };
        assert!(of_side.windows(2).all(goes_on), "{what}: {of_side:?}");
    }
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn blue_is_less_and_orange_more_than_the_bound_or_the_baseline_in_both_schemes() {
    let site = Site::new("dragonfly:4,2,2,9", "updown", &["1 n[1-60]\n2 n[61-72]\n".to_string()]);
    let browser = Browser::start(1400, 1000);
    browser.prefer("light");
    open(&site, &browser);
    browser.until(SETTLED);
    for (scheme, dark) in [("light", false), ("dark", true)] {
        browser.prefer(scheme);
        browser.until(&format!("isDark() === {dark}"));
        select(&browser, "show", "both");
        let bound = cells(&browser, "fromBound(now[channel], bound, full)", "now[channel] > 0");
        assert_parted(&bound, dark, &format!("{scheme}, around the bound"));
        select(&browser, "show", "difference");
        let difference =
            cells(&browser, "(now[channel] - other[channel])", "now[channel] + other[channel] > 0");
        assert_parted(&difference, dark, &format!("{scheme}, the difference"));
    }
    // The legend ends in grey at the bound if no channel is above it.
    let ends = |above: u32| {
        format!(
            "(() => {{ showScale(shown.load.bound + {above}); const c = document.querySelector('#scale canvas');
            return [c.width, document.getElementById('scale').textContent.includes('orange')]; }})()"
        )
    };
    assert_eq!(browser.eval(&ends(0)), json!([25, false]));
    assert_eq!(browser.eval(&ends(1)), json!([49, true]));
    assert_eq!(browser.complaints(), [Value::Null; 0]);
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn less_and_more_are_told_apart_by_eyes_that_miss_a_colour() {
    let browser = Browser::start(900, 700);
    let site = island();
    open(&site, &browser);
    // What eyes see that miss red, green or blue (Viénot 1999; Brettel 1997 for the last).
    let least = format!(
        "(() => {{ {LIGHT}
        const eyes = [[[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]],
            [[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]],
            [[1, 0.1461, -0.1461], [0, 0.8595, 0.1405], [0, 0.7035, 0.2965]]];
        const gamma = (v) => 255 * Math.min(Math.max(v, 0), 1) ** (1 / 2.2);
        const seen = (eye, colour) => eye.map((row) => gamma(row.reduce((sum, k, i) => sum + k * lin(colour[i]), 0)));
        const apart = (eye, a, b) => Math.hypot(...[0, 1, 2].map((i) => seen(eye, a)[i] - seen(eye, b)[i]));
        const steps = [1, 2, 3, 4, 5, 6].map((i) => i / STEPS);
        return [false, true].flatMap((dark) => eyes.map((eye) => Math.min(...steps.flatMap((less) =>
            steps.map((more) => apart(eye, parts(tint(-less, dark)), parts(tint(more, dark)))))))); }})()"
    );
    let least: Vec<f64> = serde_json::from_value(browser.eval(&least)).unwrap();
    assert!(least.len() == 6 && least.iter().all(|apart| *apart > 60.0), "{least:?}");
}

/// Text and hints of fields that are seen, with too little contrast.
fn faint(browser: &Browser) -> Value {
    browser.eval(&format!(
        "(() => {{ {LIGHT}
        const below = (e) => {{ for (; e; e = e.parentElement) {{
            const c = parts(getComputedStyle(e).backgroundColor);
            if (c.length < 4 || c[3] > 0) return c; }} return [255, 255, 255]; }};
        const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        const pairs = [];
        while (texts.nextNode()) {{
            const e = texts.currentNode.parentElement;
            if (!texts.currentNode.data.trim() || !e.checkVisibility() || e.closest('option, :disabled')) continue;
            pairs.push([e, getComputedStyle(e)[e.closest('svg') ? 'fill' : 'color']]);
        }}
        for (const e of document.querySelectorAll('[placeholder]')) if (e.checkVisibility()) pairs.push([e, getComputedStyle(e, '::placeholder').color]);
        if (pairs.length < 50) return ['too few texts'];
        return pairs.filter(([e, colour]) => ratio(parts(colour), below(e)) < 4.5)
            .map(([e, colour]) => `${{e.tagName}} ${{e.id}} ${{e.className.baseVal ?? e.className}}: ${{colour}} on ${{below(e)}}`); }})()"
    ))
}

/// What can be used and has no name; ids that are there twice; pictures without words.
const NAMELESS: &str = "(() => { const named = (id) => document.getElementById(id)?.textContent || '';
    const name = (e) => e.ariaLabel || (e.getAttribute('aria-labelledby') || '').split(' ').map(named).join('')
        || [...(e.labels || [])].map((label) => label.textContent).join('') || (e.matches('input, select') ? '' : e.textContent);
    const used = [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex], [role=img], dialog')];
    const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
    if (used.length < 40) return ['too few'];
    // What has a stop of the Tab key for its words to be read says nothing while it is empty.
    return used.filter((e) => e.checkVisibility() && !name(e).trim() && e.id !== 'why').map((e) => e.outerHTML.slice(0, 120))
        .concat(ids.filter((id, i) => ids.indexOf(id) !== i)); })()";

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn all_that_is_read_has_contrast_and_all_that_is_used_has_a_name() {
    let site = island();
    let browser = Browser::start(1400, 1000);
    browser.prefer("light");
    open(&site, &browser);
    browser.until(SETTLED);
    find(&browser, "n7");
    browser.click("#found li:first-child button");
    browser.until("document.querySelector('#p-body button') !== null");
    browser.eval("document.querySelectorAll('details').forEach((d) => { d.open = true; })");
    browser.eval("document.getElementById('login').hidden = false");
    browser.eval("$('tip').hidden = false, $('tip').textContent = 'leaf'");
    browser.eval("timeline.point(0)");
    for (scheme, dark) in [("light", false), ("dark", true)] {
        browser.prefer(scheme);
        browser.until(&format!("isDark() === {dark}"));
        assert_eq!(faint(&browser), json!([]), "{scheme}");
    }
    assert_eq!(browser.eval(NAMELESS), json!([]));
    // What asks whether it is meant, too.
    browser.eval("document.querySelector('#hand [data-act=hold]').click()");
    browser.until("document.querySelector('dialog[open]') !== null");
    assert_eq!(browser.eval(NAMELESS), json!([]));
    assert_eq!(faint(&browser), json!([]));
}

//! The web page in Chromium: the panel that the search opens, colours around the bound, what would be.

use serde_json::Value;

use super::browser::Browser;
use super::page::{PIXELS, Site, direct_torus, island, open, text};
use super::page_compare::{find, hash, press, select};

fn is_open(browser: &Browser) -> bool {
    browser.eval("document.getElementById('panel').checkVisibility()") == true
}

/// Waits until the panel is about this, and returns what it says.
fn panel(browser: &Browser, title: &str) -> String {
    browser.until(&format!(
        "document.getElementById('p-title').textContent === {title:?} && !document.getElementById('panel').hidden"
    ));
    text(browser, "p-body")
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn the_search_opens_a_panel_with_figures_ports_and_links_which_the_address_keeps() {
    let site = island();
    let browser = Browser::start(1400, 1000);
    let address = open(&site, &browser);
    assert!(!is_open(&browser));
    let word = |js: &str| browser.eval(js).as_str().unwrap().to_string();
    let (end, name) = (word("endName(0, 0)"), word("shown.fabric.names[shown.fabric.cables[0][0]]"));

    // A cable, its switch, another cable of the same.
    find(&browser, &end);
    let said = panel(&browser, &format!("cable {end}"));
    let loads = browser.eval("[0, 1].map((c) => `: ${shown.load.now[c]} routes now`)");
    assert!(loads.as_array().unwrap().iter().all(|l| said.contains(l.as_str().unwrap())), "{said}");
    assert_eq!(hash(&browser), format!("#find={end}&open=cable:{end}"));
    browser.eval(&format!(
        "[...document.querySelectorAll('#p-body button')].find((b) => b.textContent === {name:?}).click()"
    ));
    let said = panel(&browser, &format!("switch {name}"));
    assert!(said.contains("LID ") && said.contains("GUID 0x") && said.contains("adapters."), "{said}");
    let ports = "[...document.querySelectorAll('#p-body tbody tr')].map((r) => [r.cells[0].textContent, Number(r.cells[2].textContent)])";
    let channels = "channelsOf(shown.fabric.cables[0][0]).map((c) => [endName(c, 0).split(':').pop(), shown.load.now[c]]).sort((a, b) => a[0] - b[0])";
    assert_eq!(browser.eval(ports), browser.eval(channels));
    press(&browser, "Escape");
    assert!(!is_open(&browser) && !hash(&browser).contains("open="), "{}", hash(&browser));

    // A node, found again by its LID, and in the address.
    find(&browser, "n7");
    browser.click("#found li:first-child button");
    let said = panel(&browser, "node n7");
    let job = word("shown.jobs.find((job) => holds(job.nodes, 'n7')).id");
    assert!(said.contains(&format!("Job: {job}")), "{said}");
    let lid = word("document.querySelector('#p-body tbody td:nth-child(2)').textContent");
    browser.click("#p-close");
    assert!(!is_open(&browser));
    find(&browser, &format!("{:#x}", lid.parse::<u32>().unwrap()));
    panel(&browser, "node n7");
    let kept = hash(&browser);
    assert!(kept.contains("open=node:n7"), "{kept}");
    browser.go("about:blank");
    browser.go(&format!("{address}#open=node:n7"));
    panel(&browser, "node n7");

    // Its job: figures of the list, its own channels, its row.
    browser.click("#p-body p button");
    let said = panel(&browser, &format!("job {job}"));
    let slow = word(&format!("document.querySelector('#jobs tr[data-job=\"{job}\"] .slowdown').textContent"));
    assert!(said.contains(&format!("slow-down{slow}")), "{said}");
    // A figure that changes leaves the focus where it is.
    let focused = browser.eval(&format!(
        "(document.querySelector('#p-body p:last-child button').focus(), shown.jobs.find((one) => one.id === {job:?}).node_count = 7777,
        fillPanel().then(() => [$('p-body').textContent.includes('7777'), document.activeElement.textContent]))"
    ));
    assert_eq!(focused, serde_json::json!([true, "Show its channels alone"]));
    let link = |words: &str| {
        browser.eval(&format!(
            "[...document.querySelectorAll('#p-body button')].find((b) => b.textContent === {words:?}).click()"
        ));
    };
    link("Show its channels alone");
    browser
        .until(&format!("document.getElementById('t-now').textContent.includes('routes of job {job} on a')"));
    link("Show it in the list");
    assert_eq!(word("document.activeElement.dataset.job"), job);
    assert_eq!(browser.complaints(), [Value::Null; 0]);
    super::page::assert_accessible(&browser);
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn a_node_of_a_direct_torus_has_a_panel_and_all_its_jobs_have_a_bound() {
    let site = direct_torus();
    let browser = Browser::start(1400, 1000);
    open(&site, &browser);
    find(&browser, "1.0.0");
    browser.until("!document.getElementById('panel').hidden");
    let said = text(&browser, "p-body");
    assert!(said.contains("At 1.0.0. It works.") && said.contains("Job: "), "{said}");
    assert_eq!(
        browser.eval("[colouredBy(), document.querySelector('#colours option').disabled]"),
        serde_json::json!(["bound", false])
    );
    let [most, bound] =
        ["largest(shown.load.now)", "shown.load.bound"].map(|js| browser.eval(js).as_u64().unwrap());
    assert!(0 < bound && bound <= most, "{bound} {most}");
    let verdict = text(&browser, "verdict");
    assert!(
        verdict.contains("; the baseline (angara-sssp) would give ")
            && verdict.contains(&format!(" Largest load {most}, "))
    );
    browser.until("document.querySelector('#jobs tr .baseline').textContent !== '–'");
    // That of one job alone is not computed.
    browser.click("#p-close");
    browser.click("#jobs tr[data-job='1']");
    browser.until("document.getElementById('t-now').textContent.includes('routes of job 1')");
    assert_eq!(
        browser.eval("[colouredBy(), document.querySelector('#colours option').disabled]"),
        serde_json::json!(["load", true])
    );
    // Why its tables are what they are.
    let why = text(&browser, "why");
    assert!(why.starts_with("Tables were written or removed because jobs started or ended. Jobs that came: 2; that went: none. "), "{why}");
    assert_eq!(browser.complaints(), [Value::Null; 0]);
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn colours_part_at_the_bound_which_the_legend_names_and_other_scales_are_a_choice() {
    let site = island();
    let browser = Browser::start(1400, 1000);
    open(&site, &browser);
    let bound = browser.eval("shown.load.bound").as_u64().unwrap();
    let legend = text(&browser, "scale");
    assert!(legend.contains(&format!("grey: {bound}, the bound")), "{legend}");
    // One colour stands on one side of the bound, and grey at it.
    let sides = "[shown.load.now, beside().loads].flatMap((loads, i) => shown.pictures[['now', 'before'][i]].drawn.looks
        .filter((look) => look.colour !== null && look.channels.length)
        .map((look) => [look.colour, [...new Set(look.channels.map((c) => Math.sign(loads[c] - shown.load.bound)))]]))";
    let sides = browser.eval(sides);
    let neutral = browser.eval("neutral()");
    let mut seen = std::collections::BTreeSet::new();
    for look in sides.as_array().unwrap() {
        let signs = look[1].as_array().unwrap();
        assert_eq!(signs.len(), 1, "{sides}");
        assert_eq!(look[0] == neutral, signs[0] == 0, "{sides}");
        seen.insert(signs[0].as_i64().unwrap());
    }
    assert!(seen.contains(&-1) && seen.contains(&1), "{sides}");
    let mut pictures = vec![browser.eval(PIXELS)];
    for (kind, words) in
        [("load", " routes"), ("log", ", by logarithm"), ("rank", ", by rank among all loads")]
    {
        select(&browser, "colours", kind);
        let picture = browser.eval(PIXELS);
        assert!(!pictures.contains(&picture), "{kind}");
        pictures.push(picture);
        assert!(text(&browser, "scale").contains(words) && !text(&browser, "scale").contains("the bound"));
        assert_eq!(hash(&browser), format!("#colours={kind}"));
    }
    select(&browser, "colours", "bound");
    assert_eq!(browser.eval(PIXELS), pictures[0]);
    assert_eq!(browser.complaints(), [Value::Null; 0]);
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn what_if_takes_a_number_of_nodes_and_other_engines_one_at_a_time() {
    let site = Site::new("fattree:10x18,5", "balanced", &["1 n[1-60]\n2 n[61-120]\n".to_string()]);
    let browser = Browser::start(1400, 1000);
    open(&site, &browser);
    browser.until("document.querySelectorAll('#if-engine option').length > 5");
    let asked = |nodes: &str| {
        browser.write("#if-nodes", nodes);
        let at_work = "((b) => { b.click(); return b.disabled; })(document.querySelector('#whatif button'))";
        assert_eq!(browser.eval(at_work), true, "one question at a time");
        browser.until("!document.querySelector('#whatif button').disabled");
        text(&browser, "if-answer")
    };
    let said = asked("24");
    assert!(
        said.contains("Best for 24 nodes: n[1") && said.contains("Of 60 nodes that no job has"),
        "{said}"
    );
    assert!(said.contains("Slurm's usual choice, n[121-144]: ") && said.contains("Routes would "), "{said}");
    assert_eq!(asked("100"), "No nodes can be recommended: only 60 of 100 nodes are free.");
    assert_eq!(browser.eval("document.getElementById('if-table').hidden"), true);
    select(&browser, "if-engine", "updown");
    let said = asked("");
    let rows = browser.eval(
        "[...document.querySelectorAll('#if-rows tr')].map((r) => [...r.cells].map((c) => c.textContent))",
    );
    assert_eq!((&rows[0][0], &rows[2][1]), (&Value::from("now"), &Value::from("updown")));
    let now = browser.eval("[largest(shown.load.now), shown.load.bound].map(String)");
    assert_eq!((&rows[0][3], &rows[3][3]), (&now[0], &now[1]), "{rows}");
    let slow = |row: usize| rows[row][2].as_str().unwrap().parse::<f64>().unwrap();
    assert!(slow(2) > slow(0) && slow(1) <= slow(2), "{rows}");
    assert!(
        said.starts_with(&format!("With updown the jobs' exchanges would take {:.2} times", slow(2))),
        "{said}"
    );
    assert!(asked("n[121-180]").starts_with("With updown "));
    assert_eq!(browser.complaints(), [Value::Null; 0]);
}

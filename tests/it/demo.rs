//! The demo and its pictures.

use sarouter::lab::generate::generate;
use sarouter::report::heat_map::heat_sheet;

use crate::program::{report, sarouter};

/// One simulated hour: epochs are published, and the page is complete in itself.
#[test]
fn one_hour_makes_epochs_and_a_page_that_asks_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let (page, state) = (dir.path().join("demo.html"), dir.path().join("state"));
    let run = |seed: &str| {
        let words = ["demo", "--hours", "1", "--seed", seed, "--out", page.to_str().unwrap(), "--state"];
        report(".", words.into_iter().chain(state.to_str()))
    };
    let summary = run("1");
    let epochs = summary["epochs"].as_u64().unwrap();
    assert!(epochs >= 3, "only {epochs} epochs");
    for figure in ["mean_slowdown", "mean_max_effective"] {
        let of = |key: &str| summary[figure][key].as_f64().unwrap();
        assert!(of("ours") < of("oblivious"), "{figure}: {summary}");
    }
    let html = std::fs::read_to_string(&page).unwrap();
    // Of the one script `reports` tells more.
    let (before, after) = html.split_once("<script>").unwrap();
    for foreign in ["http:", "https:", "src=", "<script", "@import", "url("] {
        assert!(!before.contains(foreign), "the page asks for {foreign}");
    }
    assert!(after.ends_with("</script></body></html>\n"), "{after}");
    assert_eq!(html.matches("<svg").count(), 5);
    // Each look has the engine that it is compared with, and the page can be saved for programs.
    let best = |sample: &serde_json::Value| {
        ["fattree", "updown", "dfsssp"].contains(&sample["oblivious_engine"].as_str().unwrap())
    };
    assert!(
        summary["samples"].as_array().unwrap().len() == 12
            && summary["samples"].as_array().unwrap().iter().all(best)
    );
    assert!(html.contains("href=\"data:application/json"), "no figures to save");
    let current = std::fs::read_link(state.join("current")).unwrap();
    assert!(current.ends_with(format!("{epochs:06}")), "{} after {epochs} epochs", current.display());
}

/// A page that cannot be written is no matter for hours later.
#[test]
fn the_demo_says_at_once_that_it_cannot_write_its_page() {
    let dir = tempfile::tempdir().unwrap();
    let demo = |out: &str| {
        let output = sarouter(dir.path(), ["demo", "--hours", "1", "--out", out]);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, stdout, stderr) = demo("nowhere/demo.html");
    assert_eq!((code, &*stdout), (Some(2), ""), "{stderr}");
    assert!(stderr.contains("nowhere/demo.html: No such file"), "{stderr}");
    assert_eq!(demo(".").0, Some(2));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left there");
}

/// Every channel is a line of its own, dark exactly where nothing runs, and its tooltip tells.
#[test]
fn a_heat_map_shows_every_channel() {
    let fabric = generate("fattree:4x4,2").unwrap();
    let loads: Vec<u64> = (0..fabric.channels().len() as u64).map(|i| i % 3).collect();
    let svg = heat_sheet(&fabric, &[("<one>".into(), loads.clone()), ("two".into(), loads.clone())]);
    let dark = loads.iter().filter(|n| **n == 0).count();
    let lines = |class: &str| svg.matches(&format!("<path class=\"{class}\" d=")).count();
    assert_eq!(lines("dark"), 2 * dark);
    // A load of 1 of 2 has a middle shade, 2 the last.
    assert_eq!(lines("h6") + lines("h11"), 2 * (loads.len() - dark));
    assert_eq!(lines("h11"), 2 * loads.iter().filter(|n| **n == 2).count());
    assert!(svg.contains("&lt;one&gt;") && !svg.contains("<one>"));
    assert!(svg.contains(&format!(
        "{}: 2</title>",
        fabric.channel_name(fabric.channel_ids().nth(2).unwrap()).replace('>', "&gt;")
    )));
}

/// Of a torus each direction is the half of the cable that leaves its switch; a large fabric has
/// one path per shade, so that a browser can show it.
#[test]
fn heat_maps_of_tori_and_large_fabrics_show_every_channel_too() {
    let fabric = generate("torus:4x3x2").unwrap();
    let svg = heat_sheet(&fabric, &[("torus".into(), vec![1; fabric.channels().len()])]);
    assert_eq!(svg.matches("<path class=\"h11\" d=\"M").count(), fabric.channels().len());
    let fabric = generate("kary:16,3,hosts=1").unwrap();
    let loads: Vec<u64> = (0..fabric.channels().len() as u64).collect();
    let svg = heat_sheet(&fabric, &[("tree".into(), loads)]);
    let drawn =
        svg.split("<path class=\"").skip(1).map(|p| p.split("\"/>").next().unwrap().matches('M').count());
    assert_eq!(drawn.sum::<usize>(), fabric.channels().len());
    assert_eq!(svg.matches("<path").count(), 13, "twelve shades and the unused one");
}

//! Names that others gave, wherever they are shown: nothing that a terminal or a browser would obey.

use std::path::Path;

use crate::program::sarouter;
use crate::site::{Serving, Site};

/// What somebody may call a device: it would change the title of a terminal, clear it, turn the
/// direction of text, run a script.
const EVIL: &str = "\u{1b}]0;mine\u{7}\u{1b}[2J\u{9b}31m\u{202e}<script>alert(1)</script>'&";

/// A fabric of 16 nodes whose second switch and second host have such names.
fn fabric(path: &Path) {
    let fabric = sarouter::lab::generate::generate("fattree:4x4,2").unwrap();
    let text = sarouter::observe::ibnetdiscover::to_ibnetdiscover(&fabric);
    assert!(text.contains("S0001") && text.contains("\"n2\""));
    // Names that devices have, not those that the file gives them to say who is who.
    let named = |text: String, old: &str, new: &str| {
        let lines = text.lines().map(|line| match line.split_once('#') {
            Some((id, name)) => format!("{id}#{}\n", name.replace(old, new)),
            None => format!("{line}\n"),
        });
        lines.collect::<String>()
    };
    let text = named(text, "\"S0001\"", &format!("\"S0001{EVIL}\""));
    let text = named(text, "\"n2\"", &format!("\"n2 {EVIL}\""));
    assert!(text.contains(EVIL));
    std::fs::write(path, text).unwrap();
}

/// Asserts that a text is only shown, and that it names what it should.
fn is_harmless(what: &str, bytes: &[u8], names: bool) {
    let text = String::from_utf8_lossy(bytes);
    let obeyed = |c: char| (c.is_control() && c != '\n' && c != '\t') || c == '\u{202e}';
    let found = text.find(obeyed).map(|at| text[at..].chars().take(20).collect::<String>());
    assert_eq!(found, None, "{what}");
    if names {
        assert!(text.contains("2J") && text.contains("mine"), "{what} names nobody: {text}");
    }
}

#[test]
fn commands_and_the_files_they_write_only_show_names() {
    let dir = tempfile::tempdir().unwrap();
    fabric(&dir.path().join("f"));
    std::fs::write(dir.path().join("j"), "1 n[1,5,9]\n").unwrap();
    let says = |words: &str, names| {
        let output = sarouter(dir.path(), words.split(' '));
        assert_ne!(output.status.code(), Some(2), "{words}: {output:?}");
        is_harmless(words, &output.stdout, names);
        is_harmless(words, &output.stderr, false);
    };
    says("fabric show f", false);
    says("fabric show f --format json", false);
    says("route --fabric f --jobs j --engine dfsssp --out t -vv", false);
    for entry in std::fs::read_dir(dir.path().join("t")).unwrap().flatten() {
        let names = entry.file_name() == "lft.txt";
        is_harmless(&entry.path().display().to_string(), &std::fs::read(entry.path()).unwrap(), names);
    }
    // Tables that send a host's traffic wrong: the finding names the switch.
    let lft = std::fs::read_to_string(dir.path().join("t/lft.txt")).unwrap();
    let (mut bad, mut inside) = (String::new(), false);
    for line in lft.lines() {
        if line.contains("Unicast lids") {
            inside = line.contains("S0001");
        }
        let entry = line.starts_with("0x") && line.contains("Channel Adapter");
        let line = if inside && entry { [&line[..7], "001", &line[10..]].concat() } else { line.to_string() };
        bad += &format!("{line}\n");
    }
    std::fs::write(dir.path().join("bad"), bad).unwrap();
    says("verify --fabric f --tables bad --layers-file t/layers.txt", true);
    says("verify --fabric f --tables bad --layers-file t/layers.txt --format json", true);
    says("compare --fabric f --jobs j --engines minhop,dfsssp --svg h.html", false);
    let page = std::fs::read(dir.path().join("h.html")).unwrap();
    is_harmless("the heat map", &page, true);
    let page = String::from_utf8(page).unwrap();
    assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;"), "{page}");
    says("fabric import f --out g", false);
    is_harmless("an imported fabric", &std::fs::read(dir.path().join("g")).unwrap(), false);
    // What is wrong with a file is said with what the file says.
    std::fs::write(dir.path().join("broken"), format!("switchguid=0x1\nSwitch 4 \"S{EVIL}\n")).unwrap();
    let output = sarouter(dir.path(), ["fabric", "show", "broken"]);
    assert_eq!(output.status.code(), Some(2));
    is_harmless("the complaint", &output.stderr, false);
}

#[test]
fn the_service_only_shows_names() {
    let site = Site::new("interval_seconds = 3600");
    fabric(&site.path("fabric.net"));
    let serving = Serving::routed(&site);
    let fabric = site.text("/v1/fabric");
    assert!(fabric.contains("S0001"), "{fabric}");
    is_harmless("/v1/fabric", fabric.as_bytes(), true);
    for path in ["/v1/health", "/v1/load", "/v1/jobs", "/v1/epochs/1", "/metrics", "/v1/snapshots"] {
        is_harmless(path, site.text(path).as_bytes(), false);
    }
    // What Slurm's commands complain of goes into log, health file and status.
    site.squeue(&format!("printf '%s' \"{}\" >&2; exit 1", EVIL.replace('"', "\\\"")));
    site.look();
    serving.until(|| site.health()["failing"]["message"].as_str().is_some_and(|m| m.contains("mine")));
    is_harmless("the log", site.log().as_bytes(), true);
    is_harmless("health", site.text("/v1/health").as_bytes(), true);
    let status = site.in_words(["status"]).output().unwrap();
    is_harmless("status", &status.stdout, true);
    is_harmless("status's errors", &status.stderr, false);
}

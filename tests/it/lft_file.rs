//! The delivery for OpenSM's file engine: which epochs, and what is said of a file that is not as it should be.

use crate::site::{Serving, Site};

/// A service that looks only when asked and delivers to `lft.txt`.
fn delivering() -> Site {
    let site = Site::new("interval_seconds = 3600");
    site.alter("watch = false", "watch = false\nlft_file = \"lft.txt\"");
    site
}

/// What is wrong, by kind and words.
fn troubles(site: &Site) -> Vec<String> {
    let health = site.told_health();
    health["problems"].as_array().unwrap().iter().map(|p| p.as_str().unwrap().to_string()).collect()
}

fn delivered(site: &Site) -> String {
    std::fs::read_to_string(site.path("lft.txt")).unwrap_or_default()
}

fn has(site: &Site, epoch: u64) -> bool {
    delivered(site).starts_with(&format!("# sarouter: epoch {epoch} of fabric "))
}

const TWO: &str = "1|RUNNING|n[1,5,9]|100\n2|RUNNING|n[2,6]|100\n";

#[test]
fn the_file_has_what_is_in_force_and_a_stale_one_is_told() {
    let site = delivering();
    site.alter("engine = \"dfsssp\"", "engine = \"dfsssp\"\nlayers = 1");
    let serving = Serving::routed(&site);
    serving.until(|| has(&site, 1) && troubles(&site).is_empty());
    let first = delivered(&site);
    let text = |name: &str| site.path(name).display().to_string();
    let judge = |tables: &str| site.run(&["verify", "--fabric", &text("fabric.net"), "--tables", tables]).0;
    assert_eq!(judge(&text("lft.txt")), 0);
    site.jobs(TWO);
    site.look();
    assert_eq!(serving.line()["epoch"]["epoch"], 2);
    serving.until(|| has(&site, 2) && troubles(&site).is_empty());
    let second = delivered(&site);
    for (planted, words) in [
        (Some(first.as_str()), "lft.txt is stale: it has epoch 1, in force is epoch 2"),
        (Some(&second[..second.len() / 2]), "lft.txt is not as it was written for epoch 2"),
        (Some("Unicast lids [0-1]\n"), "lft.txt is somebody else's"),
        (Some(&first.replace("epoch 1", "epoch 7")), "lft.txt has epoch 7, in force is epoch 2"),
        (None, "lft.txt is missing"),
    ] {
        // The service may be about to write it once more.
        serving.until(|| {
            match planted {
                Some(text) => site.replace("lft.txt", text),
                None => _ = std::fs::remove_file(site.path("lft.txt")),
            }
            let told = troubles(&site);
            told.len() == 1 && told[0].contains(words)
        });
    }
    // Going back is a delivery as well, also while what is in force is held.
    assert_eq!(site.run(&["rollback", "1", "--hold"]).0, 0);
    site.look();
    serving.until(|| has(&site, 1));
    assert_eq!(delivered(&site), first);
    let is_held = |told: &[String]| told.len() == 1 && told[0].contains("holds what is in force");
    serving.until(|| is_held(&troubles(&site)));
    assert_eq!(serving.stop(), 0);
    // One pass does the same.
    assert_eq!(site.run(&["resume"]).0, 0);
    assert_eq!(site.run(&["tick"]).0, 0);
    assert!(has(&site, 3), "{:.60}", delivered(&site));
}

#[test]
fn tables_on_several_layers_are_not_delivered() {
    let site = delivering();
    let torus = sarouter::lab::generate::generate("torus:4x4,hosts=1").unwrap();
    site.replace("fabric.net", &sarouter::observe::ibnetdiscover::to_ibnetdiscover(&torus));
    let serving = Serving::routed(&site);
    let told = |words: &str| troubles(&site).first().is_some_and(|trouble| trouble.contains(words));
    serving.until(|| told("epoch 1 is not delivered: its routes use "));
    assert!(told("layers, and the file engine gives no service levels"), "{:?}", troubles(&site));
    assert!(!site.path("lft.txt").exists());
    // New settings are followed.
    site.alter("engine = \"dfsssp\"", "engine = \"updown\"\nlayers = 1");
    assert_eq!(serving.line()["epoch"]["epoch"], 2);
    serving.until(|| has(&site, 2) && troubles(&site).is_empty());
    // Lanes are none of what the file engine knows.
    site.alter("engine = \"updown\"\nlayers = 1", "engine = \"balanced\"");
    assert_eq!(serving.line()["epoch"]["epoch"], 3);
    serving.until(|| told("epoch 3 is not delivered: it is free of deadlock by a lane map"));
    assert!(has(&site, 2), "an earlier file stays");
    assert_eq!(serving.stop(), 0);
}

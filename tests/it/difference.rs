//! What an epoch says of a change of the fabric.

use sarouter::lab::generate::generate;
use sarouter::model::{ChannelId, Fabric, SwitchId};
use sarouter::observe::ibnetdiscover::to_ibnetdiscover;
use serde_json::{Value, json};

use crate::site::{Serving, Site, json as parsed};

fn whole() -> Fabric {
    generate("fattree:4x4,2").unwrap()
}

/// A leaf on which no job runs.
fn leaf(fabric: &Fabric) -> SwitchId {
    let last = fabric.host_ids().find(|t| fabric.terminal(*t).description.starts_with("n16")).unwrap();
    fabric.terminal(last).switch
}

/// What is lost with a leaf, its devices called as `switch` and `host` say; nothing is new.
fn lost_with(
    fabric: &Fabric,
    leaf: SwitchId,
    switch: impl Fn(SwitchId) -> String,
    host: impl Fn(usize) -> String,
) -> Value {
    let cable = |c: &ChannelId| {
        let c = fabric.channel(if c.index() % 2 == 0 { *c } else { c.reverse() });
        format!("{}[{}] -> {}[{}]", switch(c.from), c.from_port, switch(c.to), c.to_port)
    };
    let mut channels = fabric.out(leaf).to_vec();
    channels.sort_unstable();
    let cables: Vec<String> = channels.iter().map(cable).collect();
    let hosts: Vec<String> = fabric.attached(leaf).iter().map(|t| host(t.index())).collect();
    json!({ "lost": {
        "switches": { "count": 1, "names": [switch(leaf)] },
        "hosts": { "count": hosts.len(), "names": hosts },
        "cables": { "count": cables.len(), "names": cables },
    } })
}

fn words(site: &Site, command: &str) -> String {
    let epoch = (command == "explain").then_some("current");
    let output = site.in_words([command].into_iter().chain(epoch)).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_epoch_says_which_cables_switches_and_hosts_are_gone() {
    let site = Site::new("interval_seconds = 3600");
    let serving = Serving::start(&site);
    assert_eq!(serving.line()["epoch"].get("difference"), None);
    site.write_fabric(|c| c == 0);
    let cable = whole().channel_name(whole().channel_ids().next().unwrap());
    let lost = json!({ "lost": { "cables": { "count": 1, "names": [cable] } } });
    let line = serving.line();
    assert_eq!((&line["epoch"]["reason"], &line["epoch"]["difference"]), (&json!("fabric_changed"), &lost));

    let get = |path: &str| site.get(path).unwrap();
    assert_eq!(get("/v1/epochs/current")["plan"]["difference"], lost);
    for rows in [get("/v1/epochs"), parsed(&site.run(&["history"]).1)] {
        assert_eq!((rows["epochs"][0].get("difference"), &rows["epochs"][1]["difference"]), (None, &lost));
    }
    assert_eq!(parsed(&site.run(&["explain", "current"]).1)["difference"], lost);
    let said = format!("1 cable lost: {cable}");
    assert!(
        words(&site, "explain").contains(&format!("\nfabric      {said}\n")),
        "{}",
        words(&site, "explain")
    );
    assert!(words(&site, "status").contains(&format!("\nfabric      {said}")), "{}", words(&site, "status"));
    assert!(site.log().contains(&format!("the fabric has changed: {said}")), "{}", site.log());

    // The service knows what is gone by name.
    let cut = whole().without(|c| c.index() == 0, |_| false).unwrap();
    let leaf = leaf(&cut);
    site.replace("fabric.net", &to_ibnetdiscover(&cut.without(|_| false, |s| s == leaf).unwrap()));
    let switch = |s: SwitchId| cut.switch(s).description.clone();
    let host = |t: usize| cut.terminals()[t].description.clone();
    assert_eq!(serving.line()["epoch"]["difference"], lost_with(&cut, leaf, switch, host));
    assert_eq!(serving.stop(), 0);
    // And whoever repeats its events says the same.
    let (record, again) = (site.path("state/record"), site.path("again"));
    let (code, text) =
        site.run(&["replay-events", record.to_str().unwrap(), "--out", again.to_str().unwrap()]);
    let found = parsed(&text);
    assert_eq!((code, &found["recorded"], &found["same"]), (0, &json!(3), &json!(3)), "{text}");
}

/// A pass that has seen no fabric before knows what is gone by GUID.
#[test]
fn a_single_pass_takes_what_was_there_from_the_epoch_in_force() {
    let site = Site::new("");
    assert_eq!(site.run(&["tick"]).0, 0);
    let whole = whole();
    let leaf = leaf(&whole);
    site.replace("fabric.net", &to_ibnetdiscover(&whole.without(|_| false, |s| s == leaf).unwrap()));
    assert_eq!(site.run(&["tick"]).0, 0);
    let switch = |s: SwitchId| match s == leaf {
        true => whole.switch(s).guid.to_string(),
        false => whole.switch(s).description.clone(),
    };
    let host = |t: usize| whole.terminals()[t].port_guid.to_string();
    let explained = || parsed(&site.run(&["explain", "current"]).1)["difference"].take();
    assert_eq!(explained(), lost_with(&whole, leaf, switch, host));
    // What comes back is there to be named.
    site.write_fabric(|_| false);
    assert_eq!(site.run(&["tick"]).0, 0);
    let switch = |s: SwitchId| whole.switch(s).description.clone();
    let host = |t: usize| whole.terminals()[t].description.clone();
    let new = lost_with(&whole, leaf, switch, host)["lost"].take();
    assert_eq!(explained(), json!({ "new": new }));
}

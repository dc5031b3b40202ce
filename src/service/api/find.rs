//! `GET /v1/find?what=`: a switch, an adapter or a cable by name, LID, GUID, or a switch's port.

use axum::extract::{Query, State};
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer::ApiError;
use super::routes::{Operation, Routes};
use super::{Api, Ask, json};
use crate::model::{
    ChannelId, Direction, Fabric, Guid, Lid, NodeId, NodeName, PortNum, PortPeer, SwitchId, TerminalId, Torus,
};
use crate::pass::step::View;
use crate::report::layout;
use crate::service::command::Seen;

pub(super) fn read() -> Routes<Api> {
    let what = "Switches, adapters and cables by name, LID, GUID, or SWITCH:PORT";
    let told = Operation::new("/v1/find", what).query::<Wanted>().answers::<FindAnswer>();
    Routes::new().get(told.refuses(&[400]), find)
}

/// At most so many are told.
const MOST: usize = 20;

/// Bytes of what is sought; no name is longer.
const LONGEST: usize = 200;

/// What is sought.
#[derive(Debug, Deserialize, JsonSchema)]
struct Wanted {
    /// Part of a name, a LID, a GUID, or a switch and its port: `leaf3:17`.
    #[serde(default)]
    what: String,
}

/// What was found.
#[derive(Debug, Default, PartialEq, Serialize, JsonSchema)]
pub(super) struct FindAnswer {
    /// Switches; on a direct torus, nodes.
    switches: Vec<FoundSwitch>,
    /// Ports of adapters.
    adapters: Vec<FoundAdapter>,
    /// Cables between switches.
    cables: Vec<FoundCable>,
    /// There are more than are told.
    more: bool,
}

/// A switch, or a node of a direct torus.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct FoundSwitch {
    /// Its place in the lists of `/v1/fabric`.
    switch: usize,
    /// What it is called.
    name: String,
    /// Its GUID; null on a direct torus.
    guid: Option<Guid>,
    /// Its LID; null on a direct torus.
    lid: Option<Lid>,
    /// Its coordinates on a direct torus.
    at: Option<String>,
    /// Nodes with adapters on it, by Slurm's names.
    nodes: Vec<NodeName>,
}

/// A port of an adapter.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct FoundAdapter {
    /// What it is called.
    name: String,
    /// Slurm's name of its node, if it has one.
    node: Option<NodeName>,
    /// Of the port.
    guid: Guid,
    /// Its base LID.
    lid: Lid,
    /// The switch, by its place in the lists of `/v1/fabric`.
    switch: usize,
    /// What the switch is called.
    switch_name: String,
    /// The switch's port.
    port: PortNum,
}

/// A cable.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct FoundCable {
    /// Its place in the list of `/v1/fabric`.
    cable: usize,
    /// Switch and port of both ends, that which was asked for first: `leaf3:17`.
    ends: [String; 2],
}

async fn find(State(api): Ask, Query(wanted): Query<Wanted>) -> Result<Response, ApiError> {
    let what = wanted.what.trim().to_string();
    if what.is_empty() {
        return Err(ApiError::bad("what is to be found? ?what=leaf3:17, a LID, a GUID, or part of a name"));
    }
    if what.len() > LONGEST {
        return Err(ApiError::bad(format!("what is to be found has more than {LONGEST} bytes")));
    }
    let seen = api.seen().await?;
    let search = move |_: &Api| {
        Ok(match seen {
            Seen::Switched(view) => found(&view, &what),
            Seen::Direct(seen) => found_on_torus(&seen.torus, &what),
        })
    };
    Ok(json(api.read(search).await?))
}

/// The LID that a text may be, decimal or with 0x.
fn lid(text: &str) -> Option<Lid> {
    let value = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => text.parse().ok()?,
    };
    Lid::new(value).ok()
}

/// `SWITCH:PORT`.
fn ends_in_port(text: &str) -> Option<(&str, &str)> {
    text.rsplit_once(':').map(|(name, port)| (name.trim(), port.trim()))
}

/// Whether a name has the text in it, whatever the case. The text is in small letters already.
fn names(name: &str, small: &str) -> bool {
    name.to_lowercase().contains(small)
}

/// O(switches + terminals), and the names for each that is told.
fn found(view: &View, what: &str) -> FindAnswer {
    let fabric = &view.fabric;
    let mut answer = FindAnswer::default();
    if let Some((name, port)) = ends_in_port(what) {
        at_port(view, name, port, &mut answer);
    }
    let (lid, guid) = (lid(what), what.parse::<Guid>().ok());
    // Digits alone are a LID, and part of many names.
    let (by_name, small) = (lid.is_none(), what.to_lowercase());
    let switches = fabric.switch_ids().filter(|id| {
        let s = fabric.switch(*id);
        Some(s.lid) == lid || Some(s.guid) == guid || (by_name && names(&s.description, &small))
    });
    let (switches, more) = first(switches, |id| fabric.switch(*id).description.as_str(), what);
    answer.switches.extend(switches.into_iter().map(|id| switch(view, id)));
    let adapters = fabric.terminal_ids().filter(|id| {
        let t = fabric.terminal(*id);
        let is_it = Some(t.lid) == lid || Some(t.port_guid) == guid || Some(t.node_guid) == guid;
        is_it || (by_name && names(&t.description, &small))
    });
    let (adapters, even_more) = first(adapters, |id| fabric.terminal(*id).description.as_str(), what);
    answer.adapters.extend(adapters.into_iter().map(|id| adapter(view, id)));
    answer.more = more || even_more;
    answer.cut()
}

/// Not more than are read, those first whose whole name it is; and whether there are others. Only these are
/// looked at any further, however many there are.
fn first<'a, T>(found: impl Iterator<Item = T>, name: impl Fn(&T) -> &'a str, what: &str) -> (Vec<T>, bool) {
    let mut found: Vec<T> = found.collect();
    found.sort_by_key(|one| !name(one).eq_ignore_ascii_case(what));
    let more = found.len() > MOST;
    found.truncate(MOST);
    (found, more)
}

/// What a switch's port leads to.
fn at_port(view: &View, name: &str, port: &str, answer: &mut FindAnswer) {
    let fabric = &view.fabric;
    let Some(port) = port.parse().ok().and_then(|n: u64| PortNum::new(n).ok()) else { return };
    let guid = name.parse::<Guid>().ok();
    for id in fabric.switch_ids() {
        let s = fabric.switch(id);
        if !s.description.eq_ignore_ascii_case(name) && Some(s.guid) != guid {
            continue;
        }
        match fabric.peer(id, port) {
            Some(PortPeer::Channel(channel)) => answer.cables.push(cable(fabric, channel)),
            Some(PortPeer::Terminal(terminal)) => answer.adapters.push(adapter(view, terminal)),
            Some(PortPeer::Nothing) | None => {}
        }
    }
}

fn switch(view: &View, id: SwitchId) -> FoundSwitch {
    let s = view.fabric.switch(id);
    let is_here = |name: &&NodeName| {
        view.nodes.terminals(name).iter().any(|terminal| view.fabric.terminal(*terminal).switch == id)
    };
    let nodes = view.nodes.names().filter(is_here).cloned().collect();
    let (guid, lid) = (Some(s.guid), Some(s.lid));
    FoundSwitch { switch: id.index(), name: s.description.clone(), guid, lid, at: None, nodes }
}

fn adapter(view: &View, id: TerminalId) -> FoundAdapter {
    let terminal = view.fabric.terminal(id);
    let node = view.nodes.names().find(|name| view.nodes.terminals(name).contains(&id));
    FoundAdapter {
        name: terminal.description.clone(),
        node: node.cloned(),
        guid: terminal.port_guid,
        lid: terminal.lid,
        switch: terminal.switch.index(),
        switch_name: view.fabric.switch(terminal.switch).description.clone(),
        port: terminal.port,
    }
}

fn cable(fabric: &Fabric, id: ChannelId) -> FoundCable {
    let channel = fabric.channel(id);
    let end = |s, port: PortNum| format!("{}:{port}", fabric.switch(s).description);
    let ends = [end(channel.from, channel.from_port), end(channel.to, channel.to_port)];
    FoundCable { cable: id.index() / 2, ends }
}

/// Nodes by name or coordinates; links by `NODE:+X`.
fn found_on_torus(torus: &Torus, what: &str) -> FindAnswer {
    let mut answer = FindAnswer::default();
    let is_at = |node: NodeId, text: &str| {
        torus.name(node).as_str().eq_ignore_ascii_case(text) || torus.coords(node).to_string() == text
    };
    let port = ends_in_port(what)
        .and_then(|(name, port)| Some((name, port.to_uppercase().parse::<Direction>().ok()?)));
    if let Some((name, direction)) = port {
        let (links, _) = layout::torus(torus);
        for node in torus.nodes().filter(|node| is_at(*node, name)) {
            let Some(other) = torus.neighbour(node, direction) else { continue };
            let from = if direction.is_negative() { other } else { node };
            let along = if direction.is_negative() { direction.opposite() } else { direction };
            let Some(cable) = links.iter().position(|link| *link == (from, along)) else { continue };
            let end = |node, direction: Direction| format!("{}:{direction}", torus.name(node));
            let ends = [end(node, direction), end(other, direction.opposite())];
            answer.cables.push(FoundCable { cable, ends });
        }
    }
    let small = what.to_lowercase();
    let fits = |node: &NodeId| is_at(*node, what) || names(torus.name(*node).as_str(), &small);
    let (nodes, more) = first(torus.nodes().filter(fits), |node| torus.name(*node).as_str(), what);
    answer.more = more;
    answer.switches.extend(nodes.into_iter().map(|node| FoundSwitch {
        switch: node.index(),
        name: torus.name(node).to_string(),
        guid: None,
        lid: None,
        at: Some(torus.coords(node).to_string()),
        nodes: vec![torus.name(node).clone()],
    }));
    answer.cut()
}

impl FindAnswer {
    /// Not more than are read: a port that is asked for may be one of many switches of that name.
    fn cut(mut self) -> Self {
        self.more |= self.adapters.len() > MOST || self.cables.len() > MOST;
        self.adapters.truncate(MOST);
        self.cables.truncate(MOST);
        self
    }
}

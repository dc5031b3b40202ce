//! The grammar of one line, shared by `ibnetdiscover` output and ibsim's `.net` files.

use super::Problem;
use crate::model::{Lid, PortNum};

/// What kind of device a block describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Switch,
    Adapter,
    Router,
}

/// The first line of a block: `Switch 36 "S-…" # "description" base port 0 lid 6 lmc 0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodeLine<'a> {
    pub(super) kind: Kind,
    pub(super) ports: u8,
    pub(super) id: &'a str,
    pub(super) description: Option<&'a str>,
    pub(super) lid: Option<Lid>,
}

/// A cabled port: `[1](guid) "S-…"[6] # lid 16 lmc 1 "description of the peer" lid 3 4xSDR`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PortLine<'a> {
    pub(super) port: PortNum,
    pub(super) guid: Option<u64>,
    pub(super) lid: Option<Lid>,
    pub(super) peer: &'a str,
    pub(super) peer_port: PortNum,
    pub(super) peer_guid: Option<u64>,
    pub(super) peer_lid: Option<Lid>,
}

/// One line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// Blank, comment, setting without meaning for routing, message of a program.
    Nothing,
    /// The comment that names the node from which the discovery started.
    Initiator(u64),
    /// See [`super::PROMISE`].
    Promise,
    /// See [`super::END`].
    End,
    /// `devid=`.
    DeviceId(u64),
    /// `switchguid=`, `caguid=`, `rtguid=`, and what follows in brackets: belongs to the next block.
    NodeGuid(u64, Option<u64>),
    /// Another `name=value` that belongs to the next block.
    Property,
    Node(NodeLine<'a>),
    Port(PortLine<'a>),
}

/// Lines that start with these words belong to the two formats; used to recognise a file by its content.
const STARTS: &[&str] = &[
    "vendid",
    "devid",
    "sysimgguid",
    "switchguid",
    "caguid",
    "hcaguids",
    "rtguid",
    "Switch",
    "Ca",
    "Hca",
    "Rt",
    "Chassis",
    "Non",
    "width",
    "speed",
    "extspeed",
    "module",
    "include",
];

/// Whether the first line that says something is one of these formats, or any line is unmistakably.
pub(super) fn recognises(text: &str) -> bool {
    let unmistakable =
        |line: &str| is_record(line) && matches!(parse(line), Ok(Line::Node(_) | Line::NodeGuid(..)));
    starts(text) || text.lines().any(unmistakable)
}

fn starts(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    let first = lines.find(|l| !l.starts_with('#') && !is_message(l));
    let word =
        |l: &str| l.split(|c: char| !c.is_ascii_alphabetic()).next().is_some_and(|w| STARTS.contains(&w));
    first.is_some_and(word) || (first.is_none() && text.contains("Initiated from node"))
}

/// What the discovery tools write to stderr, found in files that were made with `2>&1`.
fn is_message(line: &str) -> bool {
    let source_file = line.split_once(".c:").is_some_and(|(file, rest)| {
        !file.contains(['"', '[', ' ']) && rest.starts_with(|c: char| c.is_ascii_digit())
    });
    let starts = ["ibwarn:", "ibdebug:", "ibpanic:", "mad_rpc"];
    source_file || starts.iter().any(|start| line.starts_with(start))
}

/// Whether a line begins as those of these formats do, right or wrong.
pub(super) fn is_record(line: &str) -> bool {
    let line = line.trim();
    if let Some(rest) = line.strip_prefix('[') {
        let inside = rest.split(']').next().unwrap_or(rest);
        return rest.contains('"') && !inside.is_empty() && inside.bytes().all(|b| b.is_ascii_digit());
    }
    let (word, rest) = line.split_at(line.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(line.len()));
    match word {
        "Switch" | "Ca" | "Hca" | "Rt" => {
            let number = rest.trim_start();
            number.len() < rest.len() && number.starts_with(|c: char| c.is_ascii_digit())
        }
        "switchguid" | "caguid" | "hcaguids" | "rtguid" | "devid" | "vendid" | "sysimgguid" => {
            rest.trim_start().starts_with('=')
        }
        _ => false,
    }
}

/// Whether a line is the prompt of a shell: `[root@head ~]# ibnetdiscover`, `root@head:~$`.
pub(super) fn is_prompt(line: &str) -> bool {
    let sign = line.find(['$', '#', '%', '>', '"']);
    let sign = sign.filter(|at| !line[*at..].starts_with('"'));
    line.find('@').zip(sign).is_some_and(|(at, sign)| at < sign)
}

pub(super) fn parse(line: &str) -> Result<Line<'_>, Problem> {
    let line = line.trim();
    if line.starts_with('[') {
        return port(line).map(Line::Port);
    }
    match line {
        super::PROMISE => return Ok(Line::Promise),
        super::END => return Ok(Line::End),
        _ => {}
    }
    if let Some(comment) = line.strip_prefix('#') {
        let initiator = comment.trim().strip_prefix("Initiated from node ");
        return match initiator.and_then(|rest| rest.split_whitespace().next()) {
            Some(guid) => hex(guid).map(Line::Initiator),
            None => Ok(Line::Nothing),
        };
    }
    let ignored = ["Chassis ", "Non-Chassis Nodes", "Hostname:", "width=", "speed=", "extspeed=", "pdebug"];
    if line.is_empty() || is_message(line) || ignored.iter().any(|start| line.starts_with(start)) {
        return Ok(Line::Nothing);
    }
    let end = line.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(line.len());
    let (word, rest) = line.split_at(end);
    match word {
        "Switch" => node(Kind::Switch, rest).map(Line::Node),
        "Ca" | "Hca" => node(Kind::Adapter, rest).map(Line::Node),
        "Rt" => node(Kind::Router, rest).map(Line::Node),
        "switchguid" => Ok(Line::NodeGuid(value(rest)?, in_brackets(rest)?)),
        "caguid" | "hcaguids" | "rtguid" => value(rest).map(|guid| Line::NodeGuid(guid, None)),
        "devid" => value(rest).map(Line::DeviceId),
        "vendid" | "sysimgguid" => value(rest).map(|_| Line::Property),
        "include" | "module" | "do" => Err(Problem::Unsupported { word: word.to_string() }),
        _ => Err(Problem::NotUnderstood),
    }
}

/// `=0x…`, perhaps followed by `(port guid)` and a comment.
fn value(rest: &str) -> Result<u64, Problem> {
    let rest = rest.trim_start().strip_prefix('=').ok_or(Problem::NotUnderstood)?;
    let end = rest.find(|c: char| c == '(' || c == '#' || c.is_whitespace()).unwrap_or(rest.len());
    hex(&rest[..end])
}

/// The GUID of port 0 in `=0x…(…)`.
fn in_brackets(rest: &str) -> Result<Option<u64>, Problem> {
    let value = rest.split('#').next().unwrap_or(rest);
    let Some((_, open)) = value.split_once('(') else { return Ok(None) };
    let (digits, _) = open.split_once(')').ok_or_else(|| Problem::Number { text: open.to_string() })?;
    hex(digits).map(Some)
}

fn hex(text: &str) -> Result<u64, Problem> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    plain
        .then(|| u64::from_str_radix(digits, 16).ok())
        .flatten()
        .ok_or_else(|| Problem::Number { text: text.to_string() })
}

fn node(kind: Kind, rest: &str) -> Result<NodeLine<'_>, Problem> {
    let mut cursor = Cursor(rest);
    cursor.blanks();
    let ports = cursor.until(char::is_whitespace);
    let ports: PortNum = ports.parse().map_err(|_| Problem::Number { text: ports.to_string() })?;
    cursor.blanks();
    let id = cursor.quoted()?;
    cursor.blanks();
    let (description, after) = match cursor.0.strip_prefix('#').map(str::trim) {
        None if cursor.0.is_empty() => (None, ""),
        None => return Err(Problem::NotUnderstood),
        Some(comment) => match quoted_middle(comment)? {
            Some((_, description, after)) => (Some(description), after),
            None => unquoted_description(comment),
        },
    };
    let lid = if kind == Kind::Switch { lid(after)? } else { None };
    Ok(NodeLine { kind, ports: ports.get(), id, description, lid })
}

/// ibsim allows a description without quotes, up to the words about the port.
fn unquoted_description(comment: &str) -> (Option<&str>, &str) {
    let ends = [" enhanced port ", " base port ", " lid ", " lmc "];
    let end = ends.iter().filter_map(|e| comment.find(e)).min().unwrap_or(comment.len());
    let (description, after) = comment.split_at(end);
    ((!description.is_empty()).then_some(description), after)
}

fn port(line: &str) -> Result<PortLine<'_>, Problem> {
    let mut cursor = Cursor(line);
    let port = cursor.port()?;
    let guid = cursor.annotations()?;
    let peer = cursor.quoted()?;
    cursor.blanks();
    // ibsim: a peer without a port number means its first port.
    let first = PortNum::new(1).map_err(|_| Problem::NotUnderstood)?;
    let peer_port = if cursor.0.starts_with('[') { cursor.port()? } else { first };
    let peer_guid = cursor.annotations()?;
    let (options, comment) = cursor.0.split_once('#').unwrap_or((cursor.0, ""));
    if options.split_whitespace().any(|word| !word.contains('=')) {
        return Err(Problem::NotUnderstood);
    }
    let (before, after) = match quoted_middle(comment.trim())? {
        Some((before, _, after)) => (before, after),
        None => (comment, ""),
    };
    Ok(PortLine { port, guid, lid: lid(before)?, peer, peer_port, peer_guid, peer_lid: lid(after)? })
}

/// Splits `before "middle" after` at the first and the last quote: descriptions may contain some.
fn quoted_middle(text: &str) -> Result<Option<(&str, &str, &str)>, Problem> {
    match (text.find('"'), text.rfind('"')) {
        (Some(open), Some(close)) if open < close => {
            Ok(Some((&text[..open], &text[open + 1..close], &text[close + 1..])))
        }
        (None, _) => Ok(None),
        _ => Err(Problem::Quote),
    }
}

/// The number after the word `lid`. Nothing, 0, −1 and 65535 stand for a port that has none, and
/// the width and speed of the cable may follow at once (`lid  4xHDR`).
fn lid(text: &str) -> Result<Option<Lid>, Problem> {
    let mut words = text.split_whitespace().skip_while(|word| *word != "lid").skip(1);
    match words.next() {
        None | Some("lmc" | "0" | "-1" | "65535") => Ok(None),
        Some(word) if is_speed(word) => Ok(None),
        Some(word) => match word.parse() {
            Ok(lid) => Ok(Some(lid)),
            Err(_) => Err(Problem::Number { text: word.to_string() }),
        },
    }
}

/// A LID as a number; 0, 65535 and what else is none stand for a port without one.
pub(super) fn given_lid(number: u64) -> Option<Lid> {
    Lid::new(number).ok()
}

/// `4xHDR`, `12xQDR`, `??SDR`: how wide and fast a cable is.
fn is_speed(word: &str) -> bool {
    let rest = word.trim_start_matches(|c: char| c.is_ascii_digit());
    word.starts_with("??") || (rest.len() < word.len() && rest.starts_with('x'))
}

/// What is left of a line.
struct Cursor<'a>(&'a str);

impl<'a> Cursor<'a> {
    fn blanks(&mut self) {
        self.0 = self.0.trim_start();
    }
    fn until(&mut self, stop: impl Fn(char) -> bool) -> &'a str {
        let (word, rest) = self.0.split_at(self.0.find(stop).unwrap_or(self.0.len()));
        self.0 = rest;
        word
    }
    /// Text between quotes.
    fn quoted(&mut self) -> Result<&'a str, Problem> {
        let rest = self.0.strip_prefix('"').ok_or(Problem::NotUnderstood)?;
        let (text, rest) = rest.split_once('"').ok_or(Problem::Quote)?;
        self.0 = rest;
        Ok(text)
    }
    /// `[7]`, a physical port.
    fn port(&mut self) -> Result<PortNum, Problem> {
        let rest = self.0.strip_prefix('[').ok_or(Problem::NotUnderstood)?;
        let (number, rest) = rest.split_once(']').ok_or(Problem::NotUnderstood)?;
        self.0 = rest;
        match number.trim().parse() {
            Ok(port) if port != PortNum::ZERO => Ok(port),
            _ => Err(Problem::Number { text: number.to_string() }),
        }
    }
    /// `[ext 3]` (port number on a director's front) and `(…)`; the latter is returned: a port
    /// GUID, or on some directors the number of the port again.
    fn annotations(&mut self) -> Result<Option<u64>, Problem> {
        let mut guid = None;
        loop {
            self.blanks();
            if let Some(rest) = self.0.strip_prefix("[ext ") {
                self.0 = rest.split_once(']').ok_or(Problem::NotUnderstood)?.1;
            } else if let Some(rest) = self.0.strip_prefix('(') {
                let (number, rest) = rest.split_once(')').ok_or(Problem::NotUnderstood)?;
                guid = Some(hex(number)?);
                self.0 = rest;
            } else {
                return Ok(guid);
            }
        }
    }
}

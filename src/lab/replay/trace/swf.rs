//! The Standard Workload Format (Feitelson et al.), with or without node lists in braces as the
//! simulator Alea writes them: `{1241,1241,1242}`, a node once per processor.

use super::{FaultKind, Found, TIMES, TraceJob};
use crate::model::{JobId, NodeName, without_repetition};

/// Fields that every line has.
const FIELDS: usize = 18;

/// Reads a whole file. `; UnixStartTime:` of the header is added to all times, and
/// `; MaxProcs:` and `; MaxNodes:` say how many processors make a node.
pub(super) fn parse(text: &str) -> Found<TraceJob> {
    let mut found = Found::new();
    let mut header = Header::default();
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if let Some(comment) = line.strip_prefix(';') {
            header.read(comment);
            continue;
        }
        found.add(i + 1, job(i + 1, line, &header));
    }
    found
}

#[derive(Default)]
struct Header {
    origin: i64,
    processors: Option<u64>,
    nodes: Option<u64>,
}

impl Header {
    fn read(&mut self, comment: &str) {
        let Some((key, value)) = comment.split_once(':') else { return };
        let Some(Ok(number)) = value.split_whitespace().next().map(str::parse::<u64>) else { return };
        match key.trim() {
            "UnixStartTime" => self.origin = i64::try_from(number).unwrap_or(0),
            "MaxProcs" => self.processors = Some(number),
            "MaxNodes" => self.nodes = Some(number),
            _ => {}
        }
    }

    fn per_node(&self) -> u64 {
        match (self.processors, self.nodes) {
            (Some(processors), Some(nodes)) if nodes > 0 => (processors / nodes).max(1),
            _ => 1,
        }
    }
}

type Wrong = (FaultKind, String);

/// The job of a line; `None` if it never ran.
fn job(line: usize, text: &str, header: &Header) -> Result<Option<TraceJob>, Wrong> {
    let malformed = |message: String| (FaultKind::Malformed, message);
    let words: Vec<&str> = text.split_whitespace().take(FIELDS).collect();
    if words.len() < FIELDS {
        return Err(malformed(format!("{FIELDS} fields expected, {} found", words.len())));
    }
    let number = |field: usize, name: &str| {
        let word = words[field - 1];
        // Some archives write fractions of seconds.
        let whole = word.split('.').next().unwrap_or(word);
        whole
            .parse::<i64>()
            .map_err(|_| malformed(format!("field {field} ({name}): {word:?} is not a number")))
    };
    let id = JobId::new(words[0]).map_err(|e| malformed(e.to_string()))?;
    let submit = number(2, "submit time")?;
    let (wait, run) = (number(3, "wait time")?, number(4, "run time")?);
    let (allocated, requested) = (number(5, "allocated processors")?, number(8, "requested processors")?);
    let nodes = node_list(text).map_err(malformed)?;
    if run < -1 || wait < -1 {
        let what = format!("it waits {wait} s and runs {run} s");
        return Err((FaultKind::Backwards, what));
    }
    let processors = if allocated > 0 { allocated } else { requested };
    if run <= 0 || (processors <= 0 && nodes.is_none()) {
        return Ok(None);
    }
    let late = || malformed("a time is out of range".to_string());
    let submit = submit.checked_add(header.origin).ok_or_else(late)?;
    let start = submit.checked_add(wait.max(0)).ok_or_else(late)?;
    let end = start.checked_add(run).filter(|end| TIMES.contains(end)).ok_or_else(late)?;
    let size = match &nodes {
        Some(nodes) => nodes.len(),
        None => (processors as u64).div_ceil(header.per_node()) as usize,
    };
    Ok(Some(TraceJob { id, line, submit, start, end: Some(end), size, nodes }))
}

/// What stands in braces, in its order, each node once; `None` without braces or with empty ones.
fn node_list(text: &str) -> Result<Option<Vec<NodeName>>, String> {
    let Some((_, rest)) = text.split_once('{') else { return Ok(None) };
    let Some((list, _)) = rest.split_once('}') else { return Err("the node list has no end".to_string()) };
    if list.trim().is_empty() {
        return Ok(None);
    }
    let nodes: Result<Vec<NodeName>, _> = list.split(',').map(|n| NodeName::new(n.trim())).collect();
    Ok(Some(without_repetition(nodes.map_err(|e| e.to_string())?)))
}

//! `sacct --parsable2` dumps: fields separated by bars, in any order, with a header or without.

use chrono::{DateTime, NaiveDateTime};

use super::{FaultKind, Found, TIMES, TraceJob};
use crate::model::{JobId, without_repetition};
use crate::observe::hostlist;

/// The order in which XDMoD's shredder asks `sacct`: taken for dumps without a header that have
/// exactly so many fields.
const XDMOD: &str = "jobid,jobidraw,cluster,partition,qos,account,group,gid,user,uid,submit,eligible,start,end,\
                     elapsed,exitcode,state,nnodes,ncpus,reqcpus,reqmem,reqtres,alloctres,timelimit,nodelist,jobname";

/// Where the fields are.
struct Columns {
    count: usize,
    id: usize,
    start: usize,
    end: usize,
    nodes: usize,
    submit: Option<usize>,
}

impl Columns {
    fn find(names: &[String]) -> Result<Self, String> {
        let at = |name: &str| names.iter().position(|n| n == name);
        let must = |name: &str| at(name).ok_or_else(|| format!("there is no field {name}"));
        Ok(Self {
            count: names.len(),
            id: at("jobid").map_or_else(|| must("jobidraw"), Ok)?,
            start: must("start")?,
            end: must("end")?,
            nodes: must("nodelist")?,
            submit: at("submit"),
        })
    }
}

fn names(line: &str, separator: char) -> Vec<String> {
    line.trim().trim_end_matches(separator).split(separator).map(|n| n.trim().to_lowercase()).collect()
}

/// Reads a whole dump. `given` names the fields, separated by commas, if the dump has no header.
/// An error says that the fields are not known.
pub(super) fn parse(text: &str, given: Option<&str>) -> Result<Found<TraceJob>, String> {
    let mut lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()).peekable();
    let first = lines.peek().map_or("", |(_, l)| *l);
    let header = names(first, '|');
    let columns = if header.iter().any(|n| n == "nodelist") {
        lines.next();
        Columns::find(&header)?
    } else if let Some(given) = given {
        Columns::find(&names(given, ','))?
    } else if first.split('|').count() == names(XDMOD, ',').len() {
        Columns::find(&names(XDMOD, ','))?
    } else {
        return Err("the dump has no header: name its fields with --fields jobid,start,end,nodelist,…".into());
    };
    let mut found = Found::new();
    for (i, line) in lines {
        found.add(i + 1, job(i + 1, line, &columns));
    }
    Ok(found)
}

/// The job of a line; `None` for steps and for jobs that never started.
fn job(line: usize, text: &str, columns: &Columns) -> Result<Option<TraceJob>, (FaultKind, String)> {
    let malformed = |message: String| (FaultKind::Malformed, message);
    let fields: Vec<&str> = text.split('|').collect();
    // `sacct -p` ends each line with a bar. A job name, the only free text, may hold bars: it is
    // last in such dumps.
    if fields.len() < columns.count {
        return Err(malformed(format!("{} fields expected, {} found", columns.count, fields.len())));
    }
    let id = fields[columns.id].trim();
    if id.contains('.') {
        return Ok(None);
    }
    let time = |field: usize| time(fields[field].trim()).map_err(malformed);
    let Some(start) = time(columns.start)? else { return Ok(None) };
    let end = time(columns.end)?;
    let list = fields[columns.nodes].trim();
    if list.is_empty() || list == "None assigned" {
        return Ok(None);
    }
    let id = JobId::new(id).map_err(|e| malformed(e.to_string()))?;
    let nodes = hostlist::expand(list).map_err(|e| malformed(e.to_string()))?;
    let nodes = without_repetition(nodes);
    if let Some(end) = end.filter(|end| *end < start) {
        return Err((FaultKind::Backwards, format!("job {id} ends {} s before it starts", start - end)));
    }
    let submit = match columns.submit {
        Some(submit) => time(submit)?.unwrap_or(start),
        None => start,
    };
    Ok(Some(TraceJob { id, line, submit, start, end, size: nodes.len(), nodes: Some(nodes) }))
}

/// Seconds since 1970; `None` for a time that is not known (yet). Times without a zone count as UTC.
fn time(text: &str) -> Result<Option<i64>, String> {
    if matches!(text, "" | "Unknown" | "None" | "N/A") {
        return Ok(None);
    }
    if let Ok(seconds) = text.parse::<i64>() {
        let known = TIMES.contains(&seconds).then_some(seconds);
        return known.map(Some).ok_or_else(|| format!("{text} is no time in seconds since 1970"));
    }
    let naive = NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S").map(|t| t.and_utc().timestamp());
    let zoned = || DateTime::parse_from_rfc3339(text).map(|t| t.timestamp());
    naive.or_else(|_| zoned()).map(Some).map_err(|_| format!("{text:?} is not a time"))
}

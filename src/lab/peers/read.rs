//! The probe's file (see the head of `probe.c`) to tables.

use std::collections::BTreeMap;
use std::fs;

use super::bed::Answered;
use super::{PeerError, PeerRouting, Routed};
use crate::model::{DestId, Fabric, Guid, SwitchId, Tables};

/// The fabric's names and what was read so far.
struct Reading<'a> {
    fabric: &'a Fabric,
    by_guid: BTreeMap<Guid, DestId>,
    by_lid: Vec<Option<DestId>>,
    ports: Vec<u8>,
    /// By host of a switch, then `[dest * switches + switch]`.
    layers: Vec<Vec<u8>>,
    /// Hosts of each switch read so far.
    hosts: Vec<usize>,
}

pub(super) fn read(fabric: &Fabric, engine: &str, answered: &Answered) -> Result<PeerRouting, PeerError> {
    let path = answered.as_ref();
    let text = fs::read_to_string(path)
        .map_err(|source| PeerError::Io { what: path.display().to_string(), source })?;
    let wrong = |line: usize, message: &str| PeerError::Line {
        path: path.to_path_buf(),
        line,
        message: message.to_string(),
    };
    if !text.ends_with("end\n") {
        return Err(wrong(text.lines().count(), "the file is cut short"));
    }
    let mut lines = text.lines().enumerate();
    let first: Vec<&str> = lines.next().map(|(_, l)| l.split(' ').collect()).unwrap_or_default();
    let [kind, name, cpu, rss] = first.as_slice() else { return Err(wrong(1, "four words wanted")) };
    let (Ok(cpu_seconds), Ok(rss_kib)) = (cpu.parse::<f64>(), rss.parse::<u64>()) else {
        return Err(wrong(1, "not seconds and KiB"));
    };
    if *name != engine {
        return Err(wrong(1, "another engine answered"));
    }
    if *kind == "failed" {
        return Ok(PeerRouting::Failed { cpu_seconds });
    }
    let mut reading = Reading::new(fabric);
    for (i, line) in lines.filter(|(_, l)| *l != "end") {
        reading.line(line).ok_or_else(|| wrong(i + 1, "not understood, or not of this fabric"))?;
    }
    let tables = reading.finish(engine)?;
    Ok(PeerRouting::Routed(Box::new(Routed { tables, cpu_seconds, peak_rss_bytes: rss_kib * 1024 })))
}

impl<'a> Reading<'a> {
    fn new(fabric: &'a Fabric) -> Self {
        Self {
            fabric,
            by_guid: fabric.dest_ids().map(|d| (fabric.dest_guid(d), d)).collect(),
            by_lid: Vec::new(),
            ports: vec![Tables::UNREACHABLE; fabric.dest_count() * fabric.switches().len()],
            layers: Vec::new(),
            hosts: vec![0; fabric.switches().len()],
        }
    }

    /// `None` if the line is not understood.
    fn line(&mut self, line: &str) -> Option<()> {
        let mut words = line.split(' ');
        let (kind, second, third) = (words.next()?, words.next()?, words.next()?);
        if kind == "lid" {
            let lid: usize = second.parse().ok()?;
            let d = *self.by_guid.get(&third.parse().ok()?)?;
            self.by_lid.resize(self.by_lid.len().max(lid + 1), None);
            self.by_lid[lid] = Some(d);
            return Some(());
        }
        let guid: Guid = second.parse().ok()?;
        let s = self.fabric.switch_by_guid(guid)?.index();
        match kind {
            "lft" => self.lft(s, third),
            "sl" => self.sl(s, third),
            _ => None,
        }
    }

    fn lft(&mut self, s: usize, digits: &str) -> Option<()> {
        let n = self.fabric.switches().len();
        for (lid, d) in self.by_lid.iter().enumerate() {
            let port = u8::from_str_radix(digits.get(2 * lid..2 * lid + 2)?, 16).ok()?;
            if let Some(d) = d {
                self.ports[d.index() * n + s] = port;
            }
        }
        Some(())
    }

    fn sl(&mut self, s: usize, digits: &str) -> Option<()> {
        let (fabric, n, host) = (self.fabric, self.fabric.switches().len(), self.hosts[s]);
        self.hosts[s] += 1;
        if self.layers.len() <= host {
            self.layers.push(vec![Tables::NO_LAYER; self.ports.len()]);
        }
        for (d, digit) in self.by_lid.iter().zip(digits.chars()) {
            let Some(d) = d else { continue };
            let home = fabric.home(*d);
            let sl = if home.index() == s { 0 } else { digit.to_digit(16)? as u8 };
            if home.index() == s || !fabric.attached(home).is_empty() {
                self.layers[host][d.index() * n + s] = sl;
            }
        }
        Some(())
    }

    fn finish(mut self, engine: &str) -> Result<Vec<Tables>, PeerError> {
        let n = self.fabric.switches().len();
        if self.layers.is_empty() {
            self.layers.push(vec![Tables::NO_LAYER; self.ports.len()]);
        }
        let (first, others) = self.layers.split_at_mut(1);
        for (i, layers) in others.iter_mut().enumerate() {
            for s in (0..n).filter(|s| self.hosts[*s] < i + 2) {
                (s..layers.len()).step_by(n).for_each(|at| layers[at] = first[0][at]);
            }
        }
        for d in self.fabric.dest_ids() {
            let home: SwitchId = self.fabric.home(d);
            self.layers.iter_mut().for_each(|l| l[d.index() * n + home.index()] = 0);
        }
        let tables = self.layers.into_iter().map(|l| Tables::new(self.fabric, engine, self.ports.clone(), l));
        Ok(tables.collect::<Result<_, _>>()?)
    }
}

//! A certificate as text.

use std::io::{self, BufRead, Write};
use std::path::Path;

use super::DumpError;
use super::read::Lines;
use crate::model::{ChannelId, Fabric, FileError, Guid, PortNum, PortPeer, Vl};
use crate::verify::Certificate;

/// First word of the first line; the fabric's fingerprint follows.
const FABRIC: &str = "fabric";

/// Writes a certificate: the fabric, and one line per buffer, first to last: GUID of the sending switch, its port,
/// VL in base 36. O(buffers).
///
/// # Errors
/// Those of `to`.
pub fn write_certificate(fabric: &Fabric, certificate: &Certificate, to: &mut impl Write) -> io::Result<()> {
    writeln!(to, "{FABRIC} {}", fabric.fingerprint())?;
    for (c, vl) in certificate.order() {
        let channel = fabric.channel(*c);
        writeln!(to, "{} {} {}", fabric.switch(channel.from).guid, channel.from_port, vl.to_char())?;
    }
    Ok(())
}

/// Reads what [`write_certificate`] wrote for this very fabric. `path` is for messages.
///
/// # Errors
/// With file and line.
pub fn read_certificate(fabric: &Fabric, path: &Path, from: impl BufRead) -> Result<Certificate, DumpError> {
    let mut lines = Lines::new(path, from);
    let first = lines.next()?.ok_or_else(|| lines.truncated("there is no line".to_string()))?;
    let wanted = format!("{FABRIC} {}", fabric.fingerprint());
    if first != wanted {
        return Err(lines.wrong(format!("no certificate of this fabric, which begins with {wanted:?}")));
    }
    let mut order = Vec::new();
    while let Some(line) = lines.next()? {
        order.push(buffer(fabric, &line).map_err(|m| lines.wrong(m))?);
    }
    let certificate = Certificate::new(fabric, order);
    Ok(certificate.map_err(|at| FileError::line(path, at + 2, "the same buffer comes twice"))?)
}

fn buffer(fabric: &Fabric, line: &str) -> Result<(ChannelId, Vl), String> {
    let words: Vec<&str> = line.split(' ').collect();
    let [guid, port, vl] = words[..] else { return Err("not a GUID, a port and a VL".to_string()) };
    let guid: Guid = guid.parse().map_err(|e| format!("{e}"))?;
    let switch = fabric.switch_by_guid(guid).ok_or_else(|| format!("the fabric has no switch {guid}"))?;
    let port: PortNum = port.parse().map_err(|e| format!("{e}"))?;
    let Some(PortPeer::Channel(channel)) = fabric.peer(switch, port) else {
        return Err(format!("port {port} of {guid} leads to no switch"));
    };
    let mut letters = vl.chars();
    let vl = letters.next().and_then(Vl::from_char).filter(|_| letters.next().is_none());
    Ok((channel, vl.ok_or("the VL is not one character from 0 to e")?))
}

//! `sarouter route --engine polarized`: the tables of Polarized Routing, for switches that can
//! decide per hop.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde_json::json;

use super::common::write_file_with;
use super::{Answer, Context, Failure};
use crate::model::{Fabric, PortNum, PortPeer};
use crate::simulate::Net;
use crate::simulate::adaptive::{Distances, Penalties, Polarized};

/// Name of the file in the directory.
const FILE: &str = "polarized.txt";

/// Writes `polarized.txt`: for each switch a line `switch 0x<GUID>`, then one line per port to
/// another switch: the port and one character per target switch, in the order of the file: `-`
/// for a port that approaches the target, `0` for one that stays as far, `+` for one that departs.
pub fn route(fabric: &Fabric, out: &Path, context: &Context) -> Result<Answer, Failure> {
    let net = Net::of_fabric(fabric);
    let far = Distances::new(&net)?;
    let polarized = Polarized::new(&net, &far, Penalties::default())?;
    fs::create_dir_all(out).map_err(|e| format!("{}: {e}", out.display()))?;
    let path = out.join(FILE);
    write_file_with(&path, |to| write(fabric, &net, &polarized, to))?;
    let lanes = crate::simulate::Router::lanes(&polarized);
    let made = json!({"engine": "polarized", "lanes": lanes, "diameter": far.diameter(), "file": path});
    context.print(&made, || {
        format!("lanes         {lanes}, in increasing order\nfile          {}", path.display())
    })?;
    Ok(Answer::Yes)
}

fn write(fabric: &Fabric, net: &Net, polarized: &Polarized<'_>, to: &mut impl Write) -> io::Result<()> {
    for s in fabric.switch_ids() {
        let switch = fabric.switch(s);
        writeln!(to, "switch {}", switch.guid)?;
        for port in (1..=switch.ports).filter_map(|p| PortNum::new(u64::from(p)).ok()) {
            if let Some(PortPeer::Channel(_)) = fabric.peer(s, port) {
                let channel = net.behind(s.index() as u32, port.get());
                let turn = |target| match polarized.turn(channel, target) {
                    -1 => '-',
                    0 => '0',
                    _ => '+',
                };
                let row: String = (0..fabric.switches().len() as u32).map(turn).collect();
                writeln!(to, "{port} {row}")?;
            }
        }
    }
    Ok(())
}

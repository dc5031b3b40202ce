//! An order of ranks as files that launchers read.

use std::fmt::Write;
use std::path::Path;

use crate::cli::common::write_file;
use crate::cli::{Failure, input};
use crate::model::NodeName;

/// A form of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// Open MPI's hostfile: a node per line with its slots
    Hostfile,
    /// Open MPI's rank file: a rank per line
    Rankfile,
    /// MPICH's and Intel MPI's machine file: a node per line with its ranks
    Machinefile,
    /// A node per rank, for SLURM_HOSTFILE and srun --distribution=arbitrary
    Slurm,
    /// A node per line with its --node-rank for torchrun
    Torchrun,
    /// Nodes in the order of ranks, separated by commas
    List,
}

impl Form {
    /// All, each with the name of its file.
    const FILES: [(Self, &'static str); 6] = [
        (Self::Hostfile, "hostfile"),
        (Self::Rankfile, "rankfile"),
        (Self::Machinefile, "machinefile"),
        (Self::Slurm, "slurm-hostfile"),
        (Self::Torchrun, "node-ranks"),
        (Self::List, "list"),
    ];
}

/// The node of each rank.
pub struct Seats<'a> {
    order: &'a [NodeName],
    per_node: usize,
}

impl<'a> Seats<'a> {
    /// Of as many ranks on each node as `per_node`.
    pub fn new(order: &'a [NodeName], per_node: usize) -> Self {
        Self { order, per_node }
    }

    /// Whether the ranks of each node follow each other.
    fn in_blocks(&self) -> bool {
        self.order.chunks(self.per_node).all(|block| block.iter().all(|n| *n == block[0]))
    }

    /// The text of a file.
    ///
    /// # Errors
    /// If the form has no place for ranks of one node that do not follow each other.
    pub fn text(&self, form: Form) -> Result<String, Failure> {
        let mut text = String::new();
        match form {
            Form::Rankfile => {
                let mut used = std::collections::BTreeMap::new();
                for (rank, node) in self.order.iter().enumerate() {
                    let slot = used.entry(node).or_insert(0);
                    let _ = writeln!(text, "rank {rank}={node} slot={slot}");
                    *slot += 1;
                }
            }
            Form::Slurm => self.order.iter().for_each(|node| text.extend([node.as_str(), "\n"])),
            _ if !self.in_blocks() => {
                return Err("ranks of one node are apart, which only rankfile and slurm can say".into());
            }
            Form::List => {
                let nodes = nodes_in_order(self.order);
                let _ = writeln!(text, "{}", nodes.join(","));
            }
            Form::Hostfile | Form::Machinefile | Form::Torchrun => {
                let n = self.per_node;
                for (i, block) in self.order.chunks(n).enumerate() {
                    let _ = match form {
                        Form::Hostfile => writeln!(text, "{} slots={n}", block[0]),
                        Form::Machinefile => writeln!(text, "{}:{n}", block[0]),
                        _ => writeln!(text, "{} {i}", block[0]),
                    };
                }
            }
        }
        Ok(text)
    }

    /// Writes every form that can say the order into a directory, which need not exist; a file of one that
    /// cannot is removed, as it would say another order.
    pub fn write(&self, out: &Path) -> Result<(), Failure> {
        std::fs::create_dir_all(out).map_err(|e| format!("{}: {e}", out.display()))?;
        for (form, name) in Form::FILES {
            let path = out.join(name);
            match self.text(form) {
                Ok(text) => write_file(&path, text.as_bytes())?,
                Err(_) => input::remove_if_there(&path)?,
            }
        }
        Ok(())
    }
}

/// Nodes by their first rank.
pub fn nodes_in_order(order: &[NodeName]) -> Vec<&str> {
    let mut seen = std::collections::BTreeSet::new();
    order.iter().map(NodeName::as_str).filter(|node| seen.insert(*node)).collect()
}

//! Slurm node names to terminals.

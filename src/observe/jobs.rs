//! `--jobs`: squeue or slurmrestd JSON, a snapshot of ours, or lines `ID HOSTLIST`.

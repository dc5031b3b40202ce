//! Finds the version of Slurm that the plugin is for: Slurm loads plugins of its own major and minor
//! version only. `SLURM_VERSION=22.05.8`, or the installed header, or what `sinfo -V` says.

use std::process::Command;
use std::{env, fs};

const HEADER: &str = "/usr/include/slurm/slurm_version.h";

fn main() {
    println!("cargo::rerun-if-env-changed=SLURM_VERSION");
    println!("cargo::rerun-if-changed={HEADER}");
    let given = env::var("SLURM_VERSION").ok().and_then(|text| number(&text));
    let Some(number) = given.or_else(of_header).or_else(of_sinfo) else {
        panic!(
            "no Slurm found: set SLURM_VERSION=major.minor.micro, or install libslurm-dev or slurm-client"
        );
    };
    println!("cargo::rustc-env=SLURM_VERSION_NUMBER={number}");
}

/// `22.05.8` as Slurm counts it.
fn number(text: &str) -> Option<u32> {
    let mut parts = text.trim().split(['.', '-']).map(|part| part.parse::<u32>().ok());
    let (major, minor) = (parts.next()??, parts.next()??);
    Some((major << 16) + (minor << 8) + parts.next().flatten().unwrap_or(0))
}

fn of_header() -> Option<u32> {
    let text = fs::read_to_string(HEADER).ok()?;
    let digits = text.lines().find_map(|l| l.strip_prefix("#define SLURM_VERSION_NUMBER 0x"))?;
    u32::from_str_radix(digits.trim(), 16).ok()
}

fn of_sinfo() -> Option<u32> {
    let output = Command::new("sinfo").arg("-V").output().ok()?;
    number(String::from_utf8(output.stdout).ok()?.split_whitespace().last()?)
}

//! The units that the package brings: what they may do.

use std::process::Command;

const UNITS: [&str; 3] = ["sarouter.service", "sarouter-tick.service", "sarouter-fabric.service"];

fn lines(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(format!("config/{name}")).unwrap();
    text.lines().map(String::from).collect()
}

/// As systemd counts: 0 is nothing that it could do to the machine, 10 everything.
#[test]
fn units_are_exposed_at_most_2_5() {
    for name in UNITS {
        let mut command = Command::new("systemd-analyze");
        command.args(["security", "--offline=true", "--no-pager"]).arg(format!("config/{name}"));
        let Ok(output) = command.env("LC_ALL", "C.UTF-8").output() else {
            println!("skipped: systemd-analyze is not here");
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let level = text.lines().find_map(|l| l.split_once("Overall exposure level for")?.1.split_once(": "));
        let level = level.unwrap_or_else(|| panic!("{output:?}")).1;
        let level: f64 = level.split(' ').next().unwrap().parse().unwrap();
        assert!(level <= 2.5, "{name}: {text}");
    }
}

#[test]
fn units_are_bounded_in_memory_and_tasks_and_none_is_root() {
    for name in UNITS {
        let lines = lines(name);
        let value = |key: &str| lines.iter().filter_map(|l| l.strip_prefix(key)?.strip_prefix('=')).next();
        for key in ["MemoryMax", "TasksMax", "SystemCallFilter", "CapabilityBoundingSet"] {
            assert!(value(key).is_some(), "{name} has no {key}");
        }
        assert_eq!(value("User"), Some("sarouter"), "{name}");
        assert_eq!(value("NoNewPrivileges"), Some("yes"), "{name}");
    }
    // An answer that takes too much does not end the service.
    assert!(lines("sarouter.service").contains(&"OOMPolicy=continue".to_string()));
}

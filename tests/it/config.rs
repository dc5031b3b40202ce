//! Settings: the example is complete, loads and shows the defaults; errors name the line.

use std::path::Path;
use std::time::Duration;

use sarouter::config::{ConfigError, FabricSource, Settings, Site};
use sarouter::model::{Demand, FileError, Group, LayerBudget};
use sarouter::observe::source::JOB_SOURCES;
use sarouter::route::{ENGINES, EngineOptions};
use sarouter::verify::layers_of_group;

const EXAMPLE: &str = include_str!("../../config/sarouter.toml");

fn parse(text: &str) -> Result<Settings, ConfigError> {
    Settings::parse(text, Path::new("/etc/sarouter/sarouter.toml"))
}

/// The keys that a table knows, from the reader's own complaint about one that it does not know.
fn known_keys(prefix: &str) -> Vec<String> {
    let error = parse(&format!("{prefix}no_such_key = 1\n")).unwrap_err().to_string();
    let (_, list) = error.split_once("keys are ").unwrap_or_else(|| panic!("{error}"));
    list.split(", ").map(String::from).collect()
}

/// `section.key` of each line of the example, in comments or not.
fn shown_keys() -> Vec<String> {
    let mut section = "";
    let mut keys = Vec::new();
    for line in EXAMPLE.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            section = name;
        } else if let Some((key, _)) = line.trim_start_matches('#').split_once(" = ") {
            if !key.contains(' ') {
                keys.push(format!("{section}.{key}"));
            }
        }
    }
    keys
}

#[test]
fn units_run_the_program_where_the_package_puts_it() {
    let mut runs = 0;
    for name in ["sarouter.service", "sarouter-tick.service"] {
        let unit = std::fs::read_to_string(format!("config/{name}")).unwrap();
        for command in unit.lines().filter_map(|l| l.strip_prefix("Exec")?.split_once('=').map(|(_, c)| c)) {
            let program = command.trim_start_matches('-').split(' ').next().unwrap();
            if program.ends_with("sarouter") {
                assert_eq!(program, "/usr/bin/sarouter", "{name}: {command}");
                runs += 1;
            }
        }
    }
    assert_eq!(runs, 3);
}

#[test]
fn the_example_shows_every_key_once() {
    let sections = known_keys("");
    assert!(sections.contains(&"slurm".to_string()), "{sections:?}");
    let mut wanted: Vec<String> = sections
        .iter()
        .flat_map(|s| known_keys(&format!("[{s}]\n")).into_iter().map(move |key| format!("{s}.{key}")))
        .collect();
    let mut shown = shown_keys();
    wanted.sort();
    shown.sort();
    assert_eq!(shown, wanted);
}

#[test]
fn the_example_loads_and_shows_the_defaults() {
    let example = parse(EXAMPLE).unwrap();
    let source = FabricSource::Source("/var/lib/sarouter/fabric.ibnetdiscover".into());
    assert_eq!(example.fabric, Some(source));
    // What has no default is the only difference.
    assert_eq!(Settings { fabric: None, ..example }, parse("").unwrap());
}

/// Rules for what jobs exchange, in either form of TOML; each wrong one with its line and what was meant.
#[test]
fn rules_of_traffic_are_checked_when_they_are_read() {
    let rules = |text: &str| {
        let rules = parse(text).unwrap().traffic.0;
        rules.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let want = ["partition gpu*, name train-*: ring", "all others: halo3d+3*shift"];
    let inline = "[traffic]\nrules = [\n  { partition = \"gpu*\", name = \"train-*\", pattern = \"ring\" },\n  \
                  { pattern = \"3*shift+halo3d\" },\n]\n";
    let tables = "[[traffic.rules]]\npartition = \"gpu*\"\nname = \"train-*\"\npattern = \"ring\"\n\
                  [[traffic.rules]]\npattern = \"3*shift+halo3d\"\n";
    let sorted = |mut words: Vec<String>| {
        words.iter_mut().for_each(|word| *word = word.replace("3*shift+halo3d", "halo3d+3*shift"));
        words
    };
    assert_eq!(sorted(rules(inline)), want);
    assert_eq!(sorted(rules(tables)), want);
    let wrong = |text: &str| parse(text).unwrap_err().to_string();
    let rule =
        |rule: &str| wrong(&format!("[traffic]\nrules = [\n  {{ pattern = \"ring\" }},\n  {rule},\n]\n"));
    for (text, line, why) in [
        ("{ pattern = \"rings\" }", 4, "did you mean ring?"),
        ("{ partition = \"gpu\" }", 4, "pattern"),
        ("{ queue = \"gpu\", pattern = \"ring\" }", 4, "queue"),
        ("{ executables = \"lmp\", pattern = \"ring\" }", 4, "executable"),
        ("{ name = 7, pattern = \"ring\" }", 4, "7 is found where a text is wanted"),
    ] {
        let said = rule(text);
        assert!(
            said.starts_with(&format!("/etc/sarouter/sarouter.toml:{line}: ")) && said.contains(why),
            "{said}"
        );
    }
}

#[test]
fn what_is_commented_out_loads_too() {
    let text: String = EXAMPLE
        .lines()
        .filter(|line| !line.starts_with("source =") && !line.starts_with("engine ="))
        .map(|line| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') && rest.contains(" = ") => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let settings = parse(&text).unwrap();
    let Some(FabricSource::Command { argv, deadline, .. }) = settings.fabric else { panic!("no command") };
    assert_eq!((argv, deadline), (vec!["ibnetdiscover".to_string()], Duration::from_secs(60)));
    assert_eq!(settings.node_map.unwrap(), Path::new("/etc/sarouter/nodes"));
    assert_eq!(settings.slurm.topology.unwrap(), Path::new("/etc/slurm/topology.conf"));
}

/// Each bad text with its line and a word of the explanation.
#[test]
fn bad_settings_are_refused_with_their_line() {
    let cases: &[(&str, usize, &str)] = &[
        ("[state]\n\ndirectry = \"x\"\n", 3, "directry"),
        ("[stat]\n", 1, "stat"),
        ("[routing]\nlayers = 16\n", 2, "1 to 15"),
        ("[routing]\nengine = \"sar\"\nlayers = \"eight\"\n", 3, "layers"),
        ("[service]\ninterval_seconds = 0\n", 2, "more than 0"),
        ("[service]\ninterval_seconds = -1\n", 2, "between 0 and a year"),
        ("[service]\nstop_seconds = nan\n", 2, "between 0 and a year"),
        ("[state]\nkeep_epochs = 1\n", 2, "2 to"),
        ("[slurm]\noutput_limit_mib = 0\n", 2, "MiB"),
        ("[slurm]\nsqueue_format = \"xml\"\n", 2, "xml"),
        ("[fabric]\nsource = \"a\"\n# and\ncommand = [\"b\"]\n", 4, "exclude"),
        ("[fabric]\ncommand = []\n", 2, "empty"),
        ("[routing]\nengine = \"sar\"\nengines = [\"nue\"]\n", 3, "exclude"),
        ("[routing]\nengines = []\n", 2, "empty"),
        ("[routing]\nlayer_per_job = true\npromise = \"any\"\n", 3, "layer_per_job"),
        ("[routing]\npromise = \"everything\"\n", 2, "told, untold"),
        ("[routing]\nstorage_nodes = [\n\"oss[1-4]\",\n\"n[\"]\n", 4, "brackets"),
        ("[opensm]\nlmc = 2\n", 2, "0 or 1"),
        ("[routing]\nlayer_per_job = true\n[opensm]\nlmc = 1\n", 4, "exclude"),
        ("[opensm]\nlft_file = \"f\"\nlmc = 1\n", 3, "lft_file"),
        ("[api]\ntls_certificate = \"c\"\n", 2, "belong together"),
        ("[api]\ntcp = \"[::1]:1\"\ntoken_file = \"t\"\ntls_key = \"k\"\n", 4, "belong together"),
        ("[api]\nshow_users = true\ntoken_file = \"t\"\n", 3, "needs api.tcp"),
        ("[api]\ntls_key = \"k\"\ntls_certificate = \"c\"\n", 3, "needs api.tcp"),
        ("[api]\nsocket = \"/\"\n", 2, "below the root"),
        ("[slurmrestd]\nuser = \"u\"\ntoken_file = \"t\"\n", 3, "needs slurmrestd.url"),
        ("[slurm]\nsqueue = \"\"\n", 2, "name of a program"),
        ("[placement]\nscontrol = \" \"\n", 2, "name of a program"),
        ("[placement]\nhold = true\nmax_held = 0\n", 3, "one job at least"),
        ("[state]\ndirectory = \"\"\n", 2, "below the root"),
        ("[state]\nkeep_epochs = 9\ndirectory = \"//\"\n", 3, "below the root"),
        ("[fabric]\ncommand = [\"\"]\n", 2, "empty"),
        ("[fabric\n", 1, ""),
    ];
    for (text, wanted_line, word) in cases {
        match parse(text) {
            Err(ConfigError::File(FileError::Line { line, reason, .. })) => {
                assert_eq!(line, *wanted_line, "{text}: {reason}");
                // A wrong type is explained by what was expected, not by the key.
                assert!(reason.contains(word) || *word == "layers", "{text}: {reason}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn paths_are_relative_to_the_file_and_specs_stay() {
    let settings = parse("[state]\ndirectory = \"s\"\n[fabric]\nsource = \"f.net\"\n").unwrap();
    assert_eq!(settings.state.directory, Path::new("/etc/sarouter/s"));
    assert_eq!(settings.opensm.unwrap().status_file, Path::new("/etc/sarouter/s/opensm-status.json"));
    assert_eq!(settings.fabric, Some(FabricSource::Source("/etc/sarouter/f.net".into())));
    for file in ["fabric", "torus.toml", "./fat:tree", "tree4"] {
        let settings = parse(&format!("[fabric]\nsource = \"{file}\"\n")).unwrap();
        let path = Path::new("/etc/sarouter").join(file);
        assert_eq!(settings.fabric, Some(FabricSource::Source(path.to_str().unwrap().into())));
    }
    for spec in ["fattree:4x2,2", "random:9,9,20,seed=1,faults=0.5%", "taurus", "angara:4x4", "desmos"] {
        let settings = parse(&format!("[fabric]\nsource = \"{spec}\"\n")).unwrap();
        assert_eq!(settings.fabric, Some(FabricSource::Source(spec.into())));
    }
}

#[test]
fn paths_are_absolute_however_the_file_is_named() {
    let settings = Settings::parse("[state]\ndirectory = \"s\"\n", Path::new("sarouter.toml")).unwrap();
    assert_eq!(settings.state.directory, std::env::current_dir().unwrap().join("s"));
}

#[test]
fn without_a_file_there_are_defaults_only_if_nobody_named_one() {
    let missing = Path::new("/no/such/sarouter.toml");
    assert!(Site::load_or_default(Some(missing)).unwrap_err().to_string().starts_with("/no/such/"));
}

#[test]
fn the_sources_that_settings_may_name_are_those_of_the_table() {
    let names: Vec<&str> = JOB_SOURCES.iter().map(|row| row.name).collect();
    let distinct: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
    let named = |name: &str, more: &str| parse(&format!("[slurm]\nsource = \"{name}\"\n{more}"));
    // All that any of them needs.
    let all = "[slurmrestd]\nurl = \"http://x\"\n[spool]\ndirectory = \"spool\"\n";
    for row in JOB_SOURCES {
        assert_eq!(named(row.name, all).unwrap().slurm.source, row.name);
        if let Err(error) = named(row.name, "") {
            let words = format!("sarouter.toml:2: this source needs {}", row.settings);
            assert!(error.to_string().contains(&words), "{error}");
        }
        let said = format!("{}x", row.name);
        let error = named(&said, all).unwrap_err().to_string();
        let words = format!("sarouter.toml:2: {said:?} is not known here; did you mean {}?", row.name);
        assert!(error.contains(&words), "{error}");
    }
    let error = named("nothing-like-it", all).unwrap_err().to_string();
    assert!(error.ends_with(&format!("; known are {}", names.join(", "))), "{error}");
    // The default is the first, and the example explains each.
    assert_eq!(parse("").unwrap().slurm.source, names[0]);
    for name in names {
        assert!(EXAMPLE.contains(&format!("\"{name}\"")), "{name}");
    }
}

#[test]
fn a_layer_per_job_is_refused_for_each_engine_that_cannot_keep_to_it() {
    let read = |engine: &str| {
        let text = format!("[routing]\nlayer_per_job = true\nengine = \"{engine}\"\n");
        parse(&text).map_err(|error| error.to_string())
    };
    // On a fabric where several layers are needed, the verdict of the checker is what the table says.
    let fabric = sarouter::observe::fabric::load("torus:5x5,hosts=1").unwrap();
    let group = Group::new(fabric.host_ids().collect());
    let demand = Demand::new(vec![group.clone()], vec![]);
    let budget = LayerBudget::new(8).unwrap();
    for row in ENGINES {
        let options = EngineOptions { layer_per_job: true, ..EngineOptions::default() };
        let tables = sarouter::route::engine(row.name, &options).unwrap().route(&fabric, &demand, budget);
        let Ok(tables) = tables else { continue };
        let layers = layers_of_group(&fabric, &tables, &group);
        assert_eq!(layers.len() <= 1, row.layer_per_job, "{}: {layers:?}", row.name);
        let said = read(row.name);
        assert_eq!(said.is_ok(), row.layer_per_job, "{}: {said:?}", row.name);
        if let Err(message) = said {
            assert!(message.contains(".toml:3: ") && message.contains("balanced, balanced-efi"), "{message}");
        }
    }
}

#[test]
fn a_baseline_is_an_engine_that_knows_no_jobs_or_is_refused_with_its_line() {
    let read = |name: &str| {
        let text = format!("[routing]\nlayers = 4\nbaseline = \"{name}\"\n");
        parse(&text).map(|settings| settings.routing.baseline).map_err(|error| error.to_string())
    };
    assert_eq!(parse("").unwrap().routing.baseline, None);
    for row in ENGINES {
        match read(row.name) {
            Ok(named) => assert_eq!((named.as_deref(), row.serves_jobs), (Some(row.name), false)),
            Err(said) => {
                assert!(row.serves_jobs && said.contains(".toml:3: ") && said.contains("dfsssp"), "{said}")
            }
        }
    }
    for (name, words) in [("dfssp", "did you mean dfsssp?"), ("angara-sssp", "is for direct tori")] {
        let said = read(name).unwrap_err();
        assert!(said.contains("sarouter.toml:3: ") && said.contains(words), "{said}");
    }
}

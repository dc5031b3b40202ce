//! `--rank-order=fabric`: the ranks of a job's steps go to its nodes in the order that was found for them.
//!
//! srun reads an order of its own from the file that `SLURM_HOSTFILE` names. What it has to hold depends on the
//! ranks of the step, so srun's words are read here as srun reads them. A step that says itself where its ranks go,
//! or that is not on all nodes alike, stays as it is.

/// Words of srun that say where ranks go, or of which nothing is known here.
const OWN: [&str; 8] =
    ["distribution", "nodelist", "nodefile", "exclude", "relative", "het-group", "pack-group", "spread-job"];
/// Words that say how many ranks there are, and on how many nodes.
const COUNTS: [&str; 3] = ["ntasks", "ntasks-per-node", "nodes"];
/// Long words that stand alone; all others are followed by a value.
const ALONE: [&str; 35] = [
    "bcast",
    "compress",
    "contiguous",
    "debugger-test",
    "disable-status",
    "exact",
    "exclusive",
    "get-user-env",
    "help",
    "hold",
    "immediate",
    "interactive",
    "kill-on-bad-exit",
    "label",
    "multi-prog",
    "nice",
    "no-allocate",
    "no-kill",
    "overcommit",
    "overlap",
    "oversubscribe",
    "preserve-env",
    "propagate",
    "pty",
    "quiet",
    "quit-on-interrupt",
    "reboot",
    "send-libs",
    "share",
    "test-only",
    "unbuffered",
    "usage",
    "use-min-nodes",
    "verbose",
    "version",
];
/// Letters that stand alone, or have their value right behind them; all others are followed by a value.
const LETTERS: &str = "EHIKOQVXZhklsuv";

/// A line for each rank is held in memory: a slip must not fill that of a login node.
const MOST_RANKS: usize = 1 << 24;

/// What a step says of its size.
#[derive(Debug, Default, PartialEq, Eq)]
struct Size {
    tasks: Option<usize>,
    per_node: Option<usize>,
    nodes: Option<usize>,
}

/// How a step is put in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ordered {
    /// The content of a `SLURM_HOSTFILE`: a line per rank.
    pub hostfile: String,
    /// `SLURM_NTASKS`, where srun would not find out by itself that there are so many: with a file it multiplies no
    /// ranks per node.
    pub tasks: Option<usize>,
    /// Nodes.
    pub nodes: usize,
}

/// Puts the ranks of a step in order. `words` are those of srun, itself first; `nodes` those of the job in order.
///
/// # Errors
/// Why the step stays as it is.
pub fn order(
    words: &[String],
    variable: impl Fn(&str) -> Option<String>,
    nodes: &[String],
) -> Result<Ordered, String> {
    for name in ["SLURM_HOSTFILE", "SLURM_DISTRIBUTION", "SLURM_HET_SIZE"] {
        if variable(name).is_some() {
            return Err(format!("{name} is set"));
        }
    }
    let number = |name: &str| variable(name).and_then(|text| text.parse::<usize>().ok());
    let size = size(words)?;
    let all = nodes.len();
    if size.nodes.is_some_and(|n| n != all) || number("SLURM_JOB_NUM_NODES").is_some_and(|n| n != all) {
        return Err(format!("the order is for {all} nodes, and the step is not"));
    }
    let known = size.tasks.or_else(|| number("SLURM_NTASKS").filter(|_| size.per_node.is_none()));
    let per_node = size.per_node.or_else(|| number("SLURM_NTASKS_PER_NODE")).unwrap_or(1);
    let tasks = known.unwrap_or(per_node.saturating_mul(all));
    if tasks == 0 || tasks % all.max(1) != 0 {
        return Err(format!("{tasks} ranks do not fill {all} nodes alike"));
    }
    if tasks > MOST_RANKS {
        return Err(format!("{tasks} ranks are more than {MOST_RANKS}"));
    }
    let lines = nodes.iter().flat_map(|node| std::iter::repeat_n(format!("{node}\n"), tasks / all));
    Ok(Ordered { hostfile: lines.collect(), tasks: known.is_none().then_some(tasks), nodes: all })
}

/// What srun's words say, up to the program.
fn size(words: &[String]) -> Result<Size, String> {
    let mut size = Size::default();
    let mut rest = words.iter().skip(1);
    if words.iter().any(|word| word == ":") {
        return Err("it has several parts".into());
    }
    while let Some(word) = rest.next() {
        if let Some(long) = word.strip_prefix("--") {
            let (key, value) = long.split_once('=').map_or((long, None), |(k, v)| (k, Some(v.to_string())));
            let is_short = |known: &&str| known.starts_with(key) && !ALONE.contains(&key);
            if key.is_empty() {
                break;
            }
            if OWN.contains(&key) || !COUNTS.contains(&key) && OWN.iter().chain(&COUNTS).any(is_short) {
                return Err(format!("--{key} is given"));
            }
            let value = value.or_else(|| if ALONE.contains(&key) { None } else { rest.next().cloned() });
            match key {
                "ntasks" => size.tasks = Some(count(key, value)?),
                "ntasks-per-node" => size.per_node = Some(count(key, value)?),
                "nodes" => size.nodes = Some(count(key, value)?),
                _ => {}
            }
        } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            short(letters, &mut rest, &mut size)?;
        } else {
            break;
        }
    }
    Ok(size)
}

/// One word of letters: those that stand alone, then one that has a value.
fn short<'a>(
    letters: &str,
    rest: &mut impl Iterator<Item = &'a String>,
    size: &mut Size,
) -> Result<(), String> {
    for (at, letter) in letters.char_indices() {
        if "mwxrF".contains(letter) {
            return Err(format!("-{letter} is given"));
        }
        let behind = &letters[at + letter.len_utf8()..];
        match letter {
            'I' | 'K' => return Ok(()),
            _ if LETTERS.contains(letter) => continue,
            _ => {}
        }
        let value = if behind.is_empty() { rest.next().cloned() } else { Some(behind.to_string()) };
        match letter {
            'n' => size.tasks = Some(count("ntasks", value)?),
            'N' => size.nodes = Some(count("nodes", value)?),
            _ => {}
        }
        return Ok(());
    }
    Ok(())
}

fn count(key: &str, value: Option<String>) -> Result<usize, String> {
    let text = value.unwrap_or_default();
    text.parse().map_err(|_| format!("--{key}={} is no plain number", text.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str, set: &[(&str, &str)]) -> Result<String, String> {
        let words: Vec<String> = line.split(' ').map(String::from).collect();
        let variable = |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, value)| value.to_string());
        let found = order(&words, variable, &["n7", "n2"].map(String::from))?;
        let tasks = found.tasks.map(|n| n.to_string()).unwrap_or_default();
        Ok(found.hostfile.replace('\n', " ") + &tasks)
    }

    #[test]
    fn a_step_on_all_nodes_alike_is_put_in_order() {
        let job = [("SLURM_NTASKS", "4"), ("SLURM_JOB_NUM_NODES", "2")];
        let two = Ok("n7 n7 n2 n2 ".to_string());
        let one = Ok("n7 n2 ".to_string());
        let told = |ranks: &Result<String, String>, tasks: &str| Ok(ranks.clone().unwrap() + tasks);
        assert_eq!(of("srun ./a -m block -n9", &[]), told(&one, "2"));
        assert_eq!(of("srun -l ./a", &job), two);
        assert_eq!(of("srun -ln2 ./a", &job), one);
        assert_eq!(of("srun -l -n 2 -N2 ./a", &job), one);
        assert_eq!(of("srun --ntasks 4 --label --mpi pmix --time=5 ./a --nodelist=x", &[]), two);
        assert_eq!(of("srun --ntasks-per-node=2 -t 5 -o out ./a", &[]), told(&two, "4"));
        assert_eq!(of("srun --ntasks-per-node=2 ./a", &[("SLURM_NTASKS", "2")]), told(&two, "4"));
        assert_eq!(of("srun --nodes=2 --exclusive -K1 -u -c1 -n4 ./a", &[]), two);
        assert_eq!(of("srun -- ./a", &[("SLURM_NTASKS_PER_NODE", "2")]), told(&two, "4"));
    }

    #[test]
    fn a_step_that_says_where_its_ranks_go_stays_as_it_is() {
        for (line, why) in [
            ("srun -m block ./a", "-m is given"),
            ("srun -lmcyclic ./a", "-m is given"),
            ("srun --distribution=plane=2 ./a", "--distribution is given"),
            ("srun --dist block ./a", "--dist is given"),
            ("srun -w n2 ./a", "-w is given"),
            ("srun --mpi none --nodelist n2 ./a", "--nodelist is given"),
            ("srun -x n2 ./a", "-x is given"),
            ("srun --ntask=2 ./a", "--ntask is given"),
            ("srun -r1 ./a", "-r is given"),
            ("srun -N1 ./a", "for 2 nodes"),
            ("srun -N1-2 ./a", "plain number"),
            ("srun -n3 ./a", "3 ranks"),
            ("srun -n1 ./a", "1 ranks"),
            ("srun -n0 ./a", "0 ranks"),
            ("srun -n2000000000 ./a", "more than 16777216"),
            ("srun --ntasks-per-node=18446744073709551614 ./a", "ranks"),
            ("srun -n2 ./a : -n2 ./b", "several parts"),
        ] {
            assert!(of(line, &[]).is_err_and(|said| said.contains(why)), "{line}: {:?}", of(line, &[]));
        }
        for set in [("SLURM_HOSTFILE", "/x"), ("SLURM_DISTRIBUTION", "block"), ("SLURM_HET_SIZE", "2")] {
            assert!(of("srun ./a", &[set]).is_err_and(|said| said == format!("{} is set", set.0)));
        }
        assert!(of("srun ./a", &[("SLURM_JOB_NUM_NODES", "3")]).is_err());
    }
}

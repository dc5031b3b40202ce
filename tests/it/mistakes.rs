//! What an administrator reads after a mistake. The files in `tests/data/mistakes` have for each mistake the files
//! it needs, what is typed, and what the program answers; `SAROUTER_GOLDEN=write` writes the answers anew.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::program;

/// Mistakes that issue their messages here: fewer would mean that a file is not read.
const LEAST: usize = 45;
/// A mistake is noticed before anything long begins, on a slow machine too.
const LIMIT: Duration = Duration::from_secs(60);

/// One mistake.
struct Mistake {
    title: String,
    /// Name and content.
    files: Vec<(String, String)>,
    /// As typed, without the `$`.
    typed: String,
    /// The lines below it.
    answer: String,
}

/// The mistakes of a file, and what stands before the first one.
fn read(path: &Path) -> (String, Vec<Mistake>) {
    let text = std::fs::read_to_string(path).unwrap();
    let mut blocks = text.split("\n## ");
    let head = blocks.next().unwrap().to_string();
    let mistake = |block: &str| {
        let (title, rest) = block.split_once('\n').unwrap();
        let mut mistake =
            Mistake { title: title.into(), files: vec![], typed: String::new(), answer: String::new() };
        for line in rest.lines() {
            match line.strip_prefix("$ ") {
                Some(typed) => mistake.typed = typed.to_string(),
                None if !mistake.typed.is_empty() => mistake.answer += &format!("{line}\n"),
                None if line.is_empty() => {
                    if let Some(file) = mistake.files.last_mut() {
                        file.1.push('\n');
                    }
                }
                None => match (line.strip_prefix("    "), mistake.files.last_mut()) {
                    (Some(line), Some(file)) => file.1 += &format!("{line}\n"),
                    _ => mistake.files.push((line.trim_end_matches(':').to_string(), String::new())),
                },
            }
        }
        mistake
    };
    (head, blocks.map(mistake).collect())
}

/// What a site has: a fabric, tables, a state directory with an epoch, files that are damaged.
fn site(dir: &Path) {
    let run = |typed: &str| {
        let output = sarouter(dir, &words(typed));
        assert_eq!(output.status.code(), Some(0), "{typed}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let write = |name: &str, content: &[u8]| {
        std::fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
        std::fs::write(dir.join(name), content).unwrap();
    };
    run("sarouter fabric generate fattree:4x4,2 --out site.net");
    run("sarouter route --fabric site.net --engine dfsssp --layers 4 --out tables");
    write("sarouter.bin", &[0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0xff, 0xfe, 0, 0].repeat(40));
    let whole = std::fs::read(dir.join("site.net")).unwrap();
    write("cut.net", &whole[..whole.len() / 2]);
    let lft = std::fs::read_to_string(dir.join("tables/lft.txt")).unwrap();
    let mut lines: Vec<&str> = lft.lines().collect();
    lines[4] = "0x0002 xyz : (garbage)";
    write("broken.lft", (lines.join("\n") + "\n").as_bytes());
    write("spool/jobs", b"1 n[1,5,9]\n");
    write(
        "site.toml",
        b"[state]\ndirectory = \"state\"\n[fabric]\nsource = \"site.net\"\n[slurm]\nsource = \"spool\"\n\
          min_job_age_seconds = 0\n[spool]\ndirectory = \"spool\"\n[routing]\nengine = \"dfsssp\"\n\
          [opensm]\nwatch = false\n",
    );
    run("sarouter tick --config site.toml");
    for entry in std::fs::read_dir(dir.join("state/epochs/000001")).unwrap().flatten() {
        let content = std::fs::read(entry.path()).unwrap();
        let cut = if entry.file_name() == "plan.json" { content.len() / 2 } else { content.len() };
        write(&format!("damaged/epochs/000001/{}", entry.file_name().to_string_lossy()), &content[..cut]);
    }
}

/// Words as a shell splits them, without its variables.
fn words(typed: &str) -> Vec<String> {
    let (mut words, mut quoted, mut word) = (Vec::new(), false, None::<String>);
    for c in typed.chars() {
        match c {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Runs the program, which must end in time.
fn sarouter(dir: &Path, words: &[String]) -> Output {
    let mut command = program::command(dir, &words[1..]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("{words:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// The answer as the files have it: exit code, and what was printed, indented. What a command that could do
/// something printed is not the message.
fn answer(output: &Output, dir: &Path) -> String {
    let code = output.status.code().expect("it ends by itself");
    let stdout = if code == 0 { "" } else { &String::from_utf8_lossy(&output.stdout) };
    let text = format!("{stdout}{}", String::from_utf8_lossy(&output.stderr));
    let text = text.replace(&format!("{}/", dir.canonicalize().unwrap().display()), "");
    let mut out = format!("exit {code}\n");
    text.trim_end().lines().for_each(|line| {
        let _ = writeln!(out, "{}", format!("    {line}").trim_end());
    });
    out
}

/// What no message may have: names of the program's own types, of the system's calls, of libraries.
fn is_plain(mistake: &Mistake, output: &Output) {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    for word in
        ["panicked", "Some(", "None)", "Err(", "os error", "SUN_LEN", "UTF-8", "`Result", "u64", "f64"]
    {
        assert!(!text.contains(word), "{}: {word}: {text}", mistake.title);
    }
    assert_ne!(output.status.code(), Some(101), "{}", mistake.title);
}

/// The same under `--format json`: one object on standard output, with the message.
fn is_json_too(mistake: &Mistake, dir: &Path, typed: &[String]) {
    if typed.iter().any(|word| word == "--format" || word == "serve" || word == "tick") {
        return;
    }
    let output = sarouter(dir, &[typed, &["--format".into(), "json".into()]].concat());
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let what = format!("{}: {stdout}{}", mistake.title, String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(2) {
        let said: serde_json::Value = serde_json::from_str(&stdout).unwrap_or_else(|e| panic!("{e}: {what}"));
        let message = said["error"].as_str().unwrap_or_else(|| panic!("{what}"));
        assert!(!message.is_empty() && !message.contains('\n'), "{what}");
    } else if !stdout.is_empty() {
        let mut values = serde_json::Deserializer::from_str(&stdout).into_iter::<serde_json::Value>();
        assert!(values.all(|value| value.is_ok()), "{what}");
    }
}

#[test]
fn each_mistake_gets_the_message_in_its_file() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/mistakes");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let writes = std::env::var_os("SAROUTER_GOLDEN").is_some_and(|word| word == "write");
    let template = tempfile::tempdir().unwrap();
    site(template.path());
    let mut count = 0;
    for path in paths {
        let (mut text, mistakes) = read(&path);
        for mistake in &mistakes {
            let dir = tempfile::tempdir().unwrap();
            let copied = Command::new("cp").arg("-a").arg(template.path().join(".")).arg(dir.path()).status();
            assert!(copied.unwrap().success());
            let _ = write!(text, "\n## {}\n", mistake.title);
            for (name, content) in &mistake.files {
                std::fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
                std::fs::write(dir.path().join(name), content).unwrap();
                let _ = writeln!(text, "{name}:");
                content.lines().for_each(|line| {
                    let _ = writeln!(text, "{}", format!("    {line}").trim_end());
                });
            }
            let typed = words(&mistake.typed);
            let output = sarouter(dir.path(), &typed);
            is_plain(mistake, &output);
            let answer = answer(&output, dir.path());
            if !writes {
                assert_eq!(
                    answer.trim_end(),
                    mistake.answer.trim_end(),
                    "{}: {}: SAROUTER_GOLDEN=write writes it anew",
                    path.display(),
                    mistake.title
                );
            }
            is_json_too(mistake, dir.path(), &typed);
            let _ = write!(text, "$ {}\n{answer}", mistake.typed);
            count += 1;
        }
        if writes {
            std::fs::write(&path, text).unwrap();
        }
    }
    assert!(count >= LEAST, "{count}");
}

//! `sarouter man`: the manual pages, made from the same words as `--help`.

use std::path::PathBuf;

use clap::CommandFactory as _;

use super::common::{print, write_file};
use super::{Answer, Cli, Context, Failure};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: sarouter man | man -l -")]
pub struct Args {
    /// Directory that gets sarouter.1 and a page for each command [default: print sarouter.1]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub fn run(args: Args, _context: &Context) -> Result<Answer, Failure> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    match args.out {
        Some(out) => {
            std::fs::create_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
            for (name, page) in pages(&command)? {
                write_file(&out.join(name), &page)?;
            }
        }
        None => print(String::from_utf8(page(&command)?)?.trim_end())?,
    }
    Ok(Answer::Yes)
}

/// File name and content of the page of a command and of all below it.
fn pages(command: &clap::Command) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let mut all = vec![(clap_mangen::Man::new(command.clone()).get_filename(), page(command)?)];
    for below in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        all.extend(pages(below)?);
    }
    Ok(all)
}

/// One page. No date: the same program makes the same bytes.
fn page(command: &clap::Command) -> Result<Vec<u8>, Failure> {
    let source = concat!("sarouter ", env!("CARGO_PKG_VERSION"));
    let man = clap_mangen::Man::new(command.clone()).source(source).manual("sarouter");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(words) = command.get_after_help() {
        page.extend_from_slice(notes(&words.to_string()).as_bytes());
    }
    page.extend_from_slice(EXIT_STATUS.as_bytes());
    let whole = command.get_name() == "sarouter";
    page.extend_from_slice(if whole { WHOLE } else { SEE_ALSO }.as_bytes());
    Ok(page)
}

/// What `--help` says after the options. Examples are commands: their lines must not be filled.
fn notes(words: &str) -> String {
    let escaped: Vec<String> = words.lines().map(roff).collect();
    format!(".SH NOTES\n.nf\n{}\n.fi\n", escaped.join("\n"))
}

/// A line of text as roff.
fn roff(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if line.starts_with(['.', '\\']) { format!("\\&{line}") } else { line }
}

const EXIT_STATUS: &str = ".SH \"EXIT STATUS\"
0: yes. 1: the answer is no (rejected, would change, not healthy). 2: failed; standard error says why.
";

const SEE_ALSO: &str = ".SH \"SEE ALSO\"
.BR sarouter (1)
";

/// The end of sarouter.1.
const WHOLE: &str = ".SH ENVIRONMENT
.TP
.B SAROUTER_LOG
Which messages go to standard error, as for
.BR \\-v ,
by module: sarouter=debug.
.TP
.B SLURM_CONF
Passed on to Slurm\\(aqs commands.
.SH FILES
.TP
.I /etc/sarouter/sarouter.toml
Settings. Every key is explained there.
.TP
.I /var/lib/sarouter
The state directory: epochs/, current, history.db, health.json.
.TP
.I /usr/share/doc/sarouter
README.md, the hand\\-off to OpenSM byte for byte, examples.
.SH \"SEE ALSO\"
.BR opensm (8),
.BR squeue (1),
.BR slurm.conf (5)
";

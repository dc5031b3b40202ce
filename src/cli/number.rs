//! Numbers that options take: what makes no sense is refused where it is typed.

/// More than these only wait for each other, and take minutes to be made.
const MOST_THREADS: usize = 512;

/// A number above 0. `nan` and `inf`, which Rust reads too, are none.
pub fn above_zero(text: &str) -> Result<f64, String> {
    real(text, |n| n > 0.0, "must be above 0")
}

/// A number of at least 0.
pub fn from_zero(text: &str) -> Result<f64, String> {
    real(text, |n| n >= 0.0, "must be 0 or above")
}

/// A share of a whole.
pub fn share(text: &str) -> Result<f64, String> {
    real(text, |n| (0.0..=1.0).contains(&n), "must be from 0 to 1")
}

/// A share of a whole that is not nothing.
pub fn some_share(text: &str) -> Result<f64, String> {
    real(text, |n| n > 0.0 && n <= 1.0, "must be above 0 and at most 1")
}

fn real(text: &str, fits: impl Fn(f64) -> bool, must: &str) -> Result<f64, String> {
    text.parse().ok().filter(|n: &f64| n.is_finite() && fits(*n)).ok_or_else(|| must.to_string())
}

/// A number of hosts of which some exchange with others.
pub fn several(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 1).ok_or_else(|| "must be 2 or more".to_string())
}

/// A number of threads; 0 stands for all processors.
pub fn threads(text: &str) -> Result<usize, String> {
    let must = || format!("must be a number of at most {MOST_THREADS}");
    text.parse().ok().filter(|n| *n <= MOST_THREADS).ok_or_else(must)
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;
    use clap::{Command, CommandFactory as _};

    /// Options that take a number with a fraction, or threads, below a command.
    fn options(command: &Command, path: &[String], found: &mut Vec<(Vec<String>, bool)>) {
        for arg in command.get_arguments() {
            let Some(name) = arg.get_long() else { continue };
            let is_real = arg.get_value_parser().type_id() == std::any::TypeId::of::<f64>();
            if is_real || name == "threads" {
                found.push(([path, &[format!("--{name}")]].concat(), is_real));
            }
        }
        for below in command.get_subcommands() {
            options(below, &[path, &[below.get_name().to_string()]].concat(), found);
        }
    }

    #[test]
    fn no_option_takes_what_is_no_number() {
        let mut found = Vec::new();
        options(&crate::cli::Cli::command(), &["sarouter".to_string()], &mut found);
        // The prolog's deadline is judged later: a slip there must not hold a job.
        found.retain(|(words, _)| words[1] != "prolog");
        assert!(found.len() > 10, "{found:?}");
        for (words, is_real) in found {
            for bad in if is_real { vec!["nan", "inf", "-1", "1e999", "x"] } else { vec!["99999", "-1"] } {
                let typed = format!("{}={bad}", words.join(" "));
                let refused = crate::cli::Cli::command().try_get_matches_from(typed.split(' ')).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::ValueValidation, "{typed}: {refused}");
            }
        }
    }
}

//! What a job says of its traffic in the comment of its submission: `sarouter:pattern=ring`.

use super::pattern::MixError;
use super::{Mix, did_you_mean, nearest};

/// What all hints begin with, in comments of jobs that say other things too.
const TAG: &str = "sarouter:";
/// Longest hint, and most patterns in one.
const MOST_BYTES: usize = 128;
const MOST_PATTERNS: usize = 8;
/// What a hint may say; the last two are for placement.
const WORDS: [&str; 3] = ["pattern", "prefer", "require"];

/// A hint that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HintError {
    /// No hint is called so.
    #[error("sarouter: there is no hint {word:?}{}", did_you_mean(*meant))]
    Unknown {
        /// As written.
        word: String,
        /// The nearest.
        meant: Option<&'static str>,
    },
    /// A hint with something that it does not take, or without what it does.
    #[error("sarouter: there is no hint {0:?}: expected pattern=PATTERN, prefer or require")]
    Form(String),
    /// What it exchanges is not understood.
    #[error("sarouter: {0}")]
    Mix(#[from] MixError),
    /// More than one hint needs.
    #[error(
        "sarouter: a hint has at most {MOST_BYTES} bytes and {MOST_PATTERNS} patterns, and says its pattern once"
    )]
    TooMuch,
}

/// What a comment says that the job exchanges, if it says something; comments of other kinds say nothing.
/// O(length).
///
/// # Errors
/// [`HintError`] with the word that was probably meant.
///
/// ```
/// use sarouter_core::model::{Pattern, hint};
/// assert_eq!(hint("night run; sarouter:pattern=ring"), Ok(Some(Pattern::Ring.into())));
/// assert_eq!(hint("night run"), Ok(None));
/// let wrong = hint("sarouter:patern=ring").unwrap_err();
/// assert_eq!(wrong.to_string(), "sarouter: there is no hint \"patern\"; did you mean pattern?");
/// ```
pub fn hint(comment: &str) -> Result<Option<Mix>, HintError> {
    let words = comment.split(|c: char| c.is_whitespace() || c == ';');
    let mut found = None;
    for hints in words.filter_map(|word| word.strip_prefix(TAG)) {
        if hints.len() > MOST_BYTES {
            return Err(HintError::TooMuch);
        }
        for hint in hints.split(',') {
            match hint.split_once('=') {
                Some(("pattern", text)) => {
                    if found.replace(pattern_hint(text)?).is_some() {
                        return Err(HintError::TooMuch);
                    }
                }
                None if WORDS[1..].contains(&hint) => {}
                _ => {
                    let word = hint.split('=').next().unwrap_or(hint);
                    if WORDS.contains(&word) {
                        return Err(HintError::Form(hint.to_string()));
                    }
                    return Err(HintError::Unknown { word: word.to_string(), meant: nearest(word, WORDS) });
                }
            }
        }
    }
    Ok(found)
}

/// What a job says alone that it exchanges, as after `pattern=` in a comment. O(length).
///
/// # Errors
/// [`HintError`] with the pattern that was probably meant.
pub fn pattern_hint(text: &str) -> Result<Mix, HintError> {
    if text.len() > MOST_BYTES {
        return Err(HintError::TooMuch);
    }
    let mix: Mix = text.parse()?;
    if mix.parts().len() > MOST_PATTERNS { Err(HintError::TooMuch) } else { Ok(mix) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_stand_among_other_words() {
        let mix = |text: &str| Ok(Some(text.parse::<Mix>().unwrap()));
        assert_eq!(hint("sarouter:pattern=halo:4x4x2"), mix("halo:4x4x2"));
        assert_eq!(hint("a;sarouter:prefer,pattern=3*ring+alltoall b"), mix("3*ring+alltoall"));
        assert_eq!(hint("sarouter:pattern=default"), mix("default"));
        for nothing in
            ["", "pattern=ring", "sarouter", "routing=require", "sarouter:prefer", "x-sarouter:pattern=ring"]
        {
            assert_eq!(hint(nothing), Ok(None), "{nothing}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_what_was_meant() {
        let long = format!("sarouter:pattern={}ring", "ring+".repeat(30));
        for (wrong, want) in [
            ("sarouter:", "there is no hint \"\""),
            ("sarouter:pattern", "\"pattern\": expected pattern=PATTERN"),
            ("sarouter:patern=ring", "did you mean pattern?"),
            ("sarouter:Pattern=ring", "did you mean pattern?"),
            ("sarouter:prefre", "did you mean prefer?"),
            ("sarouter:prefer=1", "\"prefer=1\": expected pattern=PATTERN"),
            ("sarouter:weight=9", "there is no hint \"weight\""),
            ("sarouter:pattern=rings", "did you mean ring?"),
            ("sarouter:pattern=allotall", "did you mean alltoall?"),
            ("sarouter:pattern=", "there is no pattern \"\""),
            ("sarouter:pattern=halo", "halo2d, halo3d"),
            ("sarouter:pattern=halo:4", "halo:AxB"),
            ("sarouter:pattern=halo:4x4x4x4", "halo:AxB"),
            ("sarouter:pattern=groups:0", "groups:G"),
            ("sarouter:pattern=0*ring", "\"0\" is no weight"),
            ("sarouter:pattern=70000*ring", "is no weight"),
            ("sarouter:pattern=ring+", "there is no pattern \"\""),
            ("sarouter:pattern=ring,pattern=ring", "says its pattern once"),
            ("sarouter:pattern=ring sarouter:pattern=linear", "says its pattern once"),
            (&long, "at most 128 bytes"),
        ] {
            let error = hint(wrong).expect_err(wrong).to_string();
            assert!(error.starts_with("sarouter: ") && error.contains(want), "{wrong}: {error}");
        }
    }
}

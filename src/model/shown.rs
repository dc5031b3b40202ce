//! Text from outside (node descriptions, what commands and Slurm say) as it may be shown anywhere.

use std::borrow::Cow;

/// Replaces what a terminal or a browser would obey instead of show: control characters, and marks
/// that turn the direction of text or have no width. They become `\u{1b}` and the like; all other text
/// stays as it is. Doing it twice changes nothing. Markup and quotation marks are left to whoever
/// writes HTML, CSV or JSON. O(length).
///
/// ```
/// use sarouter_core::model::shown;
/// assert_eq!(shown("sw\u{1b}[2J 1"), r"sw\u{1b}[2J 1");
/// assert_eq!(shown("Schalter 1 äöü"), "Schalter 1 äöü");
/// ```
pub fn shown(text: &str) -> Cow<'_, str> {
    escaped(text, is_obeyed)
}

/// The same for a text of several lines: ends of lines and tabulators stay.
pub fn shown_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c != '\n' && c != '\t' && is_obeyed(c))
}

fn escaped(text: &str, obeyed: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&obeyed) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match obeyed(c) {
            true => safe.extend(c.escape_unicode()),
            false => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{180e}' | '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nothing_that_is_obeyed_is_left_and_the_rest_is_there(text in "\\PC{0,8}[\\x00-\\x9f\u{202e}\u{200b}]{0,8}\\PC{0,8}") {
            let safe = shown(&text);
            prop_assert!(!safe.contains(is_obeyed));
            prop_assert_eq!(shown(&safe), safe.clone());
            let kept: String = text.chars().filter(|c| !is_obeyed(*c)).collect();
            prop_assert!(safe.len() >= kept.len());
            prop_assert_eq!(shown(&kept), kept.as_str());
        }
    }

    #[test]
    fn lines_stay_lines() {
        assert_eq!(shown_lines("a\tb\n\u{9b}31m\r"), "a\tb\n\\u{9b}31m\\u{d}");
        assert_eq!(shown("a\nb"), "a\\u{a}b");
    }
}

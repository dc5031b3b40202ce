//! What libraries and the system say of a mistake, in words for who made it.

use super::{did_you_mean, nearest};

/// What numbers' parsers say, wherever it stands in a text, and what is meant.
const PHRASES: &[(&str, &str)] = &[
    ("invalid digit found in string", "not a whole number"),
    ("cannot parse integer from empty string", "a number is missing"),
    ("cannot parse float from empty string", "a number is missing"),
    ("number too large to fit in target type", "the number is too large"),
    ("number too small to fit in target type", "the number is too small"),
    ("number would be zero for non-zero type", "it must be 1 or more"),
    ("invalid float literal", "not a number"),
    ("stream did not contain valid UTF-8", "this is not a text file"),
    ("Is a directory", "this is a directory, and a file is wanted"),
    ("Not a directory", "a file is where a directory is wanted"),
    ("path must be shorter than SUN_LEN", "the path of a socket may have 107 bytes, and this one has more"),
];

/// A whole message as the administrator sees it: without the numbers of the system's errors, and with the
/// words of this program where a library's say nothing to a stranger.
pub fn plain_chain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(" (os error ") {
        out.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    out.push_str(rest);
    PHRASES.iter().fold(out, |text, (said, meant)| text.replace(said, meant))
}

/// What a reader of TOML or JSON refuses. Of an unknown name the one that was probably meant, or all that there
/// are; of a wrong type what was found and what is wanted. The place is said elsewhere.
///
/// Other messages stay as they are.
pub fn plain(message: &str) -> String {
    let message = message.rsplit_once(" at line ").map_or(message, |(before, _)| before);
    let unknown = |start: &str| message.strip_prefix(start).and_then(|rest| rest.split_once('`'));
    if let Some((name, known)) = unknown("unknown field `") {
        return format!("there is no key {name:?} here{}", instead(name, known, "keys are"));
    }
    if let Some((name, known)) = unknown("unknown variant `") {
        return format!("{name:?} is not known here{}", instead(name, known, "known are"));
    }
    if let Some((name, _)) = unknown("missing field `") {
        return format!("the key {name:?} is missing");
    }
    let refused = |start: &str| message.strip_prefix(start).and_then(|rest| rest.rsplit_once(", expected "));
    if let Some((found, wanted)) = refused("invalid type: ") {
        return format!("{} is found where {} is wanted", found_type(found), wanted_type(wanted));
    }
    if let Some((found, wanted)) = refused("invalid value: ") {
        return format!("{} is found where {} is wanted", found_type(found), wanted_range(wanted));
    }
    if message.starts_with("EOF while parsing") {
        return "the text ends too soon; is the file whole?".to_string();
    }
    if message == "expected value" {
        return "this is no JSON".to_string();
    }
    plain_chain(message)
}

/// The name that was meant, or all of them: in quotation marks behind `, expected one of`.
fn instead(name: &str, known: &str, are: &str) -> String {
    let names: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    match nearest(name, names.iter().copied()) {
        None if names.is_empty() => String::new(),
        None => format!("; {are} {}", names.join(", ")),
        near => did_you_mean(near),
    }
}

fn found_type(found: &str) -> String {
    let (kind, value) = found.split_once(' ').unwrap_or((found, ""));
    match kind {
        "string" => format!("the text {value}"),
        "integer" | "boolean" | "floating" => value.split('`').nth(1).unwrap_or(value).to_string(),
        "sequence" => "a list".to_string(),
        "map" => "a table of keys".to_string(),
        "null" | "unit" => "nothing".to_string(),
        _ => found.to_string(),
    }
}

fn wanted_type(wanted: &str) -> String {
    match wanted {
        "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" => "a whole number".to_string(),
        "f32" | "f64" => "a number".to_string(),
        "a string" | "string or map" | "path string" => "a text".to_string(),
        "a boolean" => "true or false".to_string(),
        "a sequence" => "a list".to_string(),
        "a map" => "a table of keys".to_string(),
        other if other.starts_with("struct ") => "a table of keys".to_string(),
        other => other.to_string(),
    }
}

fn wanted_range(wanted: &str) -> String {
    match wanted {
        "u8" => format!("a whole number from 0 to {}", u8::MAX),
        "u16" => format!("a whole number from 0 to {}", u16::MAX),
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        "u64" | "usize" => "a whole number from 0 on".to_string(),
        other => wanted_type(other),
    }
}

#[cfg(test)]
mod tests {
    use super::{plain, plain_chain};

    #[test]
    fn names_types_and_ends_are_said_in_words() {
        for (said, meant) in [
            (
                "unknown field `layer`, expected one of `engine`, `layers`",
                "there is no key \"layer\" here; did you mean layers?",
            ),
            (
                "unknown field `x`, expected `engine` or `layers`",
                "there is no key \"x\" here; keys are engine, layers",
            ),
            ("unknown field `x`, there are no fields", "there is no key \"x\" here"),
            (
                "unknown variant `sqeue`, expected one of `squeue`, `spool`",
                "\"sqeue\" is not known here; did you mean squeue?",
            ),
            ("missing field `jobs` at line 1 column 8", "the key \"jobs\" is missing"),
            (
                "invalid type: string \"8\", expected u64",
                "the text \"8\" is found where a whole number is wanted",
            ),
            ("invalid type: integer `8`, expected a string", "8 is found where a text is wanted"),
            (
                "invalid type: floating point `0.5`, expected u8",
                "0.5 is found where a whole number is wanted",
            ),
            (
                "invalid type: integer `99999999999999999999` as i128, expected u64",
                "99999999999999999999 is found where a whole number is wanted",
            ),
            (
                "invalid value: integer `-1`, expected u64",
                "-1 is found where a whole number from 0 on is wanted",
            ),
            (
                "invalid value: integer `300`, expected u8 at line 1 column 9",
                "300 is found where a whole number from 0 to 255 is wanted",
            ),
            ("EOF while parsing a list at line 2 column 0", "the text ends too soon; is the file whole?"),
            ("layer budget \"16\" is not valid", "layer budget \"16\" is not valid"),
        ] {
            assert_eq!(plain(said), meant);
        }
    }

    #[test]
    fn the_systems_numbers_are_left_out() {
        let said = "a: No such file or directory (os error 2); b: Is a directory (os error 21)";
        assert_eq!(
            plain_chain(said),
            "a: No such file or directory; b: this is a directory, and a file is wanted"
        );
        let said = "0".parse::<std::num::NonZeroU32>().unwrap_err().to_string();
        assert_eq!(plain_chain(&said), "it must be 1 or more");
    }
}

//! What `--traffic=` may say: the patterns of `sarouter patterns`, alone or in a sum such as `7*alltoall+3*ring`.
//!
//! It is checked where the job is submitted, where nothing of sarouter but this plugin has to be. It knows of
//! nothing outside this file: a test of sarouter includes it and holds it against the service's own words.

/// Plain patterns, and the mix of who says nothing.
pub const WORDS: [&str; 15] = [
    "linear",
    "shift",
    "alltoall",
    "random",
    "neighbor",
    "ring",
    "double-tree",
    "doubling",
    "halving",
    "bruck",
    "binomial",
    "halo2d",
    "halo3d",
    "permutations",
    "default",
];

/// Most bytes, and most patterns in a sum: as in a comment.
const MOST_BYTES: usize = 120;
const MOST_PATTERNS: usize = 8;

/// Whether the service understands it. O(length²) with at most [`MOST_BYTES`] bytes.
///
/// # Errors
/// What is wrong, with the word that was probably meant.
pub fn check(text: &str) -> Result<(), String> {
    if text.len() > MOST_BYTES || text.split('+').count() > MOST_PATTERNS {
        return Err(format!("at most {MOST_BYTES} bytes and {MOST_PATTERNS} patterns"));
    }
    let text = match text.rsplit_once('@') {
        Some((text, "same" | "all")) => text,
        Some((_, rails)) => return Err(format!("@{rails}: expected @same or @all (rails)")),
        None => text,
    };
    if text == "default" {
        return Ok(());
    }
    if text.contains(|c: char| c.is_whitespace() || c == ',' || c == ';') {
        return Err("one pattern, or several joined by +, without spaces, commas and semicolons".into());
    }
    text.split('+').try_for_each(|part| {
        let (weight, pattern) = part.split_once('*').unwrap_or(("1", part));
        match weight.parse::<u16>() {
            Ok(1..) => pattern_of(pattern),
            _ => Err(format!("{weight:?} is no weight: 1 to 65535")),
        }
    })
}

fn pattern_of(text: &str) -> Result<(), String> {
    let wrong = |form: &str| Err(format!("pattern {text:?}: expected {form}"));
    match text.split_once(':') {
        Some(("halo", sides)) => {
            let known = sides.split('x').all(|side| side.parse::<u16>().is_ok());
            match sides.split('x').count() {
                2 | 3 if known => Ok(()),
                _ => wrong("halo:AxB or halo:AxBxC"),
            }
        }
        Some(("groups" | "rail-alltoall" | "hierarchical", size))
            if size.parse::<u32>().is_ok_and(|size| size > 0) =>
        {
            Ok(())
        }
        Some(("groups", _)) => wrong("groups:G, G from 1"),
        Some(("rail-alltoall", _)) => wrong("rail-alltoall:G, G from 1"),
        Some(("hierarchical", _)) => wrong("hierarchical:G, G from 1"),
        // The default is a mix already, and no part of one.
        _ if WORDS.contains(&text) && text != "default" => Ok(()),
        _ => match text {
            "halo" => wrong("halo2d, halo3d, halo:AxB or halo:AxBxC"),
            "groups" => wrong("groups:G, G from 1"),
            "rail-alltoall" => wrong("rail-alltoall:G, G from 1"),
            "hierarchical" => wrong("hierarchical:G, G from 1"),
            _ => {
                let known = WORDS.iter().copied().filter(|word| *word != "default");
                let near = nearest(text, known).map(|near| format!("; did you mean {near}?"));
                Err(format!("there is no pattern {text:?}{}", near.unwrap_or_default()))
            }
        },
    }
}

/// The word that was probably meant: at most a third of the letters differ, or two.
fn nearest<'a>(text: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = (text.chars().count() / 3).max(2);
    let far = words.map(|word| (distance(text, word), word));
    far.filter(|(far, word)| *far <= most && *far < word.len()).min_by_key(|(far, _)| *far).map(|(_, w)| w)
}

/// Letters to change, leave out, put in, or swap with the next (Damerau and Levenshtein, each letter once).
fn distance(one: &str, other: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let above = &rows[i - 1];
            let changed = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = changed.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_meant_is_said() {
        for good in [
            "ring",
            "default",
            "halo:4x4x2",
            "3*ring+alltoall",
            "groups:8",
            "65535*shift",
            "ring@same",
            "rail-alltoall:8",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (wrong, want) in [
            ("rings", "did you mean ring?"),
            ("allotall", "did you mean alltoall?"),
            ("altoall", "did you mean alltoall?"),
            ("", "there is no pattern \"\""),
            ("ring@some", "@some: expected @same or @all"),
            ("ring+", "there is no pattern \"\""),
            ("ring+default", "there is no pattern \"default\""),
            ("halo:4", "halo:AxB"),
            ("groups", "groups:G"),
            ("0*ring", "\"0\" is no weight"),
            ("ring, shift", "joined by +"),
            (&"ring+".repeat(9), "at most"),
        ] {
            assert!(check(wrong).is_err_and(|why| why.contains(want)), "{wrong}: {:?}", check(wrong));
        }
    }
}

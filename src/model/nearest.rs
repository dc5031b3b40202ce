//! The name that was probably meant.

/// What a message of an unknown name ends with: the one that was probably meant.
pub fn did_you_mean(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean {near}?")).unwrap_or_default()
}

/// The candidate with the least edit distance (Damerau and Levenshtein) from `name`, the first of
/// equals; else the first that begins with three fourths of it, four letters at least. `None` if none is within a
/// third of its length, 2 at least.
/// O(candidates × their length × length).
///
/// ```
/// use sarouter_core::model::nearest;
/// assert_eq!(nearest("balnaced", ["dfsssp", "balanced"]), Some("balanced"));
/// assert_eq!(nearest("route", ["state", "routing"]), Some("routing"));
/// assert_eq!(nearest("x", ["dfsssp", "balanced"]), None);
/// ```
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (name.chars().count() / 3).max(2);
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let far = candidates.iter().map(|c| (strsim::damerau_levenshtein(name, c), *c));
    let near = far.filter(|(d, c)| *d <= most && *d < c.chars().count()).min_by_key(|(d, _)| *d);
    let beginning = (name.chars().count() * 3).div_ceil(4).max(4);
    let starts = |c: &&str| c.chars().zip(name.chars()).take_while(|(a, b)| a == b).count() >= beginning;
    near.map(|(_, c)| c).or_else(|| candidates.iter().copied().find(starts))
}

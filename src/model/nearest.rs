//! The name that was probably meant.

/// What a message of an unknown name ends with: the one that was probably meant.
pub(crate) fn did_you_mean(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean {near}?")).unwrap_or_default()
}

/// The candidate with the least edit distance (Damerau and Levenshtein) from `name`, the first of
/// equals; `None` if none is within a third of its length, 2 at least.
/// O(candidates × their length × length).
///
/// ```
/// use sarouter::model::nearest;
/// assert_eq!(nearest("balnaced", ["dfsssp", "balanced"]), Some("balanced"));
/// assert_eq!(nearest("x", ["dfsssp", "balanced"]), None);
/// ```
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (name.chars().count() / 3).max(2);
    let far = candidates.into_iter().map(|c| (strsim::damerau_levenshtein(name, c), c));
    far.filter(|(d, c)| *d <= most && *d < c.chars().count()).min_by_key(|(d, _)| *d).map(|(_, c)| c)
}

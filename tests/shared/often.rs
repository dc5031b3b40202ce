//! What takes minutes is tried less often by `scripts/test`.

/// How often something is tried: by `scripts/test` the second. The results' figures are of the whole.
pub fn often(whole: usize, short: usize) -> usize {
    if std::env::var_os("SAROUTER_SHORT").is_some() { short } else { whole }
}

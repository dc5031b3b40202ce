//! Which section has which key.

/// The settings that packages install: all keys, by section.
const ALL_KEYS: &str = include_str!("../../../config/sarouter.toml");

/// The section that has the key of an error message, if the one it stands in has not.
pub(super) fn section_of(message: &str) -> Option<&'static str> {
    let key = message.strip_prefix("unknown field `")?.split('`').next()?;
    let mut section = "";
    for line in ALL_KEYS.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            section = name;
        } else if line.trim_start_matches('#').split_once(" = ").is_some_and(|(name, _)| name == key) {
            return Some(section);
        }
    }
    None
}

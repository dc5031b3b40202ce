//! The time zone of this machine, for readers who are elsewhere.

use std::path::Path;

use chrono::Local;
use schemars::JsonSchema;
use serde::Serialize;

/// Where the names of time zones are files.
const ZONES: &str = "/usr/share/zoneinfo";

/// A time zone.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Zone {
    /// Its name in the tz database, `Europe/Berlin`, if the machine says it.
    pub name: Option<String>,
    /// Seconds that its clocks are ahead of UTC at present.
    pub offset_seconds: i32,
}

impl Zone {
    /// That of this machine and process.
    pub fn here() -> Self {
        let variable = std::env::var("TZ").ok();
        let link = std::fs::read_link("/etc/localtime").ok();
        let is_known = |name: &str| Path::new(ZONES).join(name).is_file();
        Self {
            name: name(variable.as_deref(), link.as_deref(), is_known),
            offset_seconds: Local::now().offset().local_minus_utc(),
        }
    }
}

/// The name that `TZ` says, or else the file that `/etc/localtime` is.
fn name(variable: Option<&str>, link: Option<&Path>, is_known: impl Fn(&str) -> bool) -> Option<String> {
    let said = match variable {
        // As the C library has it.
        Some("") => "UTC",
        Some(said) => said.strip_prefix(':').unwrap_or(said),
        None => link?.to_str()?,
    };
    let name = said.rsplit_once("zoneinfo/").map_or(said, |(_, name)| name);
    let is_plain = name.split('/').all(|part| !part.is_empty() && !part.starts_with('.'));
    (is_plain && is_known(name)).then(|| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_that_of_the_variable_or_of_the_file() {
        let link = Path::new("/usr/share/zoneinfo/Europe/Berlin");
        let told = |variable, link| {
            name(variable, link, |name| ["Europe/Berlin", "Asia/Tokyo", "UTC"].contains(&name))
        };
        for (variable, link, wanted) in [
            (None, Some(link), Some("Europe/Berlin")),
            (None, Some(Path::new("../usr/share/zoneinfo/Asia/Tokyo")), Some("Asia/Tokyo")),
            (None, None, None),
            (Some(":Asia/Tokyo"), Some(link), Some("Asia/Tokyo")),
            (Some("/usr/share/zoneinfo/Asia/Tokyo"), Some(link), Some("Asia/Tokyo")),
            (Some(""), Some(link), Some("UTC")),
            // Rules without a name.
            (Some("CET-1CEST,M3.5.0,M10.5.0/3"), Some(link), None),
            (Some("../../etc/passwd"), Some(link), None),
        ] {
            assert_eq!(told(variable, link).as_deref(), wanted, "{variable:?}");
        }
    }
}

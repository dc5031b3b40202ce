//! Several `[[fabric]]` tables: subnets of their own, each with what the file says for all and what its own
//! table says instead.

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Site, Written, Wrong, line_at};
use crate::config::{ConfigError, Settings};
use crate::model::FileError;

/// Tables of a fabric whose keys take the place of those of the file's table of that name.
const OVERRIDING: [&str; 3] = ["state", "opensm", "routing"];

/// What else is in the state directory of the service, now or from when it had one fabric.
const TAKEN: [&str; 6] = ["jobs", "epochs", "current", "record", "lock", "trial"];

/// The longest name of a fabric: it is a directory, a label and a part of addresses.
const NAME_LENGTH: usize = 32;

type Table<'a> = Spanned<DeTable<'a>>;
/// The settings of a text with `[[fabric]]`; `None` if it has none.
///
/// # Errors
/// With `path` and line.
pub(super) fn parse(text: &str, path: &Path) -> Result<Option<Site>, ConfigError> {
    // What is no TOML is told by who reads one fabric.
    let Ok(mut file) = DeTable::parse(text) else { return Ok(None) };
    let elements = match file.get_ref().get("fabric").map(|value| (value.span().start, value.get_ref())) {
        Some((offset, DeValue::Array(elements))) => {
            let elements: Vec<Spanned<DeValue<'_>>> = elements.iter().cloned().collect();
            (offset, elements)
        }
        _ => return Ok(None),
    };
    let at = |(offset, message): Wrong| FileError::line(path, line_at(text, offset), message);
    let (offset, elements) = elements;
    if elements.is_empty() {
        let reason = "there is no fabric: write a [[fabric]] table for each";
        return Err(at((offset, reason.into())).into());
    }
    file.get_mut().remove("fabric");
    let shared = Written::read(file.clone(), text, path)?.resolve(text, path)?;
    let mut all: Vec<Fabric> = Vec::new();
    for element in elements {
        let one = Fabric::of(element, &file, all.is_empty(), &shared.state.directory);
        let (table, mut fabric) = one.map_err(at)?;
        fabric.settings = Written::read(table, text, path)?.resolve(text, path)?;
        fabric.settings.name = Some(fabric.name.clone());
        // There is one interface for all.
        fabric.settings.api = None;
        fabric.differs(&all, &shared).map_err(at)?;
        all.push(fabric);
    }
    let fabrics = all.into_iter().map(|fabric| fabric.settings).collect();
    Ok(Some(Site { state: shared.state.directory, api: shared.api, spool: shared.spool, fabrics }))
}

/// One of several fabrics, and where the file says what.
struct Fabric {
    name: String,
    settings: Settings,
    /// Byte offsets of its name, state directory, OpenSM's status file and the file engine's.
    at: [usize; 4],
}

impl Fabric {
    /// Its table with the shared ones beneath; the settings are not its own yet.
    fn of<'a>(
        element: Spanned<DeValue<'a>>,
        file: &Table<'a>,
        is_first: bool,
        state: &Path,
    ) -> Result<(Table<'a>, Self), Wrong> {
        let span = element.span();
        let DeValue::Table(mut own) = element.into_inner() else {
            return Err((span.start, "a fabric is a table: [[fabric]]".into()));
        };
        let name = own.remove("name").ok_or((span.start, "each [[fabric]] needs a name".to_string()))?;
        let name_span = name.span();
        let name = checked(name.get_ref().as_str().unwrap_or_default()).map_err(|e| (name_span.start, e))?;
        let mut table = file.clone();
        let base = table.get_mut();
        // Of one fabric, or of the service.
        base.remove("api");
        if !is_first {
            base.remove("placement");
        }
        let empty = || Spanned::new(name_span.clone(), DeValue::Table(DeTable::new()));
        for title in OVERRIDING {
            let own = own.remove(title).map(|value| (value.span().start, value.into_inner()));
            let own = match own {
                None => DeTable::new(),
                Some((_, DeValue::Table(own))) => own,
                Some((offset, _)) => return Err((offset, format!("fabric.{title} is a table"))),
            };
            let key = || Spanned::new(name_span.clone(), title.into());
            let under = base.entry(key()).or_insert_with(empty);
            let DeValue::Table(under) = under.get_mut() else { continue };
            if title == "state" && !own.contains_key("directory") {
                let directory = state.join(&name).to_string_lossy().into_owned();
                let directory = Spanned::new(name_span.clone(), DeValue::String(directory.into()));
                under.insert(Spanned::new(name_span.clone(), "directory".into()), directory);
            }
            own.into_iter().for_each(|(key, value)| drop(under.insert(key, value)));
        }
        let offset = |title: &str, key: &str| {
            let value = base.get(title).and_then(|table| table.get_ref().get(key));
            value.map_or(name_span.start, |value| value.span().start)
        };
        let at = [
            name_span.start,
            offset("state", "directory"),
            offset("opensm", "status_file"),
            offset("opensm", "lft_file"),
        ];
        base.insert(Spanned::new(span.clone(), "fabric".into()), Spanned::new(span, DeValue::Table(own)));
        Ok((table, Self { name, settings: Settings::default(), at }))
    }

    /// Whether nothing is another fabric's, too.
    fn differs(&self, others: &[Self], shared: &Settings) -> Result<(), Wrong> {
        let [name, directory, status_file, lft_file] = self.at;
        let own = &self.settings;
        if own.state.directory == shared.state.directory {
            let message = "this is the state directory of the service: each fabric needs one of its own";
            return Err((directory, message.into()));
        }
        for other in others {
            let whose = |what: &str| format!("{what} of fabric {:?}: each needs its own", other.name);
            if other.name == self.name {
                return Err((name, format!("another fabric has the name {:?}", self.name)));
            }
            if other.settings.state.directory == own.state.directory {
                return Err((directory, whose("this is the state directory")));
            }
            if own.opensm.is_some() && status(&other.settings) == status(own) {
                return Err((status_file, whose("this is the OpenSM status file")));
            }
            if own.lft_file.is_some() && other.settings.lft_file == own.lft_file {
                return Err((lft_file, whose("this is the lft_file")));
            }
        }
        Ok(())
    }
}

fn status(settings: &Settings) -> Option<&PathBuf> {
    settings.opensm.as_ref().map(|opensm| &opensm.status_file)
}

/// A name that can be a directory, a label and a part of an address.
fn checked(name: &str) -> Result<String, String> {
    let is_letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let good = |(i, b): (usize, u8)| is_letter(b) || (i > 0 && b == b'-');
    let fits = (1..=NAME_LENGTH).contains(&name.len()) && name.bytes().enumerate().all(good);
    if !fits {
        return Err(format!(
            "the name of a fabric is 1 to {NAME_LENGTH} small letters, digits and -, such as \"ib0\""
        ));
    }
    if TAKEN.contains(&name) {
        return Err(format!("{name:?} is a directory of the service itself: take another name"));
    }
    Ok(name.to_string())
}

//! All that a settings file says: one fabric, or several.

use std::path::{Path, PathBuf};

use super::{Written, several};
use crate::config::{Api, ConfigError, DEFAULT_PATH, Settings};
use crate::model::FileError;

/// Lines that may be wrong where the rest is read all the same.
const MOST_MISTAKES: usize = 20;

/// The text of a file, or of [`DEFAULT_PATH`], and its path.
fn read(path: Option<&Path>) -> Result<(String, &Path), ConfigError> {
    let path = path.unwrap_or(Path::new(DEFAULT_PATH));
    Ok((std::fs::read_to_string(path).map_err(FileError::io(path))?, path))
}

/// A settings file: what the service is, and its fabrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Site {
    /// State directory of the service. That of one fabric is the same; those of several are in it unless they say
    /// otherwise.
    pub state: PathBuf,
    /// The HTTP interface for all fabrics; `None` if there is to be none.
    pub api: Option<Api>,
    /// Directory in which others lay down files for the service.
    pub spool: Option<PathBuf>,
    /// In the order of the file; never empty. Several have names, one `[fabric]` has none.
    pub fabrics: Vec<Settings>,
}

impl Site {
    /// The settings of a file, or of [`DEFAULT_PATH`].
    ///
    /// # Errors
    /// With file and line.
    pub fn load(path: Option<&Path>) -> Result<Self, ConfigError> {
        let (text, path) = read(path)?;
        Self::parse(&text, path)
    }

    /// As [`Site::load`], but without a path given, a missing [`DEFAULT_PATH`] means the defaults: for commands that
    /// work without an installation.
    ///
    /// # Errors
    /// With file and line.
    pub fn load_or_default(path: Option<&Path>) -> Result<Self, ConfigError> {
        match Self::load(path) {
            Err(ConfigError::File(FileError::Io { source, .. }))
                if path.is_none() && source.kind() == std::io::ErrorKind::NotFound =>
            {
                Self::parse("", Path::new(DEFAULT_PATH))
            }
            result => result,
        }
    }

    /// As [`Site::load`], without the lines that are wrong, and what is wrong with the first of them: for whom only the
    /// way to the service matters, which goes on by the settings of before.
    ///
    /// # Errors
    /// With file and line, if there is no file or too much of it is wrong.
    pub fn load_past_mistakes(path: Option<&Path>) -> Result<(Self, Option<ConfigError>), ConfigError> {
        let (mut text, path) = read(path)?;
        let mut first = None;
        for _ in 0..MOST_MISTAKES {
            match Self::parse(&text, path) {
                Ok(site) => return Ok((site, first)),
                Err(error @ ConfigError::File(FileError::Line { line, .. }))
                    if text.lines().nth(line - 1).is_some() =>
                {
                    let without = |(i, kept)| if i + 1 == line { "" } else { kept };
                    text = text.lines().enumerate().map(without).collect::<Vec<_>>().join("\n");
                    first.get_or_insert(error);
                }
                Err(error) => return Err(first.unwrap_or(error)),
            }
        }
        Err(first.unwrap_or_else(|| FileError::line(path, 1, "too much is wrong").into()))
    }

    /// The settings in a text. Relative paths in it are relative to the directory of `path`.
    ///
    /// # Errors
    /// With `path` and line.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        match several::parse(text, path)? {
            Some(site) => Ok(site),
            None => Ok(Written::parse(text, path)?.resolve(text, path)?.into()),
        }
    }

    /// Whether the fabrics have names, each a store, record and history of its own.
    pub fn is_several(&self) -> bool {
        self.fabrics.iter().any(|fabric| fabric.name.is_some())
    }

    /// The names of the fabrics; none of one without a name.
    pub fn names(&self) -> Vec<String> {
        self.fabrics.iter().filter_map(|fabric| fabric.name.clone()).collect()
    }

    /// The fabric of that name; without a name the only one.
    ///
    /// # Errors
    /// If there is none of that name, or several and no name.
    pub fn only(self, name: Option<&str>) -> Result<Settings, ConfigError> {
        let mut chosen = self.among(name)?;
        match (chosen.pop(), chosen.is_empty()) {
            (Some(one), true) => Ok(one),
            (last, _) => {
                let names = chosen.into_iter().chain(last).filter_map(|fabric| fabric.name).collect();
                Err(ConfigError::Several { names })
            }
        }
    }

    /// As [`Site::among`], each with the interface that it shares with the others: for who looks at settings.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn with_interface(self, name: Option<&str>) -> Result<Vec<Settings>, ConfigError> {
        let api = self.api.clone();
        let fabrics = self.among(name)?.into_iter();
        Ok(fabrics.map(|fabric| Settings { api: api.clone(), ..fabric }).collect())
    }

    /// The fabric of that name; without a name all.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn among(self, name: Option<&str>) -> Result<Vec<Settings>, ConfigError> {
        let Some(name) = name else { return Ok(self.fabrics) };
        let names = self.names();
        let found: Vec<Settings> =
            self.fabrics.into_iter().filter(|fabric| fabric.name.as_deref() == Some(name)).collect();
        match found.is_empty() {
            true => Err(ConfigError::NoSuchFabric { name: name.to_string(), names }),
            false => Ok(found),
        }
    }
}

impl From<Settings> for Site {
    fn from(settings: Settings) -> Self {
        Self {
            state: settings.state.directory.clone(),
            api: settings.api.clone(),
            spool: settings.spool.clone(),
            fabrics: vec![settings],
        }
    }
}

impl Settings {
    /// The settings of a file, or of [`DEFAULT_PATH`], with one fabric.
    ///
    /// # Errors
    /// With file and line; or if there are several fabrics: see [`Site::load`].
    pub fn load(path: Option<&Path>) -> Result<Self, ConfigError> {
        Site::load(path)?.only(None)
    }

    /// The settings in a text, with one fabric. Relative paths in it are relative to the directory of `path`.
    ///
    /// # Errors
    /// With `path` and line; or if there are several fabrics.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        Site::parse(text, path)?.only(None)
    }
}

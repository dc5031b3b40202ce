//! What the line in `plugstack.conf` says after the name of the plugin.

use std::path::PathBuf;
use std::time::Duration;

use crate::sink::Sink;

/// What is done when a node cannot be given its routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// It is reported and the job starts: routing is never why a cluster stops.
    Start,
    /// The prolog fails: Slurm drains the node and holds or requeues the job.
    Hold,
}

/// The options, with their defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `state=DIR`: the service's state directory as this node sees it.
    pub state: PathBuf,
    /// `sink=…`: where tables of a direct torus go. Without one a table is only checked.
    pub sink: Option<Sink>,
    /// `on_failure=start|hold`, for all jobs alike.
    pub on_failure: OnFailure,
    /// `sl_env=A,B`: variables that get the service level.
    pub sl_env: Vec<String>,
    /// `lid_env=A,B`: variables that get the path bits of the LIDs that the job is to use.
    pub lid_env: Vec<String>,
    /// `wait=SECONDS`: how long the job's directory is waited for.
    pub wait: Duration,
    /// `timeout=SECONDS`: how long a command may run.
    pub timeout: Duration,
    /// `report=DIR`: where each node says how it went.
    pub report: Option<PathBuf>,
}

/// UCX, NCCL, Open MPI (openib), MVAPICH2.
const SL_VARIABLES: [&str; 4] =
    ["UCX_IB_SL", "NCCL_IB_SL", "OMPI_MCA_btl_openib_ib_service_level", "MV2_DEFAULT_SERVICE_LEVEL"];

/// UCX; NCCL and Open MPI's openib have none.
const LID_VARIABLE: &str = "UCX_IB_LID_PATH_BITS";

impl Default for Settings {
    fn default() -> Self {
        Self {
            state: "/var/lib/sarouter".into(),
            sink: None,
            on_failure: OnFailure::Start,
            sl_env: SL_VARIABLES.map(String::from).to_vec(),
            lid_env: vec![LID_VARIABLE.into()],
            wait: Duration::ZERO,
            timeout: Duration::from_secs(30),
            report: None,
        }
    }
}

impl Settings {
    /// From the words of the line.
    ///
    /// # Errors
    /// Names the word that is not understood.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut settings = Self::default();
        for word in words {
            let (key, value) = word.split_once('=').ok_or_else(|| format!("{word}: wants KEY=VALUE"))?;
            let seconds = || match value.parse::<u32>() {
                Ok(seconds @ 0..=3600) => Ok(Duration::from_secs(seconds.into())),
                _ => Err(format!("{word}: wants 0 to 3600 seconds")),
            };
            match key {
                "state" => settings.state = absolute(word, value)?,
                "report" => settings.report = Some(absolute(word, value)?),
                "sink" => settings.sink = Some(Sink::parse(value)?),
                "wait" => settings.wait = seconds()?,
                // In no time nothing is written.
                "timeout" => settings.timeout = seconds()?.max(Duration::from_secs(1)),
                "sl_env" => settings.sl_env = names(word, value)?,
                "lid_env" => settings.lid_env = names(word, value)?,
                "on_failure" if value == "start" => settings.on_failure = OnFailure::Start,
                "on_failure" if value == "hold" => settings.on_failure = OnFailure::Hold,
                _ => return Err(format!("{word}: not an option, or not a value of it")),
            }
        }
        Ok(settings)
    }
}

fn absolute(word: &str, value: &str) -> Result<PathBuf, String> {
    if value.starts_with('/') { Ok(value.into()) } else { Err(format!("{word}: wants an absolute path")) }
}

fn names(word: &str, value: &str) -> Result<Vec<String>, String> {
    let names = value.split(',').filter(|n| !n.is_empty()).map(String::from).collect::<Vec<_>>();
    let legal = |n: &String| n.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if names.iter().all(legal) { Ok(names) } else { Err(format!("{word}: wants names of variables")) }
}

/// What a user asks with `--routing=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routing {
    /// As the site's settings say.
    Default,
    /// Nothing is done for this job.
    None,
    /// The job does not start without its routes: `sarouter prolog`, before it has its nodes, sends it
    /// back into the queue. On the nodes this is too late, and they only report.
    Require,
}

impl Routing {
    /// From the word of the option; `None` for another word.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "default" => Some(Self::Default),
            "none" => Some(Self::None),
            "require" => Some(Self::Require),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_read_and_rubbish_is_named() {
        let words =
            "state=/s sink=file:/t/%n.%j on_failure=hold sl_env=A,B_1 lid_env=C wait=5 timeout=9 report=/r";
        let settings = Settings::parse(words.split(' ')).unwrap();
        assert_eq!(settings.state, PathBuf::from("/s"));
        assert_eq!(settings.sink, Some(Sink::File("/t/%n.%j".into())));
        assert_eq!((settings.on_failure, settings.sl_env), (OnFailure::Hold, vec!["A".into(), "B_1".into()]));
        assert_eq!((settings.wait.as_secs(), settings.timeout.as_secs()), (5, 9));
        assert_eq!(settings.report, Some("/r".into()));
        assert_eq!(settings.lid_env, ["C"]);
        assert_eq!(Settings::parse(["timeout=0"]).unwrap().timeout.as_secs(), 1);
        assert_eq!(Settings::parse([]).unwrap().sl_env, SL_VARIABLES);
        assert_eq!(Settings::parse([]).unwrap().lid_env, [LID_VARIABLE]);
        for bad in
            ["state", "state=s", "on_failure=stop", "wait=-1", "wait=3601", "sl_env=A=B", "sl_env=A;B", "x=1"]
        {
            assert!(Settings::parse([bad]).unwrap_err().starts_with(bad), "{bad}");
        }
        assert_eq!(Routing::parse("require"), Some(Routing::Require));
        assert_eq!(Routing::parse("Require"), None);
    }
}

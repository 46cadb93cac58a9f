//! Log lines of the daemons: to standard error, as text or JSON, at the level of the config or of `RUST_LOG`.

use crate::failure::{Failure, code};
use rdmascope_config::{LogConfig, LogFormat, LogLevel};
use std::io::IsTerminal as _;
use tracing_subscriber::EnvFilter;

/// Overrides the level of the config, with the syntax of `tracing-subscriber`.
const VARIABLE: &str = "RUST_LOG";

/// Changes the filter of a process whose logging is set up.
pub(crate) struct Logs(Box<dyn Fn(EnvFilter) -> Result<(), tracing_subscriber::reload::Error> + Send>);

impl Logs {
    /// Lines of this level from now on, unless the environment says it.
    pub(crate) fn change(&self, config: &LogConfig) -> Result<(), Failure> {
        let done = self.0(filter(config)?);
        done.map_err(|error| Failure::new(code::FAILED, format!("the log level cannot be changed: {error}")))
    }
}

/// Sets up logging for the whole process.
pub(crate) fn set_up(config: &LogConfig) -> Result<Logs, Failure> {
    let lines = tracing_subscriber::fmt().with_env_filter(filter(config)?).with_writer(std::io::stderr);
    Ok(match config.format {
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true).with_filter_reloading();
            let handle = lines.reload_handle();
            lines.init();
            Logs(Box::new(move |filter| handle.reload(filter)))
        }
        LogFormat::Text => {
            let lines = lines.with_ansi(std::io::stderr().is_terminal()).with_filter_reloading();
            let handle = lines.reload_handle();
            lines.init();
            Logs(Box::new(move |filter| handle.reload(filter)))
        }
    })
}

fn filter(config: &LogConfig) -> Result<EnvFilter, Failure> {
    match std::env::var(VARIABLE) {
        Ok(text) if !text.trim().is_empty() => EnvFilter::try_new(&text).map_err(|error| {
            Failure::new(code::USAGE, format!("{VARIABLE}={text}: {error}"))
                .then(format!("unset {VARIABLE}, or write a level such as debug"))
        }),
        _ => Ok(EnvFilter::new(directives(config.level))),
    }
}

/// The level is for our own lines; libraries speak up only when something is wrong.
fn directives(level: LogLevel) -> String {
    match level {
        LogLevel::Error => "error".to_owned(),
        other => format!("warn,rdmascope={}", other.as_str()),
    }
}

//! Log lines of the daemons: to standard error, as text or JSON, at the level of the config or of `RUST_LOG`.

use crate::failure::{Failure, code};
use rdmascope_config::{LogConfig, LogFormat, LogLevel};
use std::io::IsTerminal as _;
use tracing_subscriber::EnvFilter;

/// Overrides the level of the config, with the syntax of `tracing-subscriber`.
const VARIABLE: &str = "RUST_LOG";

/// Sets up logging for the whole process.
pub(crate) fn set_up(config: &LogConfig) -> Result<(), Failure> {
    let filter = match std::env::var(VARIABLE) {
        Ok(text) if !text.trim().is_empty() => EnvFilter::try_new(&text).map_err(|error| {
            Failure::new(code::USAGE, format!("{VARIABLE}={text}: {error}"))
                .then(format!("unset {VARIABLE}, or write a level such as debug"))
        })?,
        _ => EnvFilter::new(directives(config.level)),
    };
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match config.format {
        LogFormat::Json => lines.json().flatten_event(true).init(),
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).init(),
    }
    Ok(())
}

/// The level is for our own lines; libraries speak up only when something is wrong.
fn directives(level: LogLevel) -> String {
    match level {
        LogLevel::Error => "error".to_owned(),
        other => format!("warn,rdmascope={}", other.as_str()),
    }
}

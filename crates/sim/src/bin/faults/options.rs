//! What `cargo xtask faults` passes on.

use rdmascope_sim::suite::{Plan, Suite};
use std::path::PathBuf;

/// Which runs, and how they are printed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Options {
    pub(crate) parameters: PathBuf,
    runs: Option<usize>,
    endpoints: Option<usize>,
    seed: Option<u64>,
    kind: Option<String>,
    run: Option<u64>,
    only_quiet: bool,
    pub(crate) json: bool,
    pub(crate) wrong: bool,
}

impl Options {
    /// Reads the arguments.
    ///
    /// # Errors
    /// One is not known, lacks its value, or has none that fits.
    pub(crate) fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::default();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            let number =
                |text: String| text.parse::<u64>().map_err(|error| format!("{word} {text}: {error}"));
            let count = |text| number(text).map(|number| usize::try_from(number).unwrap_or(usize::MAX));
            match word.as_str() {
                "--parameters" => options.parameters = value()?.into(),
                "--runs" => options.runs = Some(value().and_then(count)?),
                "--endpoints" => options.endpoints = Some(value().and_then(count)?),
                "--seed" => options.seed = Some(value().and_then(number)?),
                "--kind" => options.kind = Some(value()?),
                "--run" => options.run = Some(value().and_then(run)?),
                "--quiet" => options.only_quiet = true,
                "--json" => options.json = true,
                "--wrong" => options.wrong = true,
                _ => return Err(format!("unknown argument {word}")),
            }
        }
        Ok(options)
    }

    pub(crate) fn seed(&self, suite: &Suite) -> u64 {
        self.seed.unwrap_or(suite.seed)
    }

    /// The quiet week is part of it: of the whole, but not where somebody asks for some runs.
    pub(crate) fn quiet(&self) -> bool {
        self.only_quiet || (self.endpoints.is_none() && self.kind.is_none() && self.run.is_none())
    }

    /// The runs that are part of it.
    pub(crate) fn plan(&self, suite: &Suite) -> Option<Plan> {
        (!self.only_quiet).then(|| Plan {
            runs: self.runs.unwrap_or(suite.runs),
            endpoints: self.endpoints,
            kind: self.kind.clone(),
            seed: self.seed(suite),
            only: self.run,
        })
    }
}

/// A run's seed, as it is printed.
fn run(text: String) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(&text);
    u64::from_str_radix(digits, 16).map_err(|error| format!("--run {text}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, String> {
        Options::read(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn what_is_asked_for_is_done_and_what_is_not_understood_is_said() {
        let asked = read("--runs 20 --endpoints 64 --json").unwrap();
        assert_eq!(
            (asked.runs, asked.endpoints, asked.json, asked.quiet()),
            (Some(20), Some(64), true, false)
        );
        assert!(read("").unwrap().quiet() && read("--quiet").unwrap().quiet());
        assert!(read("--runs").unwrap_err().contains("needs a value"));
        assert!(read("--runs many").unwrap_err().contains("many"));
        assert!(read("--until 5").unwrap_err().contains("--until"));
        let again = read("--endpoints 64 --run 0x1d04fde6d7adc717").unwrap();
        assert_eq!((again.run, again.quiet()), (Some(0x1d04_fde6_d7ad_c717), false));
        assert!(read("--run last").unwrap_err().contains("--run last"));
    }
}

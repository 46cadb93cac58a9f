//! `rdmascope completions`, `man` and `schema`: what the program writes about itself, for shells, readers and parsers.

use crate::arguments::Arguments;
use crate::columns::Columns;
use crate::failure::{Failure, code};
use crate::output::{print, print_json, show};
use crate::screen::screen;
use crate::similar;
use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use rdmascope_expose::api::OUTPUTS;
use rdmascope_host::Clock;
use rdmascope_model::Wall;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Seconds since 1970 that stand in for today, so that the same source gives the same package (reproducible-builds.org).
const DATE_VARIABLE: &str = "SOURCE_DATE_EPOCH";

/// Revision of the sources that this was built from; `None` where whoever built it did not say.
pub(crate) const REVISION: Option<&str> = option_env!("RDMASCOPE_REVISION");

/// `0.1.0`, and the revision of the sources where the build was told it: `0.1.0 (abc1234)`.
pub(crate) fn version() -> String {
    let revision = REVISION.map(|revision| format!(" ({revision})")).unwrap_or_default();
    format!("{}{revision}", env!("CARGO_PKG_VERSION"))
}

/// Print the JSON Schema of what a command prints with --json
///
/// Without a command: list those that print JSON. Names and meanings only ever grow, so a reader must allow names that
/// it does not know.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rdmascope schema                  which commands print JSON
  rdmascope schema check
  rdmascope schema sweep --plan     a flag may change what is printed")]
pub(crate) struct SchemaFlags {
    /// The command, with the flag that changes what it prints
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Print the completions of the command line for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rdmascope completions bash > /etc/bash_completion.d/rdmascope
  rdmascope completions zsh > /usr/share/zsh/site-functions/_rdmascope
  rdmascope completions fish > ~/.config/fish/completions/rdmascope.fish")]
pub(crate) struct CompletionsFlags {
    /// The shell
    shell: Shell,
}

/// Write the manual pages of all commands
///
/// Their date is today, or what the variable SOURCE_DATE_EPOCH says.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rdmascope man /usr/local/share/man/man1")]
pub(crate) struct ManFlags {
    /// Folder to write them to; it must be there
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// `rdmascope completions`.
pub(crate) fn completions(flags: &CompletionsFlags) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut Arguments::command(), "rdmascope", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}

/// `rdmascope man`.
pub(crate) fn man(flags: &ManFlags) -> Result<u8, Failure> {
    let date = date()?;
    let mut command = Arguments::command();
    command.build();
    let mut files = Vec::new();
    pages(&command, &[], &date, &flags.folder, &mut files).map_err(|error| {
        Failure::new(code::FAILED, format!("no page can be written in {}: {error}", flags.folder.display()))
            .then("name a folder that is there and that this user may write to")
    })?;
    show(&format!(
        "{} pages in {}; read one: man {}/rdmascope.1\n",
        files.len(),
        flags.folder.display(),
        flags.folder.display()
    ))?;
    Ok(0)
}

fn date() -> Result<String, Failure> {
    let now = match std::env::var(DATE_VARIABLE) {
        Ok(text) => match text.parse::<u64>().ok().and_then(|seconds| seconds.checked_mul(1_000)) {
            Some(ms) => Wall(ms),
            None => {
                return Err(Failure::new(
                    code::USAGE,
                    format!("{DATE_VARIABLE}={text} is no number of seconds"),
                )
                .then(format!("unset {DATE_VARIABLE}, or write seconds since 1970")));
            }
        },
        Err(_) => Clock::new().now().wall,
    };
    Ok(now.to_string().chars().take(10).collect())
}

/// A page for the command, and one for each below it.
fn pages(
    command: &Command,
    above: &[&str],
    date: &str,
    folder: &Path,
    files: &mut Vec<String>,
) -> io::Result<()> {
    let names = [above, &[command.get_name()]].concat();
    let file = format!("{}.1", names.join("-"));
    let text = page(command, &names, date)?;
    std::fs::write(folder.join(&file), text)?;
    files.push(file);
    for below in command.get_subcommands() {
        pages(below, &names, date, folder, files)?;
    }
    Ok(())
}

fn page(command: &Command, names: &[&str], date: &str) -> io::Result<Vec<u8>> {
    let title = names.join("-");
    let man = Man::new(command.clone().display_name(title.clone()).bin_name(names.join(" ")))
        .title(title.to_uppercase())
        .date(date)
        .source(format!("rdmascope {}", env!("CARGO_PKG_VERSION")))
        .manual("rdmascope");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    let mut own = Roff::new();
    if let Some(examples) = command.get_after_help() {
        own.control("SH", ["EXAMPLES"]);
        own.control("nf", []);
        // The section's name says it already.
        let examples = examples.to_string();
        for line in examples.lines().filter(|line| !matches!(*line, "Examples:" | "Example:")) {
            own.text([roman(line)]);
        }
        own.control("fi", []);
    }
    if let [_, ..] = &names[..names.len() - 1] {
        own.control("SH", ["SEE ALSO"]);
        own.text([roman(format!("{}(1)", names[..names.len() - 1].join("-")))]);
    }
    own.to_writer(&mut text)?;
    // Options end with a space, which the page's reader never sees and its checker does.
    let text = String::from_utf8_lossy(&text);
    let mut lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    // One break is as good as two.
    lines.dedup_by(|second, first| *second == ".br" && *first == ".br");
    let mut text = lines.join("\n").into_bytes();
    text.write_all(b"\n")?;
    Ok(text)
}

/// `rdmascope schema`.
pub(crate) fn schema(flags: &SchemaFlags) -> Result<u8, Failure> {
    let wanted = flags.command.join(" ");
    if wanted.is_empty() {
        let mut list = Columns::new(&["COMMAND", "WHAT --json PRINTS"], &[]);
        OUTPUTS.iter().for_each(|output| list.push([output.command.into(), output.text.into()]));
        show(&list.text(screen()))?;
        return Ok(0);
    }
    let Some(output) = OUTPUTS.iter().find(|output| output.command == wanted) else {
        let near = similar::did_you_mean(&wanted, OUTPUTS.iter().map(|output| output.command));
        let near = near.map(|near| near + " ").unwrap_or_default();
        return Err(Failure::new(code::USAGE, format!("no command '{wanted}' prints JSON"))
            .then(format!("{near}`rdmascope schema` lists those that do")));
    };
    print_json(&output.schema())?;
    Ok(0)
}

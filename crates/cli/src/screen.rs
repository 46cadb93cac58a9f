//! How wide the terminal is and whether it shows colours, and what follows for lines of text: wrapped, with status words in colour.

use clap::ValueEnum;
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::sync::OnceLock;

/// Columns of a terminal that does not say.
const COLUMNS_USUAL: usize = 80;

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// On a terminal, unless NO_COLOR is set; CLICOLOR_FORCE wants them elsewhere, too
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// What standard output is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Screen {
    /// Its columns; `None` where nobody looks at it directly (a pipe, a file), so nothing is cut or wrapped.
    pub(crate) columns: Option<usize>,
    /// It shows colours.
    pub(crate) colour: bool,
}

static SCREEN: OnceLock<Screen> = OnceLock::new();

/// What standard output is, as it was when the program began.
pub(crate) fn screen() -> Screen {
    SCREEN.get().copied().unwrap_or_default()
}

/// Looks once, with the word of `--color`.
pub(crate) fn set_up(when: When) {
    let terminal = std::io::stdout().is_terminal();
    let colour = wants_colour(when, terminal, |name| std::env::var_os(name));
    let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).filter(|n| *n > 0);
    let columns = columns.or_else(|| terminal.then(columns_of_terminal));
    // The first word counts: there is only one standard output.
    let _ = SCREEN.set(Screen { columns, colour });
}

fn columns_of_terminal() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(COLUMNS_USUAL)
}

/// The rules of no-color.org and of bixense.com/clicolors; what the command line says wins.
fn wants_colour(when: When, terminal: bool, variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let off = |name: &str| variable(name).is_some_and(|value| value == "0");
    match when {
        When::Always => true,
        When::Never => false,
        When::Auto if set("NO_COLOR") => false,
        When::Auto if set("CLICOLOR_FORCE") && !off("CLICOLOR_FORCE") => true,
        When::Auto => terminal && !off("CLICOLOR") && variable("TERM").is_none_or(|term| term != "dumb"),
    }
}

/// What a colour says. It never says it alone: a word or a shape stands beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// As it should be.
    Good,
    /// A little worse.
    Mild,
    /// Not as it should be.
    Warn,
    /// Broken.
    Bad,
    /// Could not look.
    Unknown,
    /// Not of now.
    Faint,
}

impl Tone {
    /// Blue to vermillion, which people tell apart who do not tell red from green; readable on black and on white.
    fn code(self) -> &'static str {
        match self {
            Self::Good => "38;5;32",
            Self::Mild => "38;5;72",
            Self::Warn => "38;5;172",
            Self::Bad => "1;38;5;166",
            Self::Unknown => "38;5;133",
            Self::Faint => "38;5;244",
        }
    }

    /// Of a status of a finding.
    pub(crate) fn of_status(word: &str) -> Option<Self> {
        match word {
            "ok" | "OK" => Some(Self::Good),
            "warn" | "WARN" => Some(Self::Warn),
            "fail" | "FAIL" => Some(Self::Bad),
            "unknown" | "UNKNOWN" => Some(Self::Unknown),
            _ => None,
        }
    }
}

/// The text in its colour, where there are colours.
pub(crate) fn painted(text: &str, tone: Option<Tone>, colour: bool) -> String {
    match tone.filter(|_| colour && !text.is_empty()) {
        Some(tone) => format!("\x1b[{}m{text}\x1b[0m", tone.code()),
        None => text.to_owned(),
    }
}

/// Text for people on this screen: long lines wrapped below where their words begin, status words in colour.
pub(crate) fn laid_out(text: &str, screen: Screen) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let line = screen.columns.map_or_else(|| line.to_owned(), |columns| wrapped(line, columns));
        out.push_str(&with_status(&line, screen.colour));
        out.push_str(end);
    }
    out
}

/// A status in capitals at the begin of a line is coloured.
fn with_status(line: &str, colour: bool) -> String {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let capitals = word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    match Tone::of_status(word).filter(|_| capitals && colour && !rest.is_empty()) {
        Some(tone) => format!("{} {rest}", painted(word, Some(tone), true)),
        None => line.to_owned(),
    }
}

fn wrapped(line: &str, columns: usize) -> String {
    if length(line) <= columns {
        return line.to_owned();
    }
    let hang = hang(line).min(columns / 2);
    let mut out = String::new();
    let mut at = 0;
    for piece in line.split_inclusive(' ') {
        let (word, spaces) = piece.strip_suffix(' ').map_or((piece, ""), |word| (word, " "));
        if at > hang && at + length(word) > columns {
            out.truncate(out.trim_end().len());
            out.push_str(&format!("\n{:hang$}", ""));
            at = hang;
        }
        let mut escaped = false;
        for letter in word.chars() {
            escaped |= letter == '\x1b';
            // A name longer than the line is broken as the terminal itself would.
            if at == columns && !escaped {
                out.push_str(&format!("\n{:hang$}", ""));
                at = hang;
            }
            out.push(letter);
            at += usize::from(!escaped);
            escaped &= letter != 'm';
        }
        out.push_str(spaces);
        at += spaces.len();
    }
    out.truncate(out.trim_end().len());
    out
}

/// Where the words of a line begin, behind its label or its first column: there the rest of it goes on.
fn hang(line: &str) -> usize {
    /// Labels and first columns are no longer.
    const LABEL_MAX: usize = 32;
    let letters: Vec<char> = line.chars().take(LABEL_MAX).collect();
    let indent = letters.iter().take_while(|letter| **letter == ' ').count();
    let words = letters.get(indent..).unwrap_or_default();
    let is_label = |label: &[char]| label.iter().all(|letter| letter.is_ascii_lowercase() || *letter == ' ');
    let colon = words.iter().position(|letter| *letter == ':').filter(|at| is_label(&words[..*at]));
    let gap = words.windows(2).position(|two| two == [' ', ' ']);
    let label = match (colon, gap) {
        (Some(colon), _) => Some(colon + 1),
        (None, gap) => gap,
    };
    label.map_or(indent + 2, |end| {
        let spaces = words[end..].iter().take_while(|letter| **letter == ' ').count();
        indent + end + spaces
    })
}

/// Columns of a text; escape sequences, which only [`painted`] writes, have none.
pub(crate) fn length(text: &str) -> usize {
    let (mut count, mut escaped) = (0, false);
    for letter in text.chars() {
        match (escaped, letter) {
            (false, '\x1b') => escaped = true,
            (true, 'm') => escaped = false,
            (true, _) => {}
            (false, _) => count += 1,
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_decides_unless_the_command_line_does() {
        let with = |when, terminal, set: &[(&str, &str)]| {
            wants_colour(when, terminal, |name| {
                set.iter().find(|(own, _)| *own == name).map(|(_, value)| OsString::from(value))
            })
        };
        assert!(with(When::Auto, true, &[]) && !with(When::Auto, false, &[]));
        assert!(!with(When::Auto, true, &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]));
        assert!(with(When::Auto, true, &[("NO_COLOR", "")]), "empty is as if it were not set");
        assert!(with(When::Auto, false, &[("CLICOLOR_FORCE", "1")]));
        assert!(!with(When::Auto, false, &[("CLICOLOR_FORCE", "0")]));
        assert!(
            !with(When::Auto, true, &[("TERM", "dumb")]) && !with(When::Auto, true, &[("CLICOLOR", "0")])
        );
        assert!(with(When::Always, false, &[("NO_COLOR", "1")]));
        assert!(!with(When::Never, true, &[("CLICOLOR_FORCE", "1")]));
    }

    fn at(columns: usize, text: &str) -> String {
        laid_out(text, Screen { columns: Some(columns), colour: false })
    }

    #[test]
    fn a_long_line_goes_on_below_its_words() {
        let finding = "        next step: See both ends of the cable.\n";
        assert_eq!(
            at(30, finding),
            "        next step: See both\n               ends of the\n               cable.\n"
        );
        assert_eq!(
            at(30, "  cause:     no link at the other end\n"),
            "  cause:     no link at the\n             other end\n"
        );
        assert_eq!(
            at(30, "FAIL    mlx5_1/1: the port is DOWN\n"),
            "FAIL    mlx5_1/1: the port is\n        DOWN\n"
        );
        assert_eq!(at(12, "one two three four\n"), "one two\n  three four\n");
        assert_eq!(at(80, finding), finding);
    }

    #[test]
    fn no_line_is_longer_than_the_screen_and_no_word_is_lost() {
        let name = "n".repeat(100);
        let text = format!("WARN    {name} mlx5_0/1: it is slow\n");
        let shown = at(40, &text);
        assert!(shown.lines().all(|line| length(line) <= 40), "{shown}");
        let letters = |text: &str| text.chars().filter(|letter| !letter.is_whitespace()).collect::<String>();
        assert_eq!(letters(&shown), letters(&text));
        assert_eq!(laid_out(&text, Screen::default()), text, "a pipe gets it whole");
    }

    #[test]
    fn a_status_is_coloured_where_it_leads_a_line_and_costs_no_column() {
        let screen = Screen { columns: Some(80), colour: true };
        assert_eq!(laid_out("FAIL    a: b\n", screen), "\x1b[1;38;5;166mFAIL\x1b[0m    a: b\n");
        for plain in ["FAILED  a\n", "  FAIL  a\n", "ok: f\n", "OK\n", "3 fail\n"] {
            assert_eq!(laid_out(plain, screen), plain);
        }
        assert_eq!(length(&painted("ok", Some(Tone::Good), true)), 2);
    }
}

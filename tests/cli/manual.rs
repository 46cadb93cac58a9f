//! What is there to read and to complete: help of every command, manual pages that their checker passes, completions that run.

use crate::harness::{Folder, finish, run};
use std::process::Command;

/// Every command, with those below it; taken from the help itself, so that none is forgotten.
fn commands() -> Vec<Vec<String>> {
    let mut open = vec![Vec::new()];
    let mut found = Vec::new();
    while let Some(words) = open.pop() {
        for name in below(&words) {
            let command: Vec<String> = words.iter().cloned().chain([name]).collect();
            open.push(command.clone());
            found.push(command);
        }
    }
    assert!(found.len() >= 25, "only {found:?}");
    found
}

/// The names under "Commands:" of a help.
fn below(words: &[String]) -> Vec<String> {
    let help = help(words);
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let list = list.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    list.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
}

fn help(words: &[String]) -> String {
    let words: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
    let help = run(&words);
    assert_eq!((help.code, help.err.as_str()), (Some(0), ""), "{words:?}");
    help.out
}

#[test]
fn every_help_begins_with_what_it_is_for_has_examples_and_fits() {
    for command in commands().into_iter().chain([Vec::new()]) {
        let help = help(&command);
        let first = help.lines().next().unwrap_or_default();
        assert!(first.len() > 15 && first.starts_with(|c: char| c.is_uppercase()), "{command:?}: {first}");
        let line =
            ["rdmascope"].into_iter().chain(command.iter().map(String::as_str)).collect::<Vec<_>>().join(" ");
        assert!(help.contains(&format!("\n  {line}")), "{command:?} has no example:\n{help}");
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{command:?}: {} columns: {line}", line.chars().count());
        }
    }
}

#[test]
fn the_checker_of_manual_pages_passes_a_page_for_every_command() {
    let folder = Folder::new();
    let pages = folder.path("");
    let written = run(&["man", pages.to_str().expect("a path of ASCII")]);
    assert_eq!(written.code, Some(0), "{written:?}");
    for command in commands().into_iter().chain([Vec::new()]) {
        let name = ["rdmascope".to_owned()].into_iter().chain(command.clone()).collect::<Vec<_>>().join("-");
        let page = folder.path(&format!("{name}.1"));
        let mut checker = Command::new("mandoc");
        checker.args(["-T", "lint", "-W", "warning"]).arg(&page);
        let said = finish(checker);
        assert_eq!((said.code, said.out.as_str()), (Some(0), ""), "{name}: {said:?}");
        let mut reader = Command::new("mandoc");
        let read = finish({
            reader.args(["-T", "ascii", "-O", "width=78"]).arg(&page);
            reader
        });
        // Bold letters are overstruck in this form.
        let shown: Vec<char> = read.out.chars().collect();
        let bare: String = (0..shown.len())
            .filter(|at| shown[*at] != '\u{8}' && shown.get(at + 1) != Some(&'\u{8}'))
            .map(|at| shown[at])
            .collect();
        let line =
            ["rdmascope"].into_iter().chain(command.iter().map(String::as_str)).collect::<Vec<_>>().join(" ");
        for part in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", &line] {
            assert!(bare.contains(part), "{name}: no {part:?} in {bare}");
        }
    }
}

#[test]
fn a_page_is_the_same_wherever_the_date_is_given() {
    let dated = |seconds: &str| {
        let folder = Folder::new();
        let mut command = crate::harness::rdmascope(&["man"]);
        command.arg(folder.path("")).env("SOURCE_DATE_EPOCH", seconds);
        let done = finish(command);
        (done.code, std::fs::read_to_string(folder.path("rdmascope-check.1")).unwrap_or_default())
    };
    let (code, page) = dated("86400");
    assert!(code == Some(0) && page.contains("1970-01-02"), "{page}");
    assert_eq!(dated("yesterday").0, Some(64));
}

#[test]
fn a_shell_completes_commands_flags_and_words() {
    let script = run(&["completions", "bash"]);
    assert_eq!(script.code, Some(0), "{script:?}");
    let folder = Folder::new();
    let file = folder.file("completions", &script.out);
    let complete = |words: &str, index: usize| {
        let last = words.split(' ').next_back().unwrap_or_default();
        let before = words.split(' ').rev().nth(1).unwrap_or_default();
        let line = format!(
            "source {file}; COMP_WORDS=({words}); COMP_CWORD={index}; _rdmascope rdmascope '{last}' '{before}'; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let mut bash = Command::new("bash");
        bash.args(["-c", &line]);
        let done = finish(bash);
        assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{done:?}");
        done.out.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(complete("rdmascope matr", 1), ["matrix"]);
    assert_eq!(complete("rdmascope matrix --wor", 2), ["--worst"]);
    assert_eq!(complete("rdmascope matrix --metric ban", 3), ["bandwidth"]);
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]);
        assert!(script.code == Some(0) && script.out.contains("maintenance"), "{shell}: {script:?}");
    }
}

//! Every fuzz target over the kept corpus, and over cheap changes of each of its files: what was found once stays found, without libFuzzer.

use rdmascope_tests::root;
use rdmascope_tests::targets::{Target, targets};
use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;

/// Changed inputs for each target, and for those that take some milliseconds an input: a whole machine, a whole coordinator, all rules.
const CHANGED: usize = 1_000;
const CHANGED_COSTLY: usize = 50;
const COSTLY: [&str; 4] = ["api", "capture", "kernel-log-rules", "snapshot-files"];
/// What is kept for each target: files, and bytes of each.
const FILES_MAX: usize = 48;
const BYTES_MAX: usize = 4_096;

/// The kept inputs of a target, by their names.
fn kept(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = root().join("tests/fixtures/fuzz").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("entry"))
        .map(|entry| {
            (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).expect("a file"))
        })
        .collect();
    files.sort();
    files
}

/// xorshift64 (Marsaglia, "Xorshift RNGs", 2003): the same numbers in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Below `end`; 0 where that is 0.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % (end.max(1) as u64)).expect("below a usize")
    }
}

/// One of two inputs, changed: bits flipped, a byte replaced, cut, doubled, or its beginning before the other's end.
fn changed(numbers: &mut Numbers, one: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = one.to_vec();
    for _ in 0..=numbers.below(3) {
        let at = numbers.below(bytes.len());
        match numbers.below(6) {
            0 => bytes.truncate(at),
            1 => bytes.extend_from_within(at..),
            2 => bytes.splice(at.., other[numbers.below(other.len())..].iter().copied()).for_each(drop),
            3 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = [0, 0x7f, 0x80, 0xff][at % 4]),
            _ => {
                let bit = 1 << numbers.below(8);
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= bit);
            }
        }
    }
    bytes
}

/// Runs a target over the inputs; the first that breaks it, in words.
fn broken((name, run): Target, inputs: impl IntoIterator<Item = (String, Vec<u8>)>) -> Option<String> {
    inputs.into_iter().find_map(|(from, bytes)| {
        let result = catch_unwind(|| run(&bytes));
        result.err().map(|_| format!("{name} panics at {from}: {}", bytes.escape_ascii()))
    })
}

#[test]
fn what_was_found_before_breaks_nothing() {
    let found: Vec<String> =
        targets().into_iter().filter_map(|target| broken(target, kept(target.0))).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn what_is_nearly_that_breaks_nothing() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut found = Vec::new();
    for target in targets() {
        let kept = kept(target.0);
        let count = if COSTLY.contains(&target.0) { CHANGED_COSTLY } else { CHANGED };
        let inputs = (0..count).map(|number| {
            let (name, one) = &kept[number % kept.len()];
            let (_, other) = &kept[numbers.below(kept.len())];
            (format!("{name}, changed"), changed(&mut numbers, one, other))
        });
        found.extend(broken(target, inputs.collect::<Vec<_>>()));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_target_has_a_small_corpus_and_every_corpus_a_target() {
    let names: BTreeSet<String> = targets().into_iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(names.len(), targets().len(), "a name is taken twice");
    let entries = fs::read_dir(root().join("tests/fixtures/fuzz")).expect("tests/fixtures/fuzz");
    let folders: BTreeSet<String> = entries
        .map(|entry| entry.expect("entry"))
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(
        folders, names,
        "each target needs a folder below tests/fixtures/fuzz, with at least one input"
    );
    for name in names {
        let kept = kept(&name);
        assert!((1..=FILES_MAX).contains(&kept.len()), "{name}: {} files", kept.len());
        let long = kept.iter().find(|(_, bytes)| bytes.len() > BYTES_MAX);
        assert!(long.is_none(), "{name}: {} is too long", long.map_or("", |(file, _)| file));
    }
}

#[test]
fn a_target_that_panics_is_seen_with_its_input() {
    fn breaks_at_two(bytes: &[u8]) {
        assert!(bytes.len() != 2, "two");
    }
    let inputs = |lengths: &[usize]| -> Vec<(String, Vec<u8>)> {
        lengths.iter().map(|length| (length.to_string(), vec![b'x'; *length])).collect()
    };
    assert_eq!(broken(("t", breaks_at_two), inputs(&[0, 1, 3])), None);
    assert_eq!(broken(("t", breaks_at_two), inputs(&[1, 2])).as_deref(), Some("t panics at 2: xx"));
    let mut numbers = Numbers(1);
    let all: BTreeSet<Vec<u8>> = (0..100).map(|_| changed(&mut numbers, b"abcdef", b"ghi")).collect();
    assert!(all.len() > 50, "changes differ");
}

//! One pattern of a kernel-log rule: literal text with a few kinds of gaps, found anywhere in a line.

/// A literal shorter than this would be found in too many lines for one pass to be cheap.
const ANCHOR_MIN: usize = 4;

/// Literal text, `*` for anything, `{n}` for decimal digits, `{hex}` for hexadecimal digits with or without `0x`, and `{word}` for
/// letters, digits and `_ - . @`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// What must follow each other at once; between two of them lies anything.
    segments: Vec<Vec<Part>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(Box<[u8]>),
    Number,
    Hex,
    Word,
}

impl Pattern {
    /// Reads the text of a pattern; the error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let segments: Vec<Vec<Part>> = text.split('*').map(segment).collect::<Result<Vec<_>, _>>()?;
        let segments: Vec<_> = segments.into_iter().filter(|parts| !parts.is_empty()).collect();
        let pattern = Self { segments };
        if pattern.anchor().len() < ANCHOR_MIN {
            return Err(format!("'{text}' has no literal text of {ANCHOR_MIN} letters or more"));
        }
        Ok(pattern)
    }

    /// The longest literal: a line without it cannot match.
    pub(crate) fn anchor(&self) -> &[u8] {
        // The first of equally long ones, so that the answer does not depend on the iterator.
        self.literals().rev().max_by_key(|literal| literal.len()).unwrap_or_default()
    }

    /// How many letters of a line are told by literal text: of two patterns that match, the one that tells more is meant.
    pub(crate) fn weight(&self) -> usize {
        self.literals().map(<[u8]>::len).sum()
    }

    /// Whether it is found in a line. The first place for each segment is the right one: what lies between is anything.
    pub(crate) fn matches(&self, line: &[u8]) -> bool {
        let mut from = 0;
        self.segments.iter().all(|parts| match find(parts, line, from) {
            Some(end) => {
                from = end;
                true
            }
            None => false,
        })
    }

    fn literals(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.segments.iter().flatten().filter_map(|part| match part {
            Part::Literal(text) => Some(&**text),
            Part::Number | Part::Hex | Part::Word => None,
        })
    }
}

fn segment(text: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (literal, gap) = rest.find('{').map_or((rest, None), |at| (&rest[..at], Some(&rest[at..])));
        if !literal.is_empty() {
            let last = parts.last();
            let begins = literal.as_bytes().first().copied().unwrap_or_default();
            if last.is_some_and(|part| swallows(part, begins)) {
                return Err(format!("'{literal}' begins with a letter that the gap before it takes as well"));
            }
            parts.push(Part::Literal(literal.as_bytes().into()));
        }
        let Some(gap) = gap else { break };
        let end = gap.find('}').ok_or_else(|| format!("'{gap}' has no closing brace"))?;
        parts.push(match &gap[..=end] {
            "{n}" => Part::Number,
            "{hex}" => Part::Hex,
            "{word}" => Part::Word,
            other => return Err(format!("'{other}' is not one of {{n}}, {{hex}}, {{word}}")),
        });
        rest = &gap[end + 1..];
    }
    Ok(parts)
}

fn swallows(part: &Part, byte: u8) -> bool {
    match part {
        Part::Literal(_) => false,
        Part::Number => byte.is_ascii_digit(),
        Part::Hex => byte.is_ascii_hexdigit(),
        Part::Word => is_word(byte),
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'@')
}

/// Where the first place from `from` on ends at which all parts follow each other.
fn find(parts: &[Part], line: &[u8], from: usize) -> Option<usize> {
    (from..line.len()).find_map(|start| follow(parts, line, start))
}

fn follow(parts: &[Part], line: &[u8], start: usize) -> Option<usize> {
    parts.iter().try_fold(start, |at, part| {
        let rest = &line[at..];
        let run = |accept: fn(&u8) -> bool, from: usize| {
            let length = rest.iter().skip(from).take_while(|byte| accept(byte)).count();
            (length > 0).then_some(at + from + length)
        };
        match part {
            Part::Literal(text) => rest.starts_with(text).then_some(at + text.len()),
            Part::Number => run(u8::is_ascii_digit, 0),
            Part::Hex if rest.starts_with(b"0x") => run(u8::is_ascii_hexdigit, 2),
            Part::Hex => run(u8::is_ascii_hexdigit, 0),
            Part::Word => run(|byte| is_word(*byte), 0),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(pattern: &str, line: &str) -> bool {
        Pattern::parse(pattern).unwrap().matches(line.as_bytes())
    }

    #[test]
    fn gaps_take_what_they_are_for() {
        assert!(seen("Fatal error {n} detected", "a Fatal error 12 detected b"));
        assert!(!seen("Fatal error {n} detected", "Fatal error x detected"));
        assert!(!seen("Fatal error {n} detected", "Fatal error  detected"), "a gap is never empty");
        assert!(seen("synd {hex}: text", "synd 0x1f: text") && seen("(0x{hex}) text", "(0x805) text"));
        assert!(seen("slave {word}): gone", "slave ens1f0-a.5): gone"));
        assert!(seen("lag *ports: {n}", "lag map active ports: 1") && seen("Slot(*): Down", "Slot(): Down"));
        assert!(!seen("first*second", "second first"), "in this order only");
        assert!(seen("ab{n}cdef", "ab ab1x ab2cdef"), "a later place counts as well");
    }

    #[test]
    fn the_longest_literal_stands_for_the_pattern() {
        let pattern = Pattern::parse("abc{n} longest one*short").unwrap();
        assert_eq!(pattern.anchor(), b" longest one");
        assert_eq!(pattern.weight(), 3 + 12 + 5);
        assert_eq!(Pattern::parse("abcd*efgh").unwrap().anchor(), b"abcd");
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (text, why) in [
            ("abc*{n}", "no literal"),
            ("", "no literal"),
            ("abcd{x}", "not one of"),
            ("abcd{n", "closing brace"),
            ("abcd{n}5 x", "takes as well"),
            ("abcd{word}x", "takes as well"),
        ] {
            let error = Pattern::parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}

//! Traffic classes by the names that network people give to DSCPs.

/// The class of a number (0 to 63) or of a name: `cs0` to `cs7`, `af11` to `af43`, `ef`, `default` (RFC 2474, RFC 2597, RFC 3246).
#[must_use]
pub fn class_from_word(word: &str) -> Option<u8> {
    let word = word.to_ascii_lowercase();
    let digit = |c: Option<char>| c.and_then(|c| c.to_digit(10)).and_then(|d| u8::try_from(d).ok());
    match word.as_str() {
        "default" | "be" => return Some(0),
        "ef" => return Some(46),
        _ => {}
    }
    if let Some(rest) = word.strip_prefix("cs") {
        let mut letters = rest.chars();
        return digit(letters.next())
            .filter(|class| *class <= 7 && letters.next().is_none())
            .map(|class| class << 3);
    }
    if let Some(rest) = word.strip_prefix("af") {
        let mut letters = rest.chars();
        let (class, drop) = (digit(letters.next())?, digit(letters.next())?);
        let good = (1..=4).contains(&class) && (1..=3).contains(&drop) && letters.next().is_none();
        return good.then_some((class << 3) | (drop << 1));
    }
    word.parse().ok().filter(|class| *class <= 63)
}

#[cfg(test)]
mod tests {
    use super::class_from_word;

    #[test]
    fn numbers_and_names_of_the_rfcs_are_known() {
        let known = [
            ("0", 0),
            ("26", 26),
            ("63", 63),
            ("cs3", 24),
            ("AF31", 26),
            ("af43", 38),
            ("ef", 46),
            ("default", 0),
        ];
        for (word, class) in known {
            assert_eq!(class_from_word(word), Some(class), "{word}");
        }
        for word in ["", "64", "-1", "cs8", "cs", "cs33", "af51", "af14", "af311", "gold"] {
            assert_eq!(class_from_word(word), None, "{word}");
        }
    }
}

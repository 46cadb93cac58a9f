//! How an error is told to a person: everything that is behind it, in one line.

use std::error::Error;

/// An error and its sources, joined by colons.
#[must_use]
pub fn in_one_line(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt;

    #[derive(Debug)]
    struct Told(&'static str, Option<Box<Told>>);

    impl fmt::Display for Told {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Told {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|inner| inner as _)
        }
    }

    #[test]
    fn nothing_behind_an_error_is_left_out() {
        let error = Told("cannot open", Some(Box::new(Told("device", Some(Box::new(Told("busy", None)))))));
        assert_eq!(in_one_line(&error), "cannot open: device: busy");
        assert_eq!(in_one_line(&Told("alone", None)), "alone");
    }
}

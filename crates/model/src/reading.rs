//! A value from the machine, with "not there" and "could not look" kept apart from it.

/// What came of looking at one thing. There is no default on purpose: nobody may mistake a missing value for 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading<T> {
    /// The value, as the kernel gave it.
    Value(T),
    /// This machine does not have it (no such file, not supported by the driver).
    Absent,
    /// It should be there and could not be read; the text says what was tried and what went wrong.
    Failed(String),
}

impl<T> Reading<T> {
    /// It could not be read; `why` says what was tried and what went wrong.
    #[must_use]
    pub fn failed(why: &str) -> Self {
        Self::Failed(why.to_owned())
    }

    /// The value, where there is one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Value(v) => Some(v),
            Self::Absent | Self::Failed(_) => None,
        }
    }

    /// The same reading with the value changed.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Reading<U> {
        match self {
            Self::Value(v) => Reading::Value(f(v)),
            Self::Absent => Reading::Absent,
            Self::Failed(why) => Reading::Failed(why),
        }
    }

    /// The same reading by reference.
    pub fn as_ref(&self) -> Reading<&T> {
        match self {
            Self::Value(v) => Reading::Value(v),
            Self::Absent => Reading::Absent,
            Self::Failed(why) => Reading::Failed(why.clone()),
        }
    }

    /// Why there is no value, in words for a person; `None` when there is one.
    pub fn why_missing(&self) -> Option<&str> {
        match self {
            Self::Value(_) => None,
            Self::Absent => Some("not present on this machine"),
            Self::Failed(why) => Some(why),
        }
    }
}

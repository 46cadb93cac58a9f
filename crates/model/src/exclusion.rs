//! Why a probe was not run: a reason that says nothing about the pair, with its words and the next step.

/// Why a probe was not run, which says nothing about the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exclusion {
    /// The port carries traffic or a job, or this could not be told.
    Busy = 1,
    /// The node is in maintenance.
    Maintenance = 2,
    /// A rule says so: probing is paused, or the two endpoints are of different fabrics.
    Policy = 3,
}

impl Exclusion {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Busy, Self::Maintenance, Self::Policy];

    /// The word used on the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.words().0
    }

    /// The exclusion of that word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|why| why.as_str() == word)
    }

    /// What it means.
    #[must_use]
    pub fn text(self) -> &'static str {
        self.words().1
    }

    /// What to do next.
    #[must_use]
    pub fn next_step(self) -> &'static str {
        self.words().2
    }

    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Busy => (
                "busy",
                "A port of the pair carries traffic or a job, or this could not be told.",
                "Nothing is wrong: try when the port is idle. On drained nodes ask for a drained sweep or probe (--drained).",
            ),
            Self::Maintenance => (
                "maintenance",
                "A node of the pair is in maintenance.",
                "End the maintenance when it is over.",
            ),
            Self::Policy => (
                "policy",
                "Probing is paused, the probe asked for more than a working node allows, or the two endpoints cannot be paired: \
                 different fabrics, rails that are not routed to each other, or the same node.",
                "To end a pause: `rdmascope resume`, or remove the pause file on the node. The step `admit` of the probe says more.",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reads_back_and_has_its_sentences() {
        for why in Exclusion::ALL {
            assert_eq!(Exclusion::from_word(why.as_str()), Some(why));
            assert!(why.text().ends_with('.') && why.next_step().ends_with(['.', ')']), "{}", why.as_str());
        }
        assert_eq!(Exclusion::from_word("no such word"), None);
    }
}

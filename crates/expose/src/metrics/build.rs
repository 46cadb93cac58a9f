//! Which program this is, as both daemons and a look tell it: version, role, and the revision of its sources where it was told.

use std::sync::OnceLock;

use super::catalogue::BUILD_INFO;
use super::text::Text;

static REVISION: OnceLock<&str> = OnceLock::new();

/// Says once, at the start of the program, which revision of the sources it was built from. It is compiled into the binary's crate
/// alone, since whatever is compiled with it is compiled again for every commit.
pub fn built_from(revision: &'static str) {
    // The first word stands: a program has one revision.
    let _ = REVISION.set(revision);
}

pub(super) fn build_info(text: &mut Text, version: &str, role: &str) {
    let revision = REVISION.get().copied().unwrap_or_default();
    text.family(&BUILD_INFO, |out| out.add(&[version, role, revision], 1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_revision_is_told_by_programs_that_were_told_it() {
        let said = || {
            let mut text = Text::default();
            build_info(&mut text, "1.2.3", "agent");
            text.done()
        };
        assert!(
            said().ends_with("\nrdmascope_build_info{version=\"1.2.3\",role=\"agent\"} 1\n"),
            "{}",
            said()
        );
        built_from("abc1234");
        built_from("later");
        assert!(said().contains(r#"{version="1.2.3",role="agent",revision="abc1234"} 1"#), "{}", said());
    }
}

//! Which protocol versions understand each other.

/// Newest protocol version of this program.
///
/// Version 2: complete findings, and the frames `Facts`, `Events` and `EventsSeen`, which are sent only where 2 was agreed on.
/// Version 3: mesh pings (addresses in the book, the frame `Pings`), and probes in other manners.
pub const PROTOCOL_MAX: u32 = 3;
/// Oldest one that it still speaks: the current version and the two before it.
pub const PROTOCOL_MIN: u32 = 1;

/// The two sides have no version in common.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no common protocol version: the agent speaks {agent_min} to {agent_max}, \
     the coordinator {PROTOCOL_MIN} to {PROTOCOL_MAX}; update the older one"
)]
pub struct VersionMismatch {
    agent_min: u32,
    agent_max: u32,
}

/// The newest version that both sides speak.
///
/// # Errors
/// When there is none; the text names both ranges.
pub fn negotiate(agent_min: u32, agent_max: u32) -> Result<u32, VersionMismatch> {
    let version = agent_max.min(PROTOCOL_MAX);
    if version >= agent_min.max(PROTOCOL_MIN) {
        Ok(version)
    } else {
        Err(VersionMismatch { agent_min, agent_max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_common_version_is_used() {
        assert_eq!(negotiate(1, 1), Ok(1));
        assert_eq!(negotiate(1, 9), Ok(PROTOCOL_MAX));
    }

    #[test]
    fn without_a_common_version_both_ranges_are_named() {
        let text = negotiate(7, 9).unwrap_err().to_string();
        assert!(text.contains("agent speaks 7 to 9") && text.contains("coordinator 1 to 3"), "{text}");
        assert!(negotiate(0, 0).is_err());
    }
}

//! Does the firmware run, and is it the one that it should be?

pub(super) mod device_health;
pub(super) mod firmware_version;

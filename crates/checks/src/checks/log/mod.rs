//! Checks of the kernel log.

mod conditions;
pub(super) mod events;
mod events_text;
pub(super) mod lost;
mod place;

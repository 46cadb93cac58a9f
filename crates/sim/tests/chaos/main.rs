//! Chaos on the virtual clock: whatever is done to a cluster, what must never happen does not, and afterwards all is well again.
//!
//! What a control connection can do is what TCP below a WebSocket can: it delivers every frame once and in order, or it breaks, at any
//! frame; what is behind the break is lost at both ends. It can be half open: one end or both believe in it, and everything sent is
//! swallowed until a time-out or until the way is open again, when it all arrives late. It cannot lose or double a frame in its middle.
//! So "30 % of messages lost" is a connection of which 30 % of the frames break it, and messages come twice where agents send again, after
//! a reconnect, what was not acknowledged: events, and with a new coordinator the last result of each pair.
//!
//! `CHAOS_SEEDS=5000 cargo test -p rdmascope-sim --test chaos schedules` tries so many schedules; a failure names its seed, and
//! `CHAOS_SEED=77` repeats that one alone.

#[cfg(test)]
mod check;
#[cfg(test)]
mod coordinators;
#[cfg(test)]
mod schedules;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod world;

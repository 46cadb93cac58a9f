//! The simulated fabric that drives the real states on a virtual clock.

//! Sweeps of nodes with several adapters on the virtual clock: how long they take, and that they are what their plan says.

#[cfg(test)]
mod continuous;
#[cfg(test)]
mod figures;
#[cfg(test)]
mod passes;
#[cfg(test)]
mod world;

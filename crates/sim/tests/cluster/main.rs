//! A whole cluster's states in one thread on the virtual clock: what the matrix says, whatever happens to the cluster.

#[cfg(test)]
mod background;
#[cfg(test)]
mod common;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod history;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod mesh;
#[cfg(test)]
mod paths;
#[cfg(test)]
mod reports;
#[cfg(test)]
mod restarts;
#[cfg(test)]
mod safety;
#[cfg(test)]
mod sweeps;

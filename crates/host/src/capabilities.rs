//! Gives up what a daemon never uses, right after its start: whoever takes it over cannot do with the machine what it could not.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, capabilities, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};

/// Ports below this want a capability.
const FREE_PORTS_FROM: u16 = 1_024;
/// Capabilities that a kernel can know: they are bits of one number.
const NUMBERS: u32 = 64;

/// What an agent looks with; `deploy/README.md` says what each is for. None of them writes to another's file.
const AGENT: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::SYSLOG)
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::SYS_ADMIN)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::DAC_READ_SEARCH);

/// Gives up everything that an agent does not look with, for this thread and all that it starts: to be called before any is started.
/// `port` is its own, if it has one.
///
/// # Errors
/// The kernel does not let it.
pub fn keep_what_an_agent_needs(port: Option<u16>) -> std::io::Result<()> {
    keep(AGENT.union(of_port(port)))
}

/// Gives up everything, likewise: a coordinator needs no more than its files and its port.
///
/// # Errors
/// The kernel does not let it.
pub fn keep_what_a_coordinator_needs(port: u16) -> std::io::Result<()> {
    keep(of_port(Some(port)))
}

fn of_port(port: Option<u16>) -> CapabilitySet {
    match port {
        Some(1..FREE_PORTS_FROM) => CapabilitySet::NET_BIND_SERVICE,
        _ => CapabilitySet::empty(),
    }
}

fn keep(kept: CapabilitySet) -> std::io::Result<()> {
    // No program that it might start gets more than it has.
    set_no_new_privs(true)?;
    for number in 0..NUMBERS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if kept.contains(one) {
            continue;
        }
        match remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // The kernel knows no more of them; or it takes a capability to give them up here, and whoever has none cannot get any.
            Err(Errno::INVAL | Errno::PERM) => break,
            Err(error) => return Err(error.into()),
        }
    }
    match clear_ambient_capability_set() {
        // A kernel without it has nothing in it.
        Ok(()) | Err(Errno::INVAL) => {}
        Err(error) => return Err(error.into()),
    }
    let mut sets = capabilities(None)?;
    if kept.contains(sets.permitted | sets.inheritable) {
        // A unit that gave it no more may also have taken the call itself from it.
        return Ok(());
    }
    sets.permitted &= kept;
    sets.effective = sets.permitted;
    sets.inheritable = CapabilitySet::empty();
    Ok(set_capabilities(None, sets)?)
}

//! The thread of one endpoint for calls that may block in the kernel: opening, address handles, closing. Never a second one
//! while it is stuck.

use super::port::{Key, Own, Parts, Slot, open};
use super::wake::Wake;
use crate::verbs::Means;
use crate::verbs::device::Endpoint;
use crate::verbs::keeper::Registry;
use crate::verbs::trouble::Trouble;
use rdmascope_model::{EndpointInfo, EndpointName, Failure, LeaseId, Role, Step};
use rdmascope_sys::{AddressHandle, ProtectionDomain};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Tasks that wait for a thread that hangs in the kernel.
const TASKS_MAX: usize = 64;

/// What addresses are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Batch(u32),
    Lease(LeaseId),
    /// Answers that wait, or the renewal of an old address.
    Answers,
}

/// Made, or why not, address by address.
pub(super) type Made = (Vec<(Key, AddressHandle)>, Result<(), Failure>);

pub(super) enum Task {
    Open {
        serial: u64,
        info: Box<EndpointInfo>,
        queue_key: u32,
    },
    Addresses {
        serial: u64,
        own: Box<Own>,
        domain: ProtectionDomain,
        keys: Vec<Key>,
        purpose: Purpose,
    },
    /// Old addresses: dropped there, since that calls the kernel.
    Drop(Vec<AddressHandle>),
    /// The endpoint is closed: nothing of it stays open.
    Close(Option<Box<Parts>>),
}

/// What came of a task; `serial` is that of the endpoint's opening.
pub(super) enum Done {
    Opened { name: EndpointName, serial: u64, made: Result<(Own, Slot), Failure> },
    Addresses { serial: u64, keys: Vec<Key>, purpose: Purpose, made: Made },
}

/// Starts the thread. It ends when its tasks' sender is dropped.
pub(super) fn spawn(
    name: &EndpointName,
    registry: &Arc<Registry>,
    done: SyncSender<Done>,
    wake: Wake,
) -> std::io::Result<SyncSender<Task>> {
    let (tasks, inbox) = sync_channel(TASKS_MAX);
    let registry = Arc::clone(registry);
    // The kernel shows 15 characters of it.
    let name = format!("mesh {}", name.device);
    std::thread::Builder::new().name(name).spawn(move || work(&registry, &inbox, &done, &wake))?;
    Ok(tasks)
}

fn work(registry: &Arc<Registry>, inbox: &Receiver<Task>, done: &SyncSender<Done>, wake: &Wake) {
    let closed = || Endpoint::new(Arc::clone(registry), Means::of_this_machine(&registry.nodes));
    let mut device = closed();
    for task in inbox {
        let told = match task {
            Task::Open { serial, info, queue_key } => {
                let made =
                    open(&device, &info, queue_key).map_err(|t| device.failed(t).seen_by(Role::Source));
                Done::Opened { name: info.name, serial, made }
            }
            Task::Addresses { serial, own, domain, keys, purpose } => {
                let made = addresses(&own, &domain, &keys);
                Done::Addresses { serial, keys, purpose, made }
            }
            Task::Drop(handles) => {
                drop(handles);
                continue;
            }
            Task::Close(parts) => {
                drop(parts);
                device = closed();
                continue;
            }
        };
        // The poller is gone: nobody waits for this any more.
        if done.send(told).is_err() {
            return;
        }
        wake.wake();
    }
}

fn addresses(own: &Own, domain: &ProtectionDomain, keys: &[Key]) -> Made {
    let (mut made, context) = (Vec::with_capacity(keys.len()), domain.context());
    for key in keys {
        let failed = |error| Trouble::verb(Step::Resolve, &error);
        let one = own.way_to(key, &context).and_then(|way| domain.create_address(&way).map_err(failed));
        match one {
            Ok(handle) => made.push((*key, handle)),
            Err(trouble) => return (made, Err(trouble.seen_by(Role::Source))),
        }
    }
    (made, Ok(()))
}

//! Buffers in the memory of a GPU: what can be measured with them, and how they come about.
//!
//! The processor has no view of that memory. Nothing can be waited for in it, so there is no latency by RDMA writes and no signal behind
//! the buffer; bandwidth of RDMA writes in one direction needs neither.

use super::{Means, Trouble};
use rdmascope_model::{Cause, Memory, Operation, ProbePlan, ProbeSpec, Role, Step};
use rdmascope_sys::{Access, Cuda, GpuMemory, MemoryRegion, ProtectionDomain, Verb};
use rustix::io::Errno;
use std::error::Error as _;

/// The GPU that the own buffer is to lie in.
pub(super) fn index(plan: &ProbePlan) -> Option<u8> {
    let manner = plan.manner;
    match if plan.role == Role::Source { manner.source_memory } else { manner.target_memory } {
        Memory::Host => None,
        Memory::Gpu(index) => Some(index),
    }
}

/// Both ends refuse what cannot be measured when either has its buffer in a GPU.
pub(super) fn refuse_what_needs_a_view(plan: &ProbePlan) -> Result<(), Trouble> {
    let manner = plan.manner;
    if manner.source_memory == Memory::Host && manner.target_memory == Memory::Host {
        return Ok(());
    }
    let bandwidth = matches!(plan.spec, ProbeSpec::Bandwidth(_));
    if bandwidth && manner.operation == Operation::Write && !manner.both_ways {
        return Ok(());
    }
    let evidence = "the processor does not see the memory of a GPU: only bandwidth by RDMA write in one direction can be measured there";
    Err(not_available(evidence.to_owned()))
}

/// Memory of the GPU, and its registration with the device.
pub(super) fn region(
    domain: &ProtectionDomain,
    means: &Means,
    index: u8,
    bytes: usize,
    access: Access,
) -> Result<(MemoryRegion, GpuMemory), Trouble> {
    let cuda = Cuda::open(means.cuda.as_deref()).map_err(|error| {
        let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
        not_available(format!("{error}{source}"))
    })?;
    let memory = cuda.allocate(index, bytes).map_err(|error| not_available(error.to_string()))?;
    let missing = || not_available(format!("GPU {index} handed out no dma-buf"));
    let descriptor = memory.descriptor().ok_or_else(missing)?;
    let region = domain.register_dmabuf(descriptor, 0, bytes, access).map_err(|error| {
        let errno = Errno::from_raw_os_error(error.errno);
        let refused = matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::NOTTY);
        if error.verb == Verb::RegDmabufMr && refused {
            let needs =
                "the device's driver, the kernel (5.12) and libibverbs (rdma-core 34) must all know dma-bufs";
            return not_available(format!("{error}: {needs}"));
        }
        Trouble::verb(Step::Open, &error)
    })?;
    Ok((region, memory))
}

fn not_available(evidence: String) -> Trouble {
    Trouble::new(Cause::NotAvailable, Step::Open, evidence)
}

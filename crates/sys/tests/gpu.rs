//! GPU memory over a fake driver library and a fake libibverbs, and what is said where something of it is missing.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "fake/driver.rs"]
mod driver;
mod fake;

use driver::Driver;
use fake::Fake;
use rdmascope_sys::{
    Access, Completion, CompletionStatus, Cuda, InitAttributes, Mtu, QueuePairKind, QueuePairOptions,
    ReadyToReceiveAttributes, ReadyToSendAttributes, RemoteBuffer, SendRequest,
};
use rdmascope_sys::{AddressVector, GlobalRoute};
use std::os::fd::AsFd;
use std::path::Path;

fn cuda(driver: &Driver) -> Cuda {
    Cuda::open(Some(driver.path())).unwrap()
}

#[test]
fn a_host_without_the_driver_or_with_an_old_one_says_so() {
    let text = Cuda::open(Some(Path::new("/nonexistent/libcuda.so.1"))).err().unwrap().to_string();
    assert!(text.starts_with("/nonexistent/libcuda.so.1 cannot be loaded"), "{text}");
    assert!(text.contains("NVIDIA driver"), "{text}");
    let old = Driver::built_with("old", &["-DOLD"]);
    let text = Cuda::open(Some(old.path())).err().unwrap().to_string();
    assert!(text.contains("cuMemGetHandleForAddressRange") && text.contains("515"), "{text}");
}

#[test]
fn each_thing_that_is_missing_is_named_and_nothing_is_kept() {
    let driver = Driver::built_with("missing", &[]);
    let text = cuda(&driver).allocate(7, 4096).err().unwrap().to_string();
    assert_eq!(text, "GPU 7: cuDeviceGet: CUDA_ERROR_INVALID_DEVICE (CUDA error 101)");
    assert_eq!(driver.live(), 0);
    let driver = Driver::built_with("without", &["-DNO_DMABUF=1"]);
    let text = cuda(&driver).allocate(1, 4096).err().unwrap().to_string();
    assert!(text.starts_with("GPU 1 cannot hand out its memory as a dma-buf"), "{text}");
    let driver = Driver::built_with("full", &["-DALLOCATE=2"]);
    let text = cuda(&driver).allocate(0, 4096).err().unwrap().to_string();
    assert_eq!(text, "GPU 0: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (CUDA error 2)");
    assert_eq!(driver.live(), 0, "the context was given back");
}

#[test]
fn devices_write_into_gpu_memory_that_this_process_does_not_see() {
    let fake = Fake::new();
    let driver = Driver::built_with("write", &[]);
    let memory = cuda(&driver).allocate(0, 10_000).unwrap();
    let context = fake.open_first();
    let domain = context.alloc_protection_domain().unwrap();
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let gpu = domain.register_dmabuf(memory.descriptor().unwrap(), 4096, 4096, access).unwrap();
    assert!(gpu.bytes().is_empty(), "no view of it");
    assert_eq!((gpu.len(), gpu.write(0, b"x")), (4096, 0));
    let host = domain.register(64, access).unwrap();

    let queue = context.create_completion_queue(16, None).unwrap();
    let options = QueuePairOptions {
        kind: QueuePairKind::ReliableConnection,
        send_depth: 4,
        receive_depth: 1,
        max_inline: 64,
    };
    let [mut one, mut other] = [(), ()].map(|()| domain.create_queue_pair(&queue, &queue, &options).unwrap());
    let numbers = [one.number(), other.number()];
    for (pair, peer) in [(&mut one, numbers[1]), (&mut other, numbers[0])] {
        pair.to_init(&InitAttributes { port: 1, pkey_index: 0, access, queue_key: 0 }).unwrap();
        let route = GlobalRoute {
            destination: [0; 16],
            source_index: 3,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
        };
        let ready = ReadyToReceiveAttributes {
            address: AddressVector::routed(1, route),
            path_mtu: Mtu::Bytes1024,
            peer_queue_pair: peer,
            receive_sequence: 0,
            max_incoming_reads: 1,
            receiver_not_ready_timer: 12,
        };
        pair.to_ready_to_receive(&ready).unwrap();
        let ready = ReadyToSendAttributes {
            send_sequence: 0,
            timeout: 14,
            retries: 6,
            receiver_not_ready_retries: 6,
            max_outgoing_reads: 1,
        };
        pair.to_ready_to_send(&ready).unwrap();
    }
    let complete = |request: &mut SendRequest<'_>| {
        one.post(request).unwrap();
        let mut room = [Completion::default()];
        queue.poll(&mut room).unwrap()[0].status()
    };
    // Into the GPU, and back to where it can be read; inline data of a GPU would be read at an address of this process.
    host.write(0, b"gpu!");
    let there = RemoteBuffer { address: gpu.address() + 100, key: gpu.remote_key() };
    let mut write = SendRequest::write(&host, 0..4, there).unwrap();
    assert_eq!(complete(&mut write), CompletionStatus::Success);
    let back = RemoteBuffer { address: host.address() + 8, key: host.remote_key() };
    let mut fetch = SendRequest::write(&gpu, 100..104, back).unwrap().inline(true);
    assert_eq!(complete(&mut fetch), CompletionStatus::Success);
    let mut seen = [0; 4];
    host.read(8, &mut seen);
    assert_eq!(&seen, b"gpu!");
    assert!(SendRequest::write(&gpu, 4090..4100, back).is_err(), "outside the registered part");

    drop((one, other, queue, gpu, host, domain, context));
    drop(memory);
    assert_eq!(driver.live(), 0);
    fake.assert_nothing_left();
}

#[test]
fn registration_that_is_refused_or_not_known_is_an_error_of_its_verb() {
    let fake = Fake::new();
    let domain = fake.open_first().alloc_protection_domain().unwrap();
    let file = std::fs::File::open("/dev/null").unwrap();
    fake.set("reg_dmabuf_mr", 95);
    let refused = domain.register_dmabuf(file.as_fd(), 0, 4096, Access::LOCAL_WRITE).err().unwrap();
    assert_eq!(refused.to_string(), "fake_0: ibv_reg_dmabuf_mr: Operation not supported (errno 95)");
    let empty = domain.register_dmabuf(file.as_fd(), 0, 0, Access::LOCAL_WRITE).err().unwrap();
    assert_eq!(empty.errno, 22);
    let old = Fake::built_with(&["-DFAKE_WITHOUT_DMABUF"]);
    let domain = old.open_first().alloc_protection_domain().unwrap();
    let refused = domain.register_dmabuf(file.as_fd(), 0, 4096, Access::LOCAL_WRITE).err().unwrap();
    assert_eq!(refused.errno, 95, "a library from before the call");
}

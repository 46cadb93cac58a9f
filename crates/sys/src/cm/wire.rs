//! The connection manager's commands as the kernel reads them (`<rdma/rdma_user_cm.h>`); numbers in the machine's byte order.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use super::{ConnectionAddresses, ConnectionParameters, PRIVATE_DATA_MAX};

/// 32-bit words of `struct rdma_ucm_event_resp`.
pub(crate) const EVENT_WORDS: usize = 336 / 4;
/// 32-bit words of `struct rdma_ucm_query_addr_resp`.
pub(crate) const ADDRESSES_WORDS: usize = 280 / 4;
/// Bytes of the kernel's `struct sockaddr_storage`.
const STORAGE: usize = 128;
/// Bytes for private data in `struct rdma_ucm_conn_param`.
const PRIVATE_DATA: usize = 256;
/// `RDMA_PS_TCP`: the ports of connections.
const PORTS_OF_CONNECTIONS: u16 = 0x0106;
/// `IBV_QPT_RC`.
const RELIABLE_CONNECTION: u8 = 2;
/// The kernel keeps events of an end to itself while its user's mark is 0 (`ucma_event_handler`). Ends are told apart by their number.
const OURS: u64 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// One command without its header.
pub(super) struct Body {
    number: u32,
    bytes: Vec<u8>,
    /// Where the address of the answer's place stands.
    answer_at: usize,
}

impl Body {
    fn new(number: u32) -> Self {
        Self { number, bytes: Vec::with_capacity(400), answer_at: 0 }
    }

    fn u64(mut self, value: u64) -> Self {
        self.bytes.extend(value.to_ne_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.bytes.extend(value.to_ne_bytes());
        self
    }

    fn u16(mut self, value: u16) -> Self {
        self.bytes.extend(value.to_ne_bytes());
        self
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self
    }

    /// The address of the answer's place comes here.
    fn answer(mut self) -> Self {
        self.answer_at = self.bytes.len();
        self.u64(0)
    }

    fn storage(self, address: SocketAddr) -> Self {
        let mut storage = [0; STORAGE];
        let family = if address.is_ipv4() { AF_INET } else { AF_INET6 };
        storage[..2].copy_from_slice(&family.to_ne_bytes());
        storage[2..4].copy_from_slice(&address.port().to_be_bytes());
        match address {
            SocketAddr::V4(v4) => storage[4..8].copy_from_slice(&v4.ip().octets()),
            SocketAddr::V6(v6) => {
                storage[8..24].copy_from_slice(&v6.ip().octets());
                storage[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
            }
        }
        self.raw(&storage)
    }

    /// `struct rdma_ucm_conn_param`. iWARP takes no notice of retries, flow control and queue keys.
    fn parameters(self, parameters: &ConnectionParameters<'_>) -> Self {
        let mut data = [0; PRIVATE_DATA];
        let length = parameters.private_data.len().min(PRIVATE_DATA_MAX);
        data[..length].copy_from_slice(&parameters.private_data[..length]);
        let reads = [parameters.max_incoming_reads, parameters.max_outgoing_reads];
        let (no_shared_queue, flow_control, retries, receiver_not_ready_retries, valid) = (0, 0, 7, 7, 1);
        self.u32(parameters.queue_pair).u32(0).raw(&data).raw(&[
            length as u8,
            no_shared_queue,
            reads[0],
            reads[1],
            flow_control,
            retries,
            receiver_not_ready_retries,
            valid,
        ])
    }

    pub(super) fn answer_at(&mut self, address: u64) {
        self.bytes[self.answer_at..self.answer_at + 8].copy_from_slice(&address.to_ne_bytes());
    }

    /// With the header: number, bytes that follow, bytes of the answer.
    pub(super) fn bytes(&self, answer: usize) -> Vec<u8> {
        let mut whole = Vec::with_capacity(8 + self.bytes.len());
        whole.extend(self.number.to_ne_bytes());
        whole.extend((self.bytes.len() as u16).to_ne_bytes());
        whole.extend((answer as u16).to_ne_bytes());
        whole.extend(&self.bytes);
        whole
    }
}

pub(super) fn create_id() -> Body {
    Body::new(0).u64(OURS).answer().u16(PORTS_OF_CONNECTIONS).raw(&[RELIABLE_CONNECTION]).raw(&[0; 5])
}

pub(super) fn destroy_id(id: u32) -> Body {
    Body::new(1).answer().u32(id).u32(0)
}

pub(super) fn resolve_route(id: u32, limit: Duration) -> Body {
    Body::new(4).u32(id).u32(milliseconds(limit))
}

pub(super) fn connect(id: u32, parameters: &ConnectionParameters<'_>) -> Body {
    let no_extras = 0;
    Body::new(6).parameters(parameters).u32(id).u32(0).u64(no_extras)
}

pub(super) fn listen(id: u32, backlog: u32) -> Body {
    Body::new(7).u32(id).u32(backlog)
}

pub(super) fn accept(id: u32, parameters: &ConnectionParameters<'_>) -> Body {
    let no_extras = 0;
    Body::new(8).u64(OURS).parameters(parameters).u32(id).u32(0).u64(no_extras)
}

pub(super) fn reject(id: u32) -> Body {
    Body::new(9).u32(id).raw(&[0; 4]).raw(&[0; PRIVATE_DATA])
}

pub(super) fn get_event() -> Body {
    Body::new(12).answer()
}

pub(super) fn query(id: u32) -> Body {
    let addresses = 0;
    Body::new(19).answer().u32(id).u32(addresses)
}

pub(super) fn bind(id: u32, address: SocketAddr) -> Body {
    Body::new(20).u32(id).u16(length(address)).u16(0).storage(address)
}

pub(super) fn resolve_address(id: u32, local: SocketAddr, peer: SocketAddr, limit: Duration) -> Body {
    let lengths = Body::new(21).u32(id).u32(milliseconds(limit)).u16(length(local)).u16(length(peer));
    lengths.u32(0).storage(local).storage(peer)
}

/// Bytes of `struct sockaddr_in` and `struct sockaddr_in6`.
fn length(address: SocketAddr) -> u16 {
    if address.is_ipv4() { 16 } else { 28 }
}

fn milliseconds(limit: Duration) -> u32 {
    u32::try_from(limit.as_millis()).unwrap_or(u32::MAX)
}

/// Reads `struct rdma_ucm_query_addr_resp`: node GUID (8), port (1), reserved (1), P_Key (2), both lengths (2 and 2), both addresses.
pub(crate) fn addresses(answer: &[u32; ADDRESSES_WORDS]) -> Option<ConnectionAddresses> {
    let bytes: Vec<u8> = answer.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let local = address(bytes.get(16..16 + STORAGE)?)?;
    let peer = address(bytes.get(16 + STORAGE..16 + 2 * STORAGE)?);
    Some(ConnectionAddresses { local, peer })
}

fn address(storage: &[u8]) -> Option<SocketAddr> {
    let two = |at: usize| storage.get(at..at + 2)?.try_into().ok();
    let port = u16::from_be_bytes(two(2)?);
    let ip: IpAddr = match u16::from_ne_bytes(two(0)?) {
        AF_INET => Ipv4Addr::from(<[u8; 4]>::try_from(storage.get(4..8)?).ok()?).into(),
        AF_INET6 => Ipv6Addr::from(<[u8; 16]>::try_from(storage.get(8..24)?).ok()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::process::Command;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    static SERIAL: AtomicU32 = AtomicU32::new(0);
    const V4: &str = "192.0.2.7:4711";
    const V6: &str = "[2001:db8::7]:4711";

    fn parameters(data: &[u8]) -> ConnectionParameters<'_> {
        ConnectionParameters {
            queue_pair: 0x0a0b,
            max_incoming_reads: 3,
            max_outgoing_reads: 4,
            private_data: data,
        }
    }

    /// What a C program says that the header's structures look like.
    fn by_the_header(expressions: &[&str]) -> Vec<usize> {
        let program: String =
            expressions.iter().map(|e| format!("printf(\"%zu\\n\", (size_t)({e}));")).collect();
        let source = format!(
            "#include <stddef.h>\n#include <stdio.h>\n#include <rdma/rdma_user_cm.h>\nint main(void) {{ {program} return 0; }}\n"
        );
        let program = std::env::temp_dir().join(format!(
            "rdmascope-ucm-{}-{}",
            std::process::id(),
            SERIAL.fetch_add(1, Relaxed)
        ));
        let mut compiler = Command::new("cc")
            .args(["-x", "c", "-", "-o"])
            .arg(&program)
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("cc runs: a C compiler is needed for tests");
        compiler.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
        assert!(compiler.wait().unwrap().success());
        let output = Command::new(&program).output().unwrap();
        std::fs::remove_file(&program).unwrap();
        String::from_utf8(output.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect()
    }

    #[test]
    fn every_command_has_the_size_and_number_of_the_kernels_header() {
        let (v4, limit) = (V4.parse().unwrap(), Duration::from_millis(1500));
        let bodies = [
            (create_id(), "RDMA_USER_CM_CMD_CREATE_ID", "struct rdma_ucm_create_id"),
            (destroy_id(1), "RDMA_USER_CM_CMD_DESTROY_ID", "struct rdma_ucm_destroy_id"),
            (resolve_route(1, limit), "RDMA_USER_CM_CMD_RESOLVE_ROUTE", "struct rdma_ucm_resolve_route"),
            (connect(1, &parameters(b"x")), "RDMA_USER_CM_CMD_CONNECT", "struct rdma_ucm_connect"),
            (listen(1, 2), "RDMA_USER_CM_CMD_LISTEN", "struct rdma_ucm_listen"),
            (accept(1, &parameters(b"x")), "RDMA_USER_CM_CMD_ACCEPT", "struct rdma_ucm_accept"),
            (reject(1), "RDMA_USER_CM_CMD_REJECT", "struct rdma_ucm_reject"),
            (get_event(), "RDMA_USER_CM_CMD_GET_EVENT", "struct rdma_ucm_get_event"),
            (query(1), "RDMA_USER_CM_CMD_QUERY", "struct rdma_ucm_query"),
            (bind(1, v4), "RDMA_USER_CM_CMD_BIND", "struct rdma_ucm_bind"),
            (
                resolve_address(1, v4, v4, limit),
                "RDMA_USER_CM_CMD_RESOLVE_ADDR",
                "struct rdma_ucm_resolve_addr",
            ),
        ];
        let sizes: Vec<String> = bodies.iter().map(|(_, _, name)| format!("sizeof({name})")).collect();
        let mut asked: Vec<&str> = bodies.iter().map(|(_, number, _)| *number).collect();
        asked.extend(sizes.iter().map(String::as_str));
        asked.extend(["sizeof(struct rdma_ucm_event_resp)", "sizeof(struct rdma_ucm_query_addr_resp)"]);
        let told = by_the_header(&asked);
        for (index, (body, _, name)) in bodies.iter().enumerate() {
            assert_eq!(body.number as usize, told[index], "{name}");
            assert_eq!(body.bytes.len(), told[bodies.len() + index], "{name}");
        }
        assert_eq!(told[2 * bodies.len()..], [EVENT_WORDS * 4, ADDRESSES_WORDS * 4]);
    }

    #[test]
    fn fields_stand_where_the_header_has_them() {
        let told = by_the_header(&[
            "offsetof(struct rdma_ucm_connect, id)",
            "offsetof(struct rdma_ucm_connect, conn_param.private_data_len)",
            "offsetof(struct rdma_ucm_connect, conn_param.responder_resources)",
            "offsetof(struct rdma_ucm_accept, id)",
            "offsetof(struct rdma_ucm_create_id, response)",
            "offsetof(struct rdma_ucm_create_id, ps)",
            "offsetof(struct rdma_ucm_resolve_addr, dst_addr)",
            "offsetof(struct rdma_ucm_query_addr_resp, dst_addr)",
            "RDMA_PS_TCP",
        ]);
        let made = connect(77, &parameters(b"token")).bytes;
        assert_eq!(made[told[0]..][..4], 77_u32.to_ne_bytes());
        assert_eq!(made[told[1]], 5);
        assert_eq!(made[told[2]..][..2], [3, 4]);
        assert_eq!(accept(78, &parameters(b"")).bytes[told[3]..][..4], 78_u32.to_ne_bytes());
        let mut made = create_id();
        made.answer_at(0x0102_0304_0506_0708);
        assert_eq!(made.bytes[told[4]..][..8], 0x0102_0304_0506_0708_u64.to_ne_bytes());
        assert_eq!(made.bytes[told[5]..][..2], (told[8] as u16).to_ne_bytes());
        let made = resolve_address(1, V6.parse().unwrap(), V4.parse().unwrap(), Duration::ZERO).bytes;
        assert_eq!(address(&made[told[6]..]), Some(V4.parse().unwrap()));
        assert_eq!(16 + STORAGE, told[7]);
    }

    #[test]
    fn addresses_read_back_and_others_than_ip_are_none() {
        for text in [V4, V6] {
            let socket: SocketAddr = text.parse().unwrap();
            assert_eq!(address(&Body::new(0).storage(socket).bytes), Some(socket));
        }
        assert_eq!(address(&[0; STORAGE]), None);
        assert_eq!(address(&[0; 3]), None);
    }
}

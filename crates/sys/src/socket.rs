//! The one socket option that a probe needs and rustix does not have: through which network device packets go.

use rustix::fd::{AsFd, AsRawFd};
use rustix::io::{Errno, Result};
use std::ffi::{c_int, c_uint, c_void};

/// `SOL_SOCKET` and `SO_BINDTODEVICE` (`include/uapi/asm-generic/socket.h`, which x86 and arm64 use).
const SOL_SOCKET: c_int = 1;
const SO_BINDTODEVICE: c_int = 25;

unsafe extern "C" {
    /// `setsockopt(2)`.
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, length: c_uint) -> c_int;
}

/// Lets packets of this socket leave and come in through this network device alone. Any program may do so for a socket that has no
/// device yet (Linux 5.7, `sock_bindtoindex` in `net/core/sock.c`); before that it needs `CAP_NET_RAW`.
///
/// # Errors
/// `ENODEV` when there is no such device, `EPERM` as above, `EINVAL` for a name that is too long.
pub fn bind_to_device(socket: impl AsFd, device: &str) -> Result<()> {
    let length = c_uint::try_from(device.len()).map_err(|_| Errno::INVAL)?;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open as long as `socket` is borrowed; the kernel reads `length` bytes of the name, which are there,
    // and keeps no pointer to them.
    let code = unsafe { setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device.as_ptr().cast(), length) };
    if code == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn a_socket_takes_the_device_that_is_there_and_no_other() {
        let [here, there] = [(), ()].map(|()| UdpSocket::bind("127.0.0.1:0").expect("loopback is up"));
        bind_to_device(&here, "lo").expect("lo is there");
        assert!(here.send_to(b"x", there.local_addr().expect("bound")).is_ok());
        assert_eq!(bind_to_device(&there, "no-such-device"), Err(Errno::NODEV));
    }
}

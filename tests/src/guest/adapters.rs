//! The lab's ports dressed up as RoCE adapters by the module `labnic`: settings of data centre bridging, statistics that rise.

use super::{Endpoint, Undo, endpoints, run};

/// While it lives, every port has data centre bridging and adapter statistics.
pub struct Adapters {
    _module: Undo,
}

/// An RDMA device over a simulated network device with real devlink health reporters (`netdevsim`), while it lives.
pub struct SimulatedNic {
    /// The RDMA device.
    pub device: &'static str,
    _undo: Undo,
}

impl SimulatedNic {
    /// Makes it.
    ///
    /// # Panics
    /// When the modules cannot be loaded or the kernel refuses.
    #[track_caller]
    #[must_use]
    pub fn make() -> Self {
        let _ = run("mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug; \
             modprobe udp_tunnel; modprobe psample; insmod /tmp/lab/modules/netdevsim.ko; \
             echo '7 1' > /sys/bus/netdevsim/new_device; sleep 1; \
             netdev=$(ls /sys/bus/netdevsim/devices/netdevsim7/net | head -1); \
             ip link set $netdev name sim7 mtu 9000; ip addr add 10.9.0.7/24 dev sim7; ip link set sim7 up; \
             rdma link add rxe_sim type rxe netdev sim7");
        let undo = "rdma link del rxe_sim; echo 7 > /sys/bus/netdevsim/del_device; rmmod netdevsim";
        Self { device: "rxe_sim", _undo: Undo::new(undo) }
    }

    /// Its firmware meets an error from which it does not recover.
    #[track_caller]
    pub fn break_health(&self) {
        let health = "/sys/kernel/debug/netdevsim/netdevsim7/health";
        // The kernel answers with the error that recovery met.
        let _ = run(&format!("echo Y > {health}/fail_recover; echo broken > {health}/break_health || true"));
    }
}

impl Adapters {
    /// Dresses all ports up, lossless on priority 3 with DSCP 26, as a healthy RoCE fabric is.
    ///
    /// # Panics
    /// When the module cannot be loaded or dcb fails.
    #[track_caller]
    #[must_use]
    pub fn dress() -> Self {
        let ports: Vec<String> = endpoints().map(Endpoint::port).collect();
        let _ = run(&format!(
            "mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug; \
             insmod /tmp/lab/modules/labnic.ko devs={}",
            ports.join(",")
        ));
        let adapters = Self { _module: Undo::new("rmmod labnic") };
        for endpoint in endpoints() {
            adapters.lossless(endpoint);
        }
        adapters
    }

    /// PFC on priority 3, and DSCP 26 leads to it.
    #[track_caller]
    pub fn lossless(&self, endpoint: Endpoint) {
        let port = endpoint.port();
        let _ = run(&format!(
            "dcb pfc set dev {port} prio-pfc 3:on; dcb app flush dev {port}; dcb app add dev {port} dscp-prio 26:3 48:6"
        ));
    }

    /// Runs `dcb` with arguments in which `PORT` stands for the port.
    #[track_caller]
    pub fn dcb(&self, endpoint: Endpoint, arguments: &str) {
        let _ = run(&format!("dcb {}", arguments.replace("PORT", &endpoint.port())));
    }

    /// Lets a statistic rise by so much each second.
    #[track_caller]
    pub fn rise(&self, endpoint: Endpoint, statistic: &str, per_second: u64) {
        let _ = run(&format!(
            "echo {per_second} > /sys/kernel/debug/labnic/{}/{statistic}.rate",
            endpoint.port()
        ));
    }

    /// Sets a value, such as `temperature` (thousandths of a degree).
    #[track_caller]
    pub fn set(&self, endpoint: Endpoint, name: &str, value: u64) {
        let _ = run(&format!("echo {value} > /sys/kernel/debug/labnic/{}/{name}", endpoint.port()));
    }

    /// Has the kernel itself log a line; what programs write to `/dev/kmsg` is marked as theirs.
    ///
    /// # Panics
    /// When it cannot be written.
    #[track_caller]
    pub fn log(&self, line: &str) {
        std::fs::write("/sys/kernel/debug/labnic/log", line)
            .unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

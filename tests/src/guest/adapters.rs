//! The lab's ports dressed up as RoCE adapters by the module `labnic`: settings of data centre bridging, statistics that rise.

use super::{Endpoint, Undo, endpoints, run};

/// While it lives, every port has data centre bridging and adapter statistics.
pub struct Adapters {
    _module: Undo,
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

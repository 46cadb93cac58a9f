//! ECN for RoCE: files of the vendor's driver in sysfs, and of the kernel's mlx5 in debugfs.

use crate::netdev::CLASS;
use crate::parse;
use crate::tree::Tree;
use rdmascope_model::{Ecn, Reading};

/// ECN settings of one network device; `Absent` where the driver has no such files (the kernel's own mlx5 does not show whether ECN is
/// on for a priority).
pub(crate) fn read(tree: &Tree, netdev: &str) -> Ecn {
    let base = format!("{CLASS}/{netdev}/ecn");
    let cnp_dscp = match tree.parsed(&format!("{base}/roce_np/cnp_dscp"), dscp) {
        Reading::Absent => debugfs_cnp_dscp(tree, netdev),
        reading => reading,
    };
    Ecn {
        notification_point: enabled(tree, &format!("{base}/roce_np/enable")),
        reaction_point: enabled(tree, &format!("{base}/roce_rp/enable")),
        cnp_dscp,
    }
}

/// `enable/0` to `enable/7`: 1 where it is on for the priority.
fn enabled(tree: &Tree, folder: &str) -> Reading<u8> {
    let mut mask = None;
    for priority in 0..8 {
        let read = |text: &str| match text {
            "0" => Ok(0),
            "1" => Ok(1_u8 << priority),
            _ => Err("neither 0 nor 1".to_owned()),
        };
        match tree.parsed(&format!("{folder}/{priority}"), read) {
            Reading::Value(bit) => mask = Some(mask.unwrap_or(0) | bit),
            Reading::Absent => {}
            // A part of the mask would show ECN as off where nobody could look.
            Reading::Failed(why) => return Reading::Failed(why),
        }
    }
    mask.map_or(Reading::Absent, Reading::Value)
}

/// `cc_params/np_cnp_dscp` of mlx5 (`drivers/infiniband/hw/mlx5/cong.c`): for root alone, and not on most virtual functions.
fn debugfs_cnp_dscp(tree: &Tree, netdev: &str) -> Reading<u8> {
    let device = format!("{CLASS}/{netdev}/device");
    let last = |path: &str| match tree.resolved(path) {
        Reading::Value(path) => path.file_name().and_then(|name| name.to_str()).map(str::to_owned),
        Reading::Absent | Reading::Failed(_) => None,
    };
    // Other drivers have no such folder, and below debugfs only root may find that out.
    if last(&format!("{device}/driver")).as_deref() != Some("mlx5_core") {
        return Reading::Absent;
    }
    match last(&device) {
        Some(address) => tree.parsed(&format!("sys/kernel/debug/mlx5/{address}/cc_params/np_cnp_dscp"), dscp),
        None => Reading::Absent,
    }
}

fn dscp(text: &str) -> Result<u8, String> {
    match parse::number(text)? {
        dscp @ 0..64 => Ok(dscp),
        _ => Err("above 63".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::Folder;

    #[test]
    fn files_of_the_vendors_driver() {
        let folder = Folder::new();
        for priority in 0..8 {
            let on = |wanted: u8| if priority == wanted { "1" } else { "0" };
            folder.write(&format!("sys/class/net/eth0/ecn/roce_np/enable/{priority}"), on(3));
            folder.write(&format!("sys/class/net/eth0/ecn/roce_rp/enable/{priority}"), on(9));
        }
        folder.write("sys/class/net/eth0/ecn/roce_np/cnp_dscp", "48\n");
        let tree = Tree::open(folder.path()).unwrap();
        let expected = Ecn {
            notification_point: Reading::Value(0b1000),
            reaction_point: Reading::Value(0),
            cnp_dscp: Reading::Value(48),
        };
        assert_eq!(read(&tree, "eth0"), expected);
        folder.write("sys/class/net/eth0/ecn/roce_np/enable/5", "what");
        assert!(
            matches!(read(&tree, "eth0").notification_point, Reading::Failed(why) if why.contains("enable/5"))
        );
    }

    #[test]
    fn the_kernels_driver_shows_the_dscp_alone_and_others_nothing() {
        let folder = Folder::new();
        folder.write("sys/devices/0000:3b:00.0/net/eth0/mtu", "9000");
        folder.link("sys/class/net/eth0", "../../devices/0000:3b:00.0/net/eth0");
        folder.link("sys/devices/0000:3b:00.0/net/eth0/device", "../../../0000:3b:00.0");
        folder.write("sys/kernel/debug/mlx5/0000:3b:00.0/cc_params/np_cnp_dscp", "46\n");
        let tree = Tree::open(folder.path()).unwrap();
        let none = Ecn {
            notification_point: Reading::Absent,
            reaction_point: Reading::Absent,
            cnp_dscp: Reading::Absent,
        };
        assert_eq!(read(&tree, "eth0"), none, "no driver is bound");
        folder.write("sys/bus/pci/drivers/mlx5_core/uevent", "");
        folder.link("sys/devices/0000:3b:00.0/driver", "/sys/bus/pci/drivers/mlx5_core");
        assert_eq!(read(&tree, "eth0"), Ecn { cnp_dscp: Reading::Value(46), ..none });
    }
}

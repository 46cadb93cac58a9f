//! Asks a port's RDMA MTU through the verbs library, because sysfs does not have it.

use crate::PortMtu;
use rdmascope_model::{Reading, in_one_line};
use rdmascope_sys::{Device, Mtu, PortAttributes, Verbs};

impl PortMtu {
    /// From a port query that was made anyway, by a program that keeps its devices open.
    #[must_use]
    pub fn of(attributes: &PortAttributes) -> Self {
        let bytes = |mtu: Option<Mtu>| match mtu {
            Some(mtu) => Reading::Value(mtu.bytes()),
            None => Reading::Failed("the driver gave a code for the MTU that is not known here".to_owned()),
        };
        Self { active: bytes(attributes.active_mtu), max: bytes(attributes.max_mtu) }
    }
}

/// For [`crate::Host::snapshot`]: loads the verbs library once; each question opens the device, asks and closes it again.
pub fn ask_verbs() -> impl Fn(&str, u8) -> PortMtu + Send + Sync + 'static {
    let verbs = Verbs::open(None).map_err(|e| in_one_line(&e));
    move |device, port| match &verbs {
        Ok(verbs) => query(verbs, device, port).unwrap_or_else(|why| PortMtu::failed(&why)),
        Err(why) => PortMtu::failed(why),
    }
}

fn query(verbs: &Verbs, device: &str, port: u8) -> Result<PortMtu, String> {
    let devices = verbs.devices().map_err(|e| in_one_line(&e))?;
    let found: &Device = devices
        .iter()
        .find(|found| found.name() == device)
        .ok_or_else(|| format!("the verbs library does not list {device}: no provider for it, or no access to its character device"))?;
    let context = found.open().map_err(|e| in_one_line(&e))?;
    context.query_port(port).map(|attributes| PortMtu::of(&attributes)).map_err(|e| in_one_line(&e))
}

/// Whether the verbs library can be loaded on the machine that we run on; `Absent` when not.
pub(crate) fn library() -> Reading<()> {
    Verbs::open(None).map_or(Reading::Absent, |_| Reading::Value(()))
}

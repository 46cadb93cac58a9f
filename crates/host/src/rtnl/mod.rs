//! Network devices, routes and their changes by rtnetlink, for the network namespace that we run in.

mod events;
mod link;
mod routing;

pub(crate) use events::event_of;
pub use events::{LinkEvent, LinkEvents};
pub(crate) use link::{PAIRS, joined, names};
pub(crate) use routing::{own_rules, routes, routing, unresolved};

use futures_util::TryStreamExt as _;
use netlink_packet_route::link::LinkMessage;
use rdmascope_model::{Netdev, Reading};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::task::JoinHandle;

/// How long the kernel may take for all lists. It takes milliseconds; only a lock held by a stuck driver makes it long.
const DUMP_DEADLINE: Duration = Duration::from_secs(5);

/// A connection that is served until it is dropped.
struct Served(JoinHandle<()>);

impl Served {
    fn start(connection: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(connection))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// All network devices with their addresses.
pub(crate) async fn dump() -> Reading<BTreeMap<String, Netdev>> {
    let (handle, _served) = match connect() {
        Ok(connected) => connected,
        Err(why) => return Reading::Failed(why),
    };
    let both = async {
        let links = links(&handle).await;
        let addresses = handle.address().get().execute().try_collect::<Vec<_>>().await;
        (links, addresses)
    };
    match tokio::time::timeout(DUMP_DEADLINE, both).await {
        Ok((Ok(links), addresses)) => Reading::Value(joined(&links, addresses.map_err(|e| e.to_string()))),
        Ok((Err(why), _)) => Reading::Failed(why),
        Err(_) => Reading::Failed(too_late()),
    }
}

fn connect() -> Result<(rtnetlink::Handle, Served), String> {
    let (connection, handle, _) =
        rtnetlink::new_connection().map_err(|e| format!("opening a netlink socket: {e}"))?;
    Ok((handle, Served::start(connection)))
}

async fn links(handle: &rtnetlink::Handle) -> Result<Vec<LinkMessage>, String> {
    let links = handle.link().get().execute().try_collect().await;
    links.map_err(|e| format!("asking rtnetlink for the network devices: {e}"))
}

fn too_late() -> String {
    format!("rtnetlink did not answer within {} s", DUMP_DEADLINE.as_secs())
}

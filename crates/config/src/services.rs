//! Services: who talks to whom over which device and in which class, so that a pair can be probed as a service uses it.

use crate::problem::Wrong;
use crate::tree::{Node, Value};
use crate::values::{not_a, shown};
use rdmascope_model::{EndpointName, class_from_word};
use std::collections::BTreeMap;

const HINT: &str = "write {NAME: {device: mlx5_0, class: 26, peers: [node1, node2]}}";

/// One service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceConfig {
    /// Its RDMA device; `None`: the only one of each node.
    pub device: Option<String>,
    /// Its class: a DSCP, or a service level on InfiniBand.
    pub class: Option<u8>,
    /// The nodes that it talks to.
    pub peers: Vec<String>,
}

pub(crate) fn services(value: &Value) -> Result<BTreeMap<String, ServiceConfig>, Wrong> {
    let Value::Map(entries) = value else { return Err(not_a("services by their names", value, HINT)) };
    let mut services = BTreeMap::new();
    for (key, node) in entries {
        let Value::Text(name) = &key.value else {
            return Err(not_a("the name of a service", &key.value, HINT));
        };
        if services.insert(name.clone(), service(name, node)?).is_some() {
            return Err(Wrong::new(
                format!("service `{}` is there twice", shown(name)),
                "keep one of the two",
            ));
        }
    }
    Ok(services)
}

fn service(name: &str, node: &Node) -> Result<ServiceConfig, Wrong> {
    let of = |what: &str| format!("{what} of service `{}`", shown(name));
    let Value::Map(entries) = &node.value else {
        return Err(not_a(&of("device, class and peers"), &node.value, HINT));
    };
    let mut service = ServiceConfig::default();
    let mut seen: Vec<&str> = Vec::new();
    for (key, Node { value, .. }) in entries {
        let Value::Text(key) = &key.value else { return Err(not_a(&of("a key"), &key.value, HINT)) };
        if seen.contains(&key.as_str()) {
            return Err(Wrong::new(format!("{} is there twice", of(&shown(key))), "keep one of the two"));
        }
        seen.push(key);
        match key.as_str() {
            "device" => {
                service.device = Some(device(value).ok_or_else(|| {
                    not_a(&of("the device"), value, "write the name of an RDMA device, such as mlx5_0")
                })?)
            }
            "class" => {
                service.class = Some(class(value).ok_or_else(|| {
                    not_a(&of("the class"), value, "write a DSCP (0 to 63), or a name such as cs3 or af31")
                })?)
            }
            "peers" => {
                service.peers = peers(value)
                    .ok_or_else(|| not_a(&of("the peers"), value, "write node names: [node1, node2]"))?
            }
            unknown => {
                let hint = "known here: `device`, `class`, `peers`";
                return Err(Wrong::new(
                    format!("unknown key {}", of(&format!("`{}`", shown(unknown)))),
                    hint,
                ));
            }
        }
    }
    if service.peers.is_empty() {
        return Err(Wrong::new(of("there are no peers"), HINT));
    }
    Ok(service)
}

fn device(value: &Value) -> Option<String> {
    let Value::Text(name) = value else { return None };
    format!("node/{name}/1").parse::<EndpointName>().is_ok().then(|| name.clone())
}

fn class(value: &Value) -> Option<u8> {
    match value {
        Value::Text(word) => class_from_word(word),
        Value::Whole(number) => class_from_word(&number.to_string()),
        _ => None,
    }
}

fn peers(value: &Value) -> Option<Vec<String>> {
    let Value::List(items) = value else { return None };
    let peer = |node: &Node| match &node.value {
        Value::Text(name) if format!("{name}/device/1").parse::<EndpointName>().is_ok() => Some(name.clone()),
        _ => None,
    };
    items.iter().map(peer).collect()
}

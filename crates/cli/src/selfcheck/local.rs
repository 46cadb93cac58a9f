//! The first stage: what the nodes say of themselves. A number measured over a link with a wrong setting says nothing.

use super::arguments::SelfcheckFlags;
use super::facts::{Facts, Told};
use super::worse;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::plain;
use rdmascope_expose::api::{
    BatchNodeView, EndpointList, EndpointView, FindingList, NodeFinding, NodeList, Severity,
};
use rdmascope_localise::batch::{Limit, Limits};
use rdmascope_model::Fabric;

/// Looks at every node of the batch.
pub(crate) fn look(
    client: &Client,
    flags: &SelfcheckFlags,
    limits: &Limits,
    facts: &mut Facts,
) -> Result<(Severity, String), Failure> {
    let nodes: NodeList = client.get("/api/v1/nodes")?;
    let endpoints: EndpointList = client.get("/api/v1/endpoints")?;
    let findings: FindingList = client.get("/api/v1/findings")?;
    let meant = |endpoint: &EndpointView| {
        let device = flags.devices.is_empty() || flags.devices.contains(&endpoint.device);
        device && facts.batch.contains(&endpoint.node)
    };
    facts.endpoints = endpoints.endpoints.into_iter().filter(meant).collect();
    facts.endpoints.sort_by(|a, b| a.name.cmp(&b.name));
    for name in facts.batch.clone() {
        let connected = nodes.nodes.iter().any(|node| node.name == name && node.connected);
        let own = findings.findings.iter().filter(|found| found.node == name && counts(flags, found));
        let node = node(flags, limits, &name, connected, &own.collect::<Vec<_>>(), facts);
        facts.nodes.push(node);
    }
    // What differs between nodes is about the cluster; it counts where it names one of the batch.
    let between: Vec<_> = findings
        .findings
        .iter()
        .filter(|found| found.node.is_empty() && counts(flags, found) && names_one(facts, found))
        .map(line)
        .collect();
    let status = facts.nodes.iter().fold(Severity::Ok, |status, node| worse(status, node.status));
    let status = if between.is_empty() { status } else { worse(status, Severity::Warn) };
    if !between.is_empty() {
        let name = "between nodes".to_owned();
        facts.nodes.push(BatchNodeView { name, status: Severity::Warn, text: between });
    }
    let fine = facts.nodes.iter().filter(|node| node.status == Severity::Ok).count();
    Ok((status, format!("{fine} of {} nodes are fine, {} ports", facts.batch.len(), facts.endpoints.len())))
}

/// Somebody knows of it, or it is to be left out: then it does not count.
fn counts(flags: &SelfcheckFlags, found: &NodeFinding) -> bool {
    found.acknowledged.is_none() && !flags.ignore.contains(&found.id)
}

fn names_one(facts: &Facts, found: &NodeFinding) -> bool {
    let text = [&found.subject, &found.summary].map(String::as_str).into_iter();
    let told: Vec<&str> = text.chain(found.evidence.iter().map(String::as_str)).collect();
    facts.batch.iter().any(|node| told.iter().any(|text| text.contains(node.as_str())))
}

fn line(found: &NodeFinding) -> String {
    format!(
        "{} {}: {} [{}]",
        found.status.to_uppercase(),
        plain(&found.subject),
        plain(&found.summary),
        plain(&found.id)
    )
}

fn node(
    flags: &SelfcheckFlags,
    limits: &Limits,
    name: &str,
    connected: bool,
    findings: &[&NodeFinding],
    facts: &mut Facts,
) -> BatchNodeView {
    let mut view = BatchNodeView { name: name.to_owned(), status: Severity::Ok, text: Vec::new() };
    if !connected {
        view.status = Severity::Unknown;
        view.text.push("its agent is not connected".to_owned());
        return view;
    }
    for found in findings {
        let status = match found.status.as_str() {
            "fail" => Severity::Fail,
            "unknown" => Severity::Unknown,
            _ => Severity::Warn,
        };
        view.status = worse(view.status, status);
        view.text.push(line(found));
        match status {
            Severity::Fail => blame(name, found, facts),
            Severity::Unknown => facts.not_tested(
                &format!("{name} {}", plain(&found.subject)),
                &format!("{} [{}]", plain(&found.summary), plain(&found.id)),
                &plain(&found.next_step),
            ),
            Severity::Ok | Severity::Warn => {}
        }
    }
    let own: Vec<(u32, EndpointView)> =
        (0..).zip(&facts.endpoints).filter(|(_, e)| e.node == name).map(|(at, e)| (at, e.clone())).collect();
    if own.is_empty() {
        view.status = worse(view.status, Severity::Unknown);
        let reason = "it has no RDMA port, or none of the devices that were named";
        facts.not_tested(&format!("node {name}"), reason, "See what `rdmascope check` says there.");
    }
    for (place, endpoint) in own {
        for told in wrong(limits, &endpoint) {
            view.status = Severity::Fail;
            view.text.push(format!("FAIL {}", told.text));
            facts.told.entry(place).or_default().push(told);
        }
        if endpoint.fabric == Fabric::Tcp.as_str() && !flags.preset.tcp {
            view.status = worse(view.status, Severity::Unknown);
            let next = "Run the agent without --transport tcp, or take a preset for software devices (lab).";
            facts.not_tested(&endpoint.name, "it speaks TCP: nothing about RDMA is tested", next);
        }
    }
    view
}

/// What is wrong with a port before anything is sent.
pub(crate) fn wrong(limits: &Limits, endpoint: &EndpointView) -> Vec<Told> {
    let mut told = Vec::new();
    let name = &endpoint.name;
    let mut say = |text: String, next: &str| told.push(Told { text, next_step: next.to_owned() });
    if let Some(why) = &endpoint.unusable {
        say(format!("{name} cannot be probed: {} {}", plain(&why.text), plain(&why.detail)), &why.next_step);
    } else if let Some(since) = &endpoint.gone_since {
        say(
            format!("{name} is gone from its node since {since}"),
            "See the kernel log of the node: was the device removed, or its driver unloaded?",
        );
        return told;
    }
    if let Some((asked, seen)) = limits.get(Limit::Rate).zip(rate(endpoint))
        && !Limit::Rate.holds(asked, seen)
    {
        say(
            format!("{name} runs at {seen} Gbit/s; {asked} are asked"),
            "See cable, module and the settings of both ends: `ethtool`, and the switch port.",
        );
    }
    if let Some((asked, seen)) = limits.get(Limit::Mtu).zip(mtu(endpoint))
        && !Limit::Mtu.holds(asked, seen)
    {
        let netdev = endpoint.netdev_mtu_bytes.map(|mtu| format!(" (its network device: {mtu})"));
        say(
            format!(
                "{name} has an RDMA MTU of {seen} bytes{}; {asked} are asked",
                netdev.unwrap_or_default()
            ),
            "Set the MTU of the network device to 9000 (4200 at least), and that of the switch port to match.",
        );
    }
    told
}

/// The rate of a port, Gbit/s.
pub(crate) fn rate(endpoint: &EndpointView) -> Option<f64> {
    endpoint.rate_bits_per_second.map(|bps| bps as f64 / 1e9)
}

/// Its active RDMA MTU; TCP has none.
pub(crate) fn mtu(endpoint: &EndpointView) -> Option<f64> {
    endpoint.active_mtu_bytes.map(f64::from)
}

/// Puts a finding down to the port that it is about, or else to its node.
fn blame(node: &str, found: &NodeFinding, facts: &mut Facts) {
    let subject = found.subject.as_str();
    let of = |endpoint: &EndpointView| {
        let port = format!("{}/{}", endpoint.device, endpoint.port);
        let netdev = endpoint.netdev.as_ref().map(|netdev| format!("netdev {netdev}"));
        subject == port || subject == endpoint.device || netdev.as_deref() == Some(subject)
    };
    let place = (0..).zip(&facts.endpoints).find(|(_, e)| e.node == node && of(e)).map(|(at, _)| at);
    let told = Told {
        text: format!("{node} {}: {} [{}]", plain(subject), plain(&found.summary), plain(&found.id)),
        next_step: plain(&found.next_step),
    };
    match place {
        Some(place) => facts.told.entry(place).or_default().push(told),
        None => facts.told_of_nodes.entry(node.to_owned()).or_default().push(told),
    }
}

//! `rdmascope pause` and `rdmascope resume`: changes what is paused, then says what is.

use crate::arguments::PauseFlags;
use crate::client::Client;
use crate::failure::{Failure, code};
use crate::output::{plain, print_json, show};
use crate::similar;
use rdmascope_expose::api::{PauseLevel, PauseRequest, PauseView};

/// Runs either.
pub(crate) fn run(flags: &PauseFlags, pause: bool) -> Result<u8, Failure> {
    if flags.nodes.iter().any(String::is_empty) {
        return Err(Failure::new(code::USAGE, "--nodes has an empty name")
            .then("separate names by commas, without spaces: --nodes node3,node4"));
    }
    let request = PauseRequest {
        nodes: (!flags.nodes.is_empty()).then(|| flags.nodes.clone()),
        bandwidth_only: flags.bandwidth,
    };
    let path = if pause { "/api/v1/pause" } else { "/api/v1/resume" };
    let client = Client::new(&flags.at)?;
    let names: Vec<&str> = flags.nodes.iter().map(String::as_str).collect();
    let view: PauseView =
        client.post(path, &request).map_err(|failure| similar::named(&client, failure, &names))?;
    if flags.json {
        print_json(&view)?;
    } else {
        show(&words(&view))?;
    }
    Ok(0)
}

/// What is paused, a line for the cluster and one for each node with a pause of its own.
pub(crate) fn words(view: &PauseView) -> String {
    if view.cluster == PauseLevel::None && view.nodes.is_empty() {
        return "nothing is paused\n".to_owned();
    }
    let mut text = match view.cluster {
        PauseLevel::None => String::new(),
        level => format!("paused in the whole cluster: {}\n", what(level)),
    };
    for node in &view.nodes {
        let by = if node.local_file { " (by the pause file on the node: remove it there)" } else { "" };
        text.push_str(&format!("paused on {}: {}{by}\n", plain(&node.node), what(node.level)));
    }
    text
}

fn what(level: PauseLevel) -> &'static str {
    match level {
        PauseLevel::None => "nothing",
        PauseLevel::Bandwidth => "bandwidth probes",
        PauseLevel::All => "all probes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_expose::api::NodePause;

    #[test]
    fn what_is_paused_is_said_for_the_cluster_and_for_each_node() {
        let nothing = PauseView { cluster: PauseLevel::None, nodes: Vec::new() };
        assert_eq!(words(&nothing), "nothing is paused\n");
        let node = NodePause { node: "n3".to_owned(), level: PauseLevel::All, local_file: true };
        let both = PauseView { cluster: PauseLevel::Bandwidth, nodes: vec![node] };
        assert_eq!(
            words(&both),
            "paused in the whole cluster: bandwidth probes\n\
             paused on n3: all probes (by the pause file on the node: remove it there)\n"
        );
    }
}

//! `rdmascope diagnose`: what is wrong now, or whether it is the network of a job's nodes.

use crate::client::{Client, escaped};
use crate::cluster_arguments::DiagnoseFlags;
use crate::failure::{Failure, code};
use crate::figures::{Unit, loss};
use crate::incidents::block;
use crate::output::{plain, print_answer, show};
use crate::similar;
use rdmascope_expose::api::{DiagnosisView, PairsView};

/// Runs it.
pub(crate) fn run(flags: &DiagnoseFlags) -> Result<u8, Failure> {
    // Not to have looked must never read as "something is wrong".
    judge(flags).map_err(|failure| failure.with(code::CHECK_UNKNOWN))
}

fn judge(flags: &DiagnoseFlags) -> Result<u8, Failure> {
    let client = Client::new(&flags.at)?;
    let path = match &flags.nodes {
        None => "/api/v1/diagnosis".to_owned(),
        Some(nodes) => {
            let names: Vec<String> = nodes.0.iter().map(|name| escaped(name)).collect();
            format!("/api/v1/diagnosis?nodes={}", names.join(","))
        }
    };
    let names: Vec<&str> = flags.nodes.iter().flat_map(|nodes| &nodes.0).map(String::as_str).collect();
    let text = client.text(&path).map_err(|failure| similar::named(&client, failure, &names))?;
    let view: DiagnosisView = client.parsed(&text)?;
    if flags.json {
        print_answer(&text)?;
    } else {
        show(&words(&view))?;
    }
    Ok(match view.answer.as_str() {
        "fine" => 0,
        "host" | "network" => 1,
        _ => code::CHECK_UNKNOWN,
    })
}

fn words(view: &DiagnosisView) -> String {
    let mut text = format!("{}\n", plain(&view.text));
    if !view.next_step.is_empty() {
        text.push_str(&format!("  next step: {}\n", plain(&view.next_step)));
    }
    if !view.pairs.is_empty() {
        text.push_str("\npairs\n");
        view.pairs.iter().for_each(|pairs| text.push_str(&pairs_words(pairs)));
    }
    if !view.incidents.is_empty() {
        text.push_str("\nincidents\n");
        view.incidents.iter().for_each(|incident| text.push_str(&block(incident)));
    }
    if !view.findings.is_empty() {
        text.push_str("\nfindings\n");
    }
    for found in &view.findings {
        let node = if found.node.is_empty() { "cluster" } else { &found.node };
        let known = if found.acknowledged.is_some() || found.maintenance { " (known)" } else { "" };
        text.push_str(&format!(
            "{:<8}{} {}: {} [{}]{known}\n",
            found.status.to_uppercase(),
            plain(node),
            plain(&found.subject),
            plain(&found.summary),
            plain(&found.id)
        ));
    }
    if view.findings_left_out > 0 {
        text.push_str(&format!("and {} more: rdmascope findings\n", view.findings_left_out));
    }
    text
}

fn pairs_words(pairs: &PairsView) -> String {
    let mut parts = vec![format!("{} of {} fresh", pairs.fresh, pairs.pairs)];
    if let Some(age) = pairs.oldest_seconds {
        parts.push(format!("at most {age:.0} s old"));
    }
    for (count, what) in [
        (pairs.stale, "stale"),
        (pairs.never, "never measured"),
        (pairs.failed, "failed"),
        (pairs.excluded, "not probed by order"),
    ] {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    if let Some(ratio) = pairs.loss_ratio {
        parts.push(format!("{} in all, {} pairs lose", loss(ratio), pairs.lossy));
    }
    let mut text = format!("  {:<11}{}\n", plain(&pairs.metric), parts.join(", "));
    let mut line = |words: String| text.push_str(&format!("             {}\n", plain(&words)));
    if let Some(worst) = &pairs.worst {
        let unit =
            if pairs.metric == "bandwidth" { Unit::of_rates(worst.median) } else { Unit::Microseconds };
        line(format!(
            "slowest: {} -> {}, {} against a median of {} of {} pairs ({})",
            worst.source,
            worst.target,
            unit.show(worst.value),
            unit.show(worst.median),
            worst.compared,
            worst.distance
        ));
    }
    if let Some(lossiest) = &pairs.lossiest {
        line(format!(
            "loses most: {} -> {}, {}",
            lossiest.source,
            lossiest.target,
            loss(lossiest.loss_ratio)
        ));
    }
    for failed in &pairs.failures {
        line(format!("failed: {} -> {}: {}", failed.source, failed.target, failed.text));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incidents::tests::incident;
    use rdmascope_expose::api::{FailedPair, LossyPair, NodeFinding, WorstPairView};

    fn pairs() -> PairsView {
        PairsView {
            metric: "ping".to_owned(),
            pairs: 12,
            fresh: 10,
            stale: 0,
            never: 1,
            failed: 1,
            excluded: 0,
            oldest_seconds: Some(41.4),
            lossy: 2,
            loss_ratio: Some(0.0125),
            lossiest: Some(LossyPair {
                source: "a/d/1".to_owned(),
                target: "b/d/1".to_owned(),
                loss_ratio: 0.1,
            }),
            slow: 1,
            worst: Some(WorstPairView {
                source: "a/d/1".to_owned(),
                target: "c/d/1".to_owned(),
                value: 6_000,
                median: 3_000,
                slower: 2.0,
                distance: "same leaf".to_owned(),
                compared: 90,
            }),
            failures: vec![FailedPair {
                source: "c/d/1".to_owned(),
                target: "a/d/1".to_owned(),
                cause: "no-first-byte".to_owned(),
                text: "It never arrived.".to_owned(),
            }],
        }
    }

    #[test]
    fn the_answer_comes_first_and_then_what_it_rests_on() {
        let finding = NodeFinding {
            node: "a".to_owned(),
            id: "memlock".to_owned(),
            status: "warn".to_owned(),
            subject: "machine".to_owned(),
            summary: "memory\u{1b}[2J".to_owned(),
            cause: String::new(),
            next_step: String::new(),
            evidence: Vec::new(),
            since: None,
            settling: false,
            latched: false,
            acknowledged: None,
            maintenance: true,
            node_lost: false,
        };
        let view = DiagnosisView {
            nodes: vec!["a".to_owned()],
            answer: "network".to_owned(),
            text: "the network: it is".to_owned(),
            next_step: "Do it.".to_owned(),
            incidents: vec![incident(2, "open")],
            findings: vec![finding],
            findings_left_out: 3,
            pairs: vec![pairs()],
        };
        let text = words(&view);
        let head = "the network: it is\n  next step: Do it.\n\npairs\n  ping       10 of 12 fresh, at most 41 s old, 1 never measured, \
                    1 failed, 1.25 % lost in all, 2 pairs lose\n             \
                    slowest: a/d/1 -> c/d/1, 6.00 µs against a median of 3.00 µs of 90 pairs (same leaf)\n             \
                    loses most: a/d/1 -> b/d/1, 10.0 % lost\n             failed: c/d/1 -> a/d/1: It never arrived.\n\n\
                    incidents\nFAIL    incident 2: ";
        assert!(text.starts_with(head), "{text}");
        assert!(
            text.ends_with(
                "findings\nWARN    a machine: memory [2J [memlock] (known)\nand 3 more: rdmascope findings\n"
            ),
            "{text}"
        );
    }
}

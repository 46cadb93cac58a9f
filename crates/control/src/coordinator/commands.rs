//! What an operator may ask for, by the names that people type.

use super::Action;
use super::Coordinator;
use super::order::SweepOrder;
use rdmascope_link::{PauseFlags, ToAgent};
use rdmascope_localise::EndpointIndex;
use rdmascope_model::{EndpointName, Metric, Now};
use std::fmt;

/// Why an operator's command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// No such endpoint; the text names what exists.
    UnknownEndpoint(String),
    /// No such node; the text names what exists.
    UnknownNode(String),
    /// No such thing of another kind; the text names what exists.
    Unknown(String),
    /// Not now; the text says why.
    Conflict(String),
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::UnknownEndpoint(text)
        | Self::UnknownNode(text)
        | Self::Unknown(text)
        | Self::Conflict(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for CommandError {}

impl Coordinator {
    /// Begins a sweep over all endpoints that are there and in no maintenance: each pair of one rail once.
    ///
    /// # Errors
    /// As [`Self::start_sweep_of`].
    pub fn start_sweep(&mut self, metrics: &[Metric], drained: bool, now: Now) -> Result<u64, CommandError> {
        let order = SweepOrder { metrics: metrics.to_vec(), drained, ..SweepOrder::default() };
        self.start_sweep_of(&order, now)
    }

    /// Begins a sweep.
    ///
    /// # Errors
    /// A sweep runs already, everything is paused, or it cannot be planned ([`Self::plan_sweep`]).
    pub fn start_sweep_of(&mut self, order: &SweepOrder, now: Now) -> Result<u64, CommandError> {
        if self.work.operator_sweep_runs() {
            return Err(CommandError::Conflict("a sweep is running; wait for it to end".to_owned()));
        }
        self.not_paused()?;
        self.look_at_places_now(now.mono);
        let mut prepared = self.prepare(order)?;
        if let Some(pass) = &mut prepared.pass {
            Self::begin_pass(pass, &prepared.plan, now);
        }
        let id = self.work.start_sweep(prepared, self.settings.sweep_bytes_max, now);
        self.changed = true;
        self.run(now);
        Ok(id)
    }

    /// Ends the operator's sweep of this number early: what runs is measured to its end, the rest is not run.
    ///
    /// # Errors
    /// There is no such sweep, or it is over.
    pub fn cancel_sweep(&mut self, id: u64, now: Now) -> Result<(), CommandError> {
        if self.work.sweep().is_none_or(|sweep| sweep.id != id) {
            return Err(CommandError::Unknown(format!("no sweep {id}")));
        }
        if !self.work.cancel_sweep(now) {
            return Err(CommandError::Conflict(format!("sweep {id} is over already")));
        }
        self.changed = true;
        self.run(now);
        Ok(())
    }

    pub(super) fn not_paused(&self) -> Result<(), CommandError> {
        if self.paused.all {
            let text = "probing is paused; `rdmascope resume` ends the pause";
            return Err(CommandError::Conflict(text.to_owned()));
        }
        Ok(())
    }

    /// Pauses or resumes; `nodes` = `None` means the whole cluster.
    ///
    /// # Errors
    /// A node is unknown; nothing was changed.
    pub fn set_pause(
        &mut self,
        nodes: Option<&[String]>,
        change: impl Fn(&mut PauseFlags),
        now: Now,
    ) -> Result<(), CommandError> {
        if let Some(unknown) = nodes.unwrap_or_default().iter().find(|n| self.members.agent(n).is_none()) {
            return Err(self.unknown_node(unknown));
        }
        match nodes {
            None => change(&mut self.paused),
            Some(nodes) => nodes.iter().for_each(|node| {
                self.members.agent_mut(node).into_iter().for_each(|m| change(&mut m.operator_pause));
            }),
        }
        let told: Vec<_> = self.members.nodes_connected().map(|(node, c)| (node.to_owned(), c)).collect();
        for (node, connection) in told {
            let flags = self.ordered_pause(&node);
            self.outbox.push_back(Action::Send(connection, ToAgent::Pause(flags)));
        }
        self.matrix.touch();
        self.changed = true;
        self.run(now);
        Ok(())
    }

    /// The endpoint of a full or short name (`NODE/DEVICE/PORT`, `NODE/DEVICE`, `NODE`).
    ///
    /// # Errors
    /// None or several have it; the text names what exists.
    pub fn find_endpoint(&self, name: &str) -> Result<EndpointIndex, CommandError> {
        let short = |full: &EndpointName| {
            full.to_string() == name || format!("{}/{}", full.node, full.device) == name || full.node == name
        };
        let found: Vec<_> = self.matrix.endpoints().filter(|(full, _)| short(full)).collect();
        let list = |names: Vec<&EndpointName>| {
            let shown: Vec<_> = names.iter().take(20).map(ToString::to_string).collect();
            let more =
                if names.len() > 20 { format!(" and {} more", names.len() - 20) } else { String::new() };
            format!("{}{more}", shown.join(", "))
        };
        match found[..] {
            [(_, index)] => Ok(index),
            [] => {
                let all = list(self.matrix.endpoints().map(|(name, _)| name).collect());
                let all = if all.is_empty() { "none yet".to_owned() } else { all };
                Err(CommandError::UnknownEndpoint(format!("no endpoint '{name}'; there are: {all}")))
            }
            _ => {
                let several = list(found.iter().map(|(name, _)| *name).collect());
                Err(CommandError::UnknownEndpoint(format!("'{name}' may be any of: {several}")))
            }
        }
    }
}

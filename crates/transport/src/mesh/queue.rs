//! A completion queue of the mesh with what was last found on it, stamped by the device where that can.

use super::port::{RECEIVES, SENDS};
use rdmascope_probe::DeviceClock;
use rdmascope_sys::{
    Completion, CompletionChannel, CompletionQueue, Context, StampedCompletion, StampedQueue, VerbError,
};

/// One of the two queues of an endpoint.
pub(super) enum Queue {
    Plain(CompletionQueue, Box<[Completion]>),
    Stamped(StampedQueue, Box<[StampedCompletion]>),
}

/// Those of sends and of receives, and the device's clock where both have stamps of it.
///
/// The channel tells of receives. Completions of sends free buffers, which has time until the next turn, and may set off second
/// acknowledgements, for which there is a timer: nobody is woken up for them.
pub(super) fn queues(
    context: &Context,
    channel: &CompletionChannel,
) -> Result<(Queue, Queue, Option<DeviceClock>), VerbError> {
    match stamped(context, channel) {
        Ok(Some(made)) => return Ok(made),
        Ok(None) => tracing::debug!(device = context.device(), "the device does not stamp datagrams"),
        // Stamps are something extra: what really stands in the way of an endpoint shows with plain queues too.
        Err(error) => tracing::warn!(%error, "no queues with the device's stamps: the program's are used"),
    }
    let sends = context.create_completion_queue(SENDS as u32, None)?;
    let receives = context.create_completion_queue(RECEIVES, Some(channel))?;
    let room = |entries: usize| (0..entries).map(|_| Completion::default()).collect();
    Ok((Queue::Plain(sends, room(SENDS)), Queue::Plain(receives, room(RECEIVES as usize)), None))
}

fn stamped(
    context: &Context,
    channel: &CompletionChannel,
) -> Result<Option<(Queue, Queue, Option<DeviceClock>)>, VerbError> {
    let Some(sends) = context.create_stamped_queue(SENDS as u32, None)? else { return Ok(None) };
    let Some(receives) = context.create_stamped_queue(RECEIVES, Some(channel))? else { return Ok(None) };
    let unit = sends.unit();
    if receives.unit() != unit {
        return Ok(None);
    }
    let room = |entries: usize| (0..entries).map(|_| StampedCompletion::default()).collect();
    let clock = DeviceClock::new(unit.mask, unit.kilohertz);
    let queues = (Queue::Stamped(sends, room(SENDS)), Queue::Stamped(receives, room(RECEIVES as usize)));
    Ok(Some((queues.0, queues.1, Some(clock))))
}

impl Queue {
    /// For making queue pairs and asking to be told; not to be polled.
    pub(super) fn plain(&self) -> &CompletionQueue {
        match self {
            Self::Plain(queue, _) => queue,
            Self::Stamped(queue, _) => queue.queue(),
        }
    }

    /// Takes what is done, as far as there is room. How many.
    pub(super) fn look(&mut self) -> Result<usize, VerbError> {
        match self {
            Self::Plain(queue, room) => queue.poll(room).map(<[Completion]>::len),
            Self::Stamped(queue, room) => queue.poll(room).map(<[StampedCompletion]>::len),
        }
    }

    /// One of those that the last look found, and the device's raw stamp; 0 where there is none.
    pub(super) fn found(&self, at: usize) -> (&Completion, u64) {
        match self {
            Self::Plain(_, room) => (&room[at], 0),
            Self::Stamped(_, room) => (&room[at].completion, room[at].stamp),
        }
    }
}

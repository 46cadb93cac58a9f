//! What a judge sees of the made-up cluster of the tests.

use super::count::Windows;
use super::layout::Layout;
use super::observe::Scene;
use super::world::World;
use super::yardstick::Yardstick;
use rdmascope_model::Wall;

impl World {
    /// What a judge would see now who remembers nothing.
    pub(super) fn scene<T>(&self, ask: impl FnOnce(Scene<'_>) -> T) -> T {
        let layout = Layout::new(&self.places, &[], &[]);
        let (matrix, windows, now, fresh_ms) =
            (&self.matrix, Windows::default(), Wall(self.now_ms), 1_000_000);
        let yardstick = Yardstick::new(matrix, &layout, &[], windows, now, fresh_ms);
        let buffers_ns = u64::try_from(self.buffers_last.as_nanos()).unwrap();
        ask(Scene { matrix, layout: &layout, yardstick: &yardstick, windows, now, fresh_ms, buffers_ns })
    }
}

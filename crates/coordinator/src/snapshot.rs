//! The matrix on disk: written every half minute, read once at the start. It is a help, not a truth: agents bring back what
//! they know anyway, and a file that is damaged is left aside with a word in the log.
//!
//! The file is a sequence of agents' result frames, each behind its length (four bytes, little-endian), so that it is read
//! with the same care as what comes from the network. It is written beside and renamed, never half.

use crate::hub::Hub;
use rdmascope_link::{FRAME_BYTES_MAX, RESULTS_PER_FRAME_MAX, ToCoordinator};
use rdmascope_localise::EndpointIndex;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

/// How often it is written; what was measured since then comes back from the agents.
const EVERY: Duration = Duration::from_secs(30);
/// First bytes of the file: what it is, and the version of its form.
const MAGIC: &[u8; 8] = b"rdmsnap1";

/// Reads what an earlier coordinator kept.
pub(crate) fn load(hub: &Hub, folder: &Path) {
    let path = file(folder);
    match read(hub, &path) {
        Ok(0) => {}
        Ok(results) => info!(path = %path.display(), results, "the matrix of the last run is back"),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => {
            warn!(path = %path.display(), %error, "the kept matrix cannot be read; agents bring back what they know")
        }
    }
}

/// Writes for as long as the program runs.
pub(crate) async fn keep(hub: Arc<Hub>, folder: PathBuf) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let (hub, folder) = (Arc::clone(&hub), folder.clone());
        // The disk may be slow; nobody waits for it.
        hub.keep_incidents();
        if tokio::task::spawn_blocking(move || save(&hub, &folder)).await.is_err() {
            return;
        }
    }
}

/// Writes once.
pub(crate) fn save(hub: &Hub, folder: &Path) {
    if let Err(error) = write(hub, folder) {
        warn!(folder = %folder.display(), %error, "the matrix cannot be kept: is the folder there, writable and not full?");
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("matrix.snapshot")
}

fn write(hub: &Hub, folder: &Path) -> io::Result<()> {
    let beside = folder.join("matrix.snapshot.new");
    let mut out = BufWriter::new(File::create(&beside)?);
    out.write_all(MAGIC)?;
    // One source at a time, so that the lock is held for microseconds.
    let endpoints = hub.read(|state, _| state.matrix().len());
    for index in 0..u32::try_from(endpoints).unwrap_or(u32::MAX) {
        let results = hub.read(|state, _| state.results_from(EndpointIndex(index)));
        for portion in results.chunks(RESULTS_PER_FRAME_MAX) {
            let frame = ToCoordinator::Results(portion.to_vec()).encode();
            out.write_all(&u32::try_from(frame.len()).unwrap_or(u32::MAX).to_le_bytes())?;
            out.write_all(&frame)?;
        }
    }
    out.into_inner()?.sync_all()?;
    fs::rename(beside, file(folder))
}

fn read(hub: &Hub, path: &Path) -> io::Result<usize> {
    let wrong = |what: String| io::Error::new(ErrorKind::InvalidData, what);
    let mut input = BufReader::new(File::open(path)?);
    let mut magic = [0; MAGIC.len()];
    input.read_exact(&mut magic)?;
    if &magic != MAGIC {
        return Err(wrong("it is not a matrix snapshot of this version".to_owned()));
    }
    let mut count = 0;
    loop {
        let mut length = [0; 4];
        match input.read_exact(&mut length) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(count),
            other => other?,
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(wrong(format!("a part of {length} bytes")));
        }
        let mut frame = vec![0; length];
        input.read_exact(&mut frame)?;
        let ToCoordinator::Results(results) =
            ToCoordinator::decode(&frame).map_err(|e| wrong(e.to_string()))?
        else {
            return Err(wrong("a part that holds no results".to_owned()));
        };
        count += results.len();
        hub.write(|state, now| state.restore(results, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_control::coordinator::{Coordinator, Settings};
    use rdmascope_host::Clock;
    use rdmascope_link::ProbeResult;
    use rdmascope_localise::Cell;
    use rdmascope_model::{
        BandwidthStats, Cause, CounterDelta, Failure, Metric, Outcome, Role, Side, Step, Wall,
    };

    fn hub() -> Hub {
        Hub::new(Settings::default(), 1, Clock::new(), None, false, 100).unwrap()
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("rdmascope-snapshot-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn result(outcome: Outcome) -> ProbeResult {
        ProbeResult {
            lease: None,
            local: "a/d/1".parse().unwrap(),
            peer: "b/d/1".parse().unwrap(),
            role: Role::Source,
            metric: Some(Metric::Bandwidth),
            measured_at: Wall(1_000),
            outcome,
            effects: None,
            evidence: String::new(),
        }
    }

    fn cell(state: &Coordinator) -> Cell {
        let find = |name| state.find_endpoint(name).unwrap();
        state.matrix().cell(Metric::Bandwidth, find("a"), find("b"))
    }

    #[test]
    fn figures_and_failures_come_back_with_their_time() {
        let stats = BandwidthStats {
            bytes: 9,
            duration_ns: 8,
            average_bps: 7,
            worst_window_bps: None,
            variation_permille: None,
            completions: 6,
        };
        let failure = Failure {
            cause: Cause::PortDown,
            step: Step::Admit,
            side: Side::Target,
            evidence: "state DOWN".to_owned(),
        };
        let outcomes =
            [Outcome::Bandwidth(stats, CounterDelta { retransmits: Some(5) }), Outcome::Failed(failure)];
        let folder = folder("back");
        for outcome in outcomes {
            let before = hub();
            before.write(|state, now| state.restore(vec![result(outcome)], now));
            save(&before, &folder);
            let after = hub();
            load(&after, &folder);
            assert_eq!(after.read(|state, _| cell(state)), before.read(|state, _| cell(state)));
            assert_eq!(after.read(|state, _| cell(state).at()), Some(Wall(1_000)));
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_damaged_file_is_an_error_and_nothing_worse() {
        let folder = folder("damaged");
        let kept = hub();
        let failed = Failure {
            cause: Cause::PortDown,
            step: Step::Admit,
            side: Side::Target,
            evidence: String::new(),
        };
        kept.write(|state, now| state.restore(vec![result(Outcome::Failed(failed))], now));
        save(&kept, &folder);
        let good = fs::read(file(&folder)).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x55;
            fs::write(file(&folder), &bad).unwrap();
            drop(read(&hub(), &file(&folder)));
            fs::write(file(&folder), &good[..at]).unwrap();
            drop(read(&hub(), &file(&folder)));
        }
        let error = read(&hub(), &folder.join("absent")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        fs::write(file(&folder), b"something else entirely").unwrap();
        assert_eq!(read(&hub(), &file(&folder)).unwrap_err().kind(), ErrorKind::InvalidData);
        fs::remove_dir_all(folder).unwrap();
    }
}

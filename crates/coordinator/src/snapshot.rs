//! The matrix on disk, written every half minute, and the history of pairs, every five minutes; read once at the start. They are a help,
//! not a truth: agents bring back what they know anyway, and a file that is damaged is moved aside with a word in the log.
//!
//! A file: `rdmsnap2` or `rdmpast1`, then parts, each behind its length (u32) and its check (u64), little-endian. The first part has the
//! names of the endpoints, one a line; each other one the cells of one source and metric (`localise`, `keep.rs`), or the history of the
//! pairs of one source (`trails.rs`). It is written beside and renamed, never half. With pings between all of 4,096 endpoints the matrix
//! has a gigabyte; a day of history between 128 endpoints has 57 MB.

use crate::hub::Hub;
use crate::replace::replace;
use rdmascope_localise::EndpointIndex;
use rdmascope_model::{EndpointName, Metric};
use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

/// How often the matrix is written; what was measured since then comes back from the agents.
const EVERY: Duration = Duration::from_secs(30);
/// History every tenth time: five minutes of a day are no loss, and most of it has not changed.
const HISTORY_EVERY: u32 = 10;
/// A source with 4,096 rows has 250 KB, and all texts there are 16 MB; 4,095 pairs of one source that flap in every metric have 85 MB.
const PART_BYTES_MAX: usize = 96 << 20;
/// Fewer and larger reads than parts.
const BUFFER_BYTES: usize = 1 << 20;

/// One of the two files.
pub(crate) struct Kept {
    name: &'static str,
    what: &'static str,
    /// What its metric calls it.
    label: &'static str,
    /// First bytes of the file: what it is, and the version of its form.
    magic: &'static [u8; 8],
    /// What each part is of, beside its source.
    parts: &'static [Option<Metric>],
}

pub(crate) const MATRIX: Kept = Kept {
    name: "matrix.snapshot",
    what: "matrix",
    label: "matrix",
    magic: b"rdmsnap2",
    parts: &[Some(Metric::Latency), Some(Metric::Bandwidth), Some(Metric::Ping)],
};
pub(crate) const HISTORY: Kept = Kept {
    name: "pairs.snapshot",
    what: "history of pairs",
    label: "pairs",
    magic: b"rdmpast1",
    parts: &[None],
};

/// Reads what an earlier coordinator kept.
pub(crate) fn load(hub: &Hub, folder: &Path) {
    for kept in [&MATRIX, &HISTORY] {
        let (path, what) = (kept.path(folder), kept.what);
        match read(hub, kept, &path) {
            Ok(0) => {}
            Ok(count) => info!(path = %path.display(), count, "the {what} of the last run is back"),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                warn!(path = %path.display(), %error, "the kept {what} cannot be read; agents bring back what they know");
                move_aside(&path, &error);
            }
        }
    }
}

/// Keeps a file that is damaged for whoever wants to look into it, in place of one before it: the next one will have its name.
fn move_aside(path: &Path, error: &io::Error) {
    if !matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) {
        return;
    }
    let mut aside = path.as_os_str().to_owned();
    aside.push(".damaged");
    match fs::rename(path, &aside) {
        Ok(()) => warn!(aside = %Path::new(&aside).display(), "the damaged file is moved aside"),
        Err(error) => warn!(path = %path.display(), %error, "the damaged file cannot be moved aside"),
    }
}

/// Writes for as long as the program runs.
pub(crate) async fn keep(hub: Arc<Hub>, folder: PathBuf) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut times = 0;
    loop {
        ticks.tick().await;
        times += 1;
        let (hub, folder) = (Arc::clone(&hub), folder.clone());
        // The disk may be slow; nobody waits for it.
        hub.keep_incidents();
        let wanted = if times % HISTORY_EVERY == 0 { &[&HISTORY, &MATRIX][..] } else { &[&MATRIX] };
        if tokio::task::spawn_blocking(move || save_these(wanted, &hub, &folder)).await.is_err() {
            return;
        }
    }
}

/// Writes all of it once.
pub(crate) fn save(hub: &Hub, folder: &Path) {
    // History first: what is newer in the matrix is not told again by agents, and so never twice in the history.
    save_these(&[&HISTORY, &MATRIX], hub, folder);
}

fn save_these(wanted: &[&Kept], hub: &Hub, folder: &Path) {
    for kept in wanted {
        if let Err(error) = write(hub, kept, folder) {
            let what = kept.what;
            hub.own.write_failed(kept.label);
            warn!(folder = %folder.display(), %error, "the {what} cannot be kept: is the folder there, writable and not full?");
        }
    }
}

impl Kept {
    fn path(&self, folder: &Path) -> PathBuf {
        folder.join(self.name)
    }
}

/// One part of the file: its length and its check before it.
fn put(out: &mut impl Write, part: &[u8]) -> io::Result<()> {
    out.write_all(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes())?;
    out.write_all(&check(part).to_le_bytes())?;
    out.write_all(part)
}

/// The next part; `None` at the end of the file.
fn take(input: &mut impl Read, part: &mut Vec<u8>) -> io::Result<Option<()>> {
    let mut length = [0; 4];
    match input.read_exact(&mut length) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > PART_BYTES_MAX {
        return Err(wrong(format!("a part of {length} bytes")));
    }
    let mut sum = [0; 8];
    input.read_exact(&mut sum)?;
    // What the length says is not believed before it has come.
    part.clear();
    if input.take(length as u64).read_to_end(part)? < length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    if check(part) != u64::from_le_bytes(sum) {
        return Err(wrong("a part that is damaged".to_owned()));
    }
    Ok(Some(()))
}

/// Tells a part from one in which something changed; not against somebody who changes it with intent.
fn check(part: &[u8]) -> u64 {
    let (words, rest) = part.as_chunks();
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    let sum = words.iter().fold(part.len() as u64, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    rest.iter().fold(sum, |sum, byte| mix(sum, u64::from(*byte)))
}

fn wrong(what: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

fn write(hub: &Hub, kept: &Kept, folder: &Path) -> io::Result<()> {
    replace(folder, kept.name, |out| {
        out.write_all(kept.magic)?;
        // Endpoints that come while this is written are in the next one.
        let names = hub.read(|state, _| state.kept_names());
        let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
        put(out, names.iter().map(|name| format!("{name}\n")).collect::<String>().as_bytes())?;
        let mut part = Vec::new();
        for source in (0..count).map(EndpointIndex) {
            for of in kept.parts {
                // One source at a time, so that the lock is held for microseconds and no second matrix is made.
                part.clear();
                hub.read(|state, _| match of {
                    Some(metric) => state.keep(*metric, source, count, &mut part),
                    None => state.keep_trails(source, count, &mut part),
                });
                if !part.is_empty() {
                    put(out, &part)?;
                }
            }
        }
        Ok(())
    })
}

fn read(hub: &Hub, kept: &Kept, path: &Path) -> io::Result<usize> {
    read_from(hub, kept, &mut BufReader::with_capacity(BUFFER_BYTES, File::open(path)?))
}

/// The same of any bytes.
pub(crate) fn read_from(hub: &Hub, kept: &Kept, input: &mut impl Read) -> io::Result<usize> {
    let mut magic = [0; MATRIX.magic.len()];
    input.read_exact(&mut magic)?;
    if &magic != kept.magic {
        return Err(wrong(format!("it is not a {} of this version", kept.what)));
    }
    let mut part = Vec::new();
    if take(input, &mut part)?.is_none() {
        return Err(wrong("it is cut short".to_owned()));
    }
    let names = std::str::from_utf8(&part).map_err(|error| wrong(error.to_string()))?;
    let names: Result<Vec<EndpointName>, _> = names.lines().map(str::parse).collect();
    let names = names.map_err(|error| wrong(error.to_string()))?;
    let numbers = hub.write(|state, _| state.restore_names(&names));
    let mut count = 0;
    while take(input, &mut part)?.is_some() {
        // Cells of endpoints that are too many are the only ones that nobody knows.
        let taken = hub.write(|state, now| match kept.parts {
            [None] => state.restore_trails(&part, &numbers),
            _ => state.restore(&part, &numbers, now),
        });
        match taken {
            Ok(taken) => count += taken,
            Err(_) if numbers.len() < names.len() => {}
            Err(error) => return Err(wrong(error.to_string())),
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;
    use rdmascope_control::coordinator::{Coordinator, Settings};
    use rdmascope_host::Clock;
    use rdmascope_localise::{Cell, Matrix, Measured};
    use rdmascope_model::{BandwidthStats, Cause, CounterDelta, Failure, Side, Step, Wall};

    fn hub() -> Hub {
        Hub::new(Settings::default(), 1, Clock::new(), Access::default(), false, 100).unwrap()
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("rdmascope-snapshot-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn file(folder: &Path) -> PathBuf {
        MATRIX.path(folder)
    }

    /// What a coordinator knows whose last probe of bandwidth from a to b ended like this.
    fn knows(fill: impl Fn(&mut Matrix, EndpointIndex, EndpointIndex) -> bool) -> Hub {
        let mut matrix = Matrix::default();
        let names = ["a/d/1", "b/d/1"].map(|name| name.parse::<EndpointName>().unwrap());
        let [a, b] = names.each_ref().map(|name| matrix.intern(name));
        assert!(fill(&mut matrix, a, b));
        let mut part = Vec::new();
        matrix.keep(Metric::Bandwidth, a, 2, &mut part);
        let hub = hub();
        hub.write(|state, now| {
            let numbers = state.restore_names(&names);
            state.restore(&part, &numbers, now).unwrap();
        });
        hub
    }

    fn failed() -> Failure {
        let evidence = "state DOWN".to_owned();
        Failure { cause: Cause::PortDown, step: Step::Admit, side: Side::Target, evidence }
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
        let measured = Measured::Bandwidth(stats, CounterDelta { retransmits: Some(5) });
        let folder = folder("back");
        for before in [
            knows(|matrix, a, b| matrix.record(a, b, Wall(1_000), &measured)),
            knows(|matrix, a, b| matrix.fail(Metric::Bandwidth, a, b, Wall(1_000), &failed())),
        ] {
            save(&before, &folder);
            let after = hub();
            load(&after, &folder);
            assert_eq!(after.read(|state, _| cell(state)), before.read(|state, _| cell(state)));
            assert_eq!(after.read(|state, _| cell(state).at()), Some(Wall(1_000)));
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn history_comes_back_without_the_matrix_and_the_matrix_without_history() {
        let folder = folder("history");
        let before = hub();
        let moments = |hub: &Hub| {
            hub.read(|state, now| {
                let find = |name| state.find_endpoint(name).ok();
                let (a, b) = find("a").zip(find("b"))?;
                Some(state.trail(a, b, now.wall)?.pair?.moments(Metric::Bandwidth))
            })
        };
        before.write(|state, _| {
            let names = ["a/d/1", "b/d/1"].map(|name| name.parse::<EndpointName>().unwrap());
            let [a, b] = state.restore_names(&names)[..] else { panic!("two") };
            let mut matrix = Matrix::default();
            names.iter().for_each(|name| assert!(matrix.intern(name).0 < 2));
            for second in [1_790_000_000, 1_790_000_100] {
                matrix.fail(Metric::Bandwidth, a, b, Wall(second * 1_000), &failed());
            }
            let mut part = Vec::new();
            matrix.trails().write(a, 2, &mut part);
            assert_eq!(state.restore_trails(&part, &[a, b]), Ok(1));
        });
        let known = moments(&before).unwrap();
        assert_eq!(known.len(), 2, "{known:?}");
        save(&before, &folder);
        fs::remove_file(MATRIX.path(&folder)).unwrap();
        let after = hub();
        load(&after, &folder);
        assert_eq!(moments(&after), Some(known));
        // As an older version leaves the folder.
        save(&knows(|matrix, a, b| matrix.fail(Metric::Bandwidth, a, b, Wall(1_000), &failed())), &folder);
        fs::remove_file(HISTORY.path(&folder)).unwrap();
        let after = hub();
        load(&after, &folder);
        assert_eq!(after.read(|state, _| cell(state).at()), Some(Wall(1_000)));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_of_another_version_is_refused_and_leaves_the_matrix_as_it_was() {
        let folder = folder("version");
        save(&knows(|matrix, a, b| matrix.fail(Metric::Bandwidth, a, b, Wall(1_000), &failed())), &folder);
        let own = fs::read(file(&folder)).unwrap();
        for version in [b"rdmsnap1", b"rdmsnap3"] {
            fs::write(file(&folder), [version.as_slice(), &own[version.len()..]].concat()).unwrap();
            let after = hub();
            assert_eq!(read(&after, &MATRIX, &file(&folder)).unwrap_err().kind(), ErrorKind::InvalidData);
            assert!(after.read(|state, _| state.matrix().is_empty()));
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_damaged_file_is_an_error_and_nothing_worse() {
        let folder = folder("damaged");
        let kept = knows(|matrix, a, b| matrix.fail(Metric::Bandwidth, a, b, Wall(1_000), &failed()));
        save(&kept, &folder);
        let good = fs::read(file(&folder)).unwrap();
        let past = fs::read(HISTORY.path(&folder)).unwrap();
        for at in 0..past.len() {
            let mut bad = past.clone();
            bad[at] ^= 0x55;
            fs::write(HISTORY.path(&folder), &bad).unwrap();
            assert!(read(&hub(), &HISTORY, &HISTORY.path(&folder)).is_err(), "byte {at} is another one");
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x55;
            fs::write(file(&folder), &bad).unwrap();
            assert!(read(&hub(), &MATRIX, &file(&folder)).is_err(), "byte {at} is another one");
            fs::write(file(&folder), &good[..at]).unwrap();
            drop(read(&hub(), &MATRIX, &file(&folder)));
        }
        let error = read(&hub(), &MATRIX, &folder.join("absent")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        fs::write(file(&folder), b"something else entirely").unwrap();
        assert_eq!(read(&hub(), &MATRIX, &file(&folder)).unwrap_err().kind(), ErrorKind::InvalidData);
        fs::remove_dir_all(folder).unwrap();
    }
}

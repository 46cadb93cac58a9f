//! Where rows lie: in tiles that are made when one of their cells is first written, or, where few pairs are measured, one by one.

use crate::EndpointIndex;

/// Endpoints along one side of a tile. A tile of pings has 229 KB, of which the system gives only the pages that are written: a row of a
/// tile fills one.
const SIDE: usize = 64;

/// One tile: the rows of 64 sources to 64 targets, source by source.
type Tile<const WORDS: usize> = Box<[[u32; WORDS]]>;

/// All pairs: for metrics that nearly every pair has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tiles<const WORDS: usize> {
    /// By 64 sources, then by 64 targets.
    tiles: Vec<Vec<Option<Tile<WORDS>>>>,
}

impl<const WORDS: usize> Tiles<WORDS> {
    /// The row of a pair; `None` while nothing near it was written.
    #[inline]
    pub(crate) fn row(&self, source: EndpointIndex, target: EndpointIndex) -> Option<&[u32; WORDS]> {
        let (source, target) = (source.0 as usize, target.0 as usize);
        let tile = self.tiles.get(source / SIDE)?.get(target / SIDE)?.as_ref()?;
        tile.get(source % SIDE * SIDE + target % SIDE)
    }

    /// The same for one source and many targets.
    #[inline]
    pub(crate) fn row_of<'a>(
        &'a self,
        source: EndpointIndex,
    ) -> impl Fn(EndpointIndex) -> Option<&'a [u32; WORDS]> {
        let (line, first) = (self.tiles.get(source.0 as usize / SIDE), source.0 as usize % SIDE * SIDE);
        let line = line.map_or(&[][..], Vec::as_slice);
        move |target| {
            let target = target.0 as usize;
            line.get(target / SIDE)?.as_ref()?.get(first + target % SIDE)
        }
    }

    /// The row of a pair, to be written.
    pub(crate) fn slot(&mut self, source: EndpointIndex, target: EndpointIndex) -> &mut [u32; WORDS] {
        let (source, target) = (source.0 as usize, target.0 as usize);
        let (down, along) = (source / SIDE, target / SIDE);
        if self.tiles.len() <= down {
            self.tiles.resize_with(down + 1, Vec::new);
        }
        let line = &mut self.tiles[down];
        if line.len() <= along {
            line.resize_with(along + 1, || None);
        }
        let tile = line[along].get_or_insert_with(|| vec![[0; WORDS]; SIDE * SIDE].into_boxed_slice());
        &mut tile[source % SIDE * SIDE + target % SIDE]
    }

    /// The rows of a source wherever there are tiles, those that were never written too, in the order of targets.
    pub(crate) fn from(&self, source: EndpointIndex) -> impl Iterator<Item = (EndpointIndex, &[u32; WORDS])> {
        let (down, row) = (source.0 as usize / SIDE, source.0 as usize % SIDE);
        let line = self.tiles.get(down).map_or(&[][..], Vec::as_slice);
        line.iter().enumerate().filter_map(|(along, tile)| Some((along, tile.as_ref()?))).flat_map(
            move |(along, tile)| {
                let rows = &tile[row * SIDE..(row + 1) * SIDE];
                let first = (along * SIDE) as u32;
                (first..).zip(rows).map(|(target, row)| (EndpointIndex(target), row))
            },
        )
    }

    /// Bytes of all tiles, whether the system has given them or not.
    pub(crate) fn bytes(&self) -> usize {
        let tiles = self.tiles.iter().flatten().flatten().count();
        tiles * SIDE * SIDE * size_of::<[u32; WORDS]>()
    }
}

/// Some pairs: for metrics that few have, such as bandwidth, which is measured within a rail.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sparse<const WORDS: usize> {
    /// By source.
    sources: Vec<Line<WORDS>>,
}

/// What one source has: targets in rising order, and their rows.
#[derive(Clone, Debug, Default)]
struct Line<const WORDS: usize> {
    targets: Vec<u32>,
    rows: Vec<[u32; WORDS]>,
}

impl<const WORDS: usize> Sparse<WORDS> {
    /// The row of a pair; `None` when it was never written.
    pub(crate) fn row(&self, source: EndpointIndex, target: EndpointIndex) -> Option<&[u32; WORDS]> {
        let line = self.sources.get(source.0 as usize)?;
        line.rows.get(line.targets.binary_search(&target.0).ok()?)
    }

    /// The row of a pair, to be written.
    pub(crate) fn slot(&mut self, source: EndpointIndex, target: EndpointIndex) -> &mut [u32; WORDS] {
        let source = source.0 as usize;
        if self.sources.len() <= source {
            self.sources.resize_with(source + 1, Line::default);
        }
        let line = &mut self.sources[source];
        let at = line.targets.binary_search(&target.0).unwrap_or_else(|at| {
            // Doubling would leave half of the matrix's memory empty.
            line.targets.reserve_exact(if line.targets.len() == line.targets.capacity() { 32 } else { 1 });
            line.rows.reserve_exact(if line.rows.len() == line.rows.capacity() { 32 } else { 1 });
            line.targets.insert(at, target.0);
            line.rows.insert(at, [0; WORDS]);
            at
        });
        &mut line.rows[at]
    }

    /// The written rows of a source, in the order of targets.
    pub(crate) fn from(&self, source: EndpointIndex) -> impl Iterator<Item = (EndpointIndex, &[u32; WORDS])> {
        let line = self.sources.get(source.0 as usize);
        line.into_iter().flat_map(|line| {
            line.targets.iter().zip(&line.rows).map(|(&target, row)| (EndpointIndex(target), row))
        })
    }

    /// Bytes of all rows.
    pub(crate) fn bytes(&self) -> usize {
        let row = size_of::<u32>() + size_of::<[u32; WORDS]>();
        self.sources.iter().map(|line| line.rows.capacity() * row).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIRS: [(u32, u32); 6] = [(0, 1), (0, 64), (63, 63), (64, 0), (200, 3), (0, 63)];

    fn at(index: u32) -> EndpointIndex {
        EndpointIndex(index)
    }

    #[test]
    fn a_row_is_where_it_was_written_and_nowhere_else() {
        let (mut tiles, mut sparse) = (Tiles::<3>::default(), Sparse::<3>::default());
        for (number, (source, target)) in (1..).zip(PAIRS) {
            *tiles.slot(at(source), at(target)) = [number; 3];
            *sparse.slot(at(source), at(target)) = [number; 3];
        }
        for (number, (source, target)) in (1..).zip(PAIRS) {
            assert_eq!(tiles.row(at(source), at(target)), Some(&[number; 3]));
            assert_eq!(tiles.row_of(at(source))(at(target)), Some(&[number; 3]));
            assert_eq!(sparse.row(at(source), at(target)), Some(&[number; 3]));
        }
        assert_eq!((tiles.row(at(1), at(1)), tiles.row(at(1), at(200))), (Some(&[0; 3]), None));
        assert_eq!((tiles.row_of(at(1))(at(1)), tiles.row_of(at(1))(at(200))), (Some(&[0; 3]), None));
        assert_eq!(tiles.row_of(at(4_000))(at(1)), None);
        assert_eq!((sparse.row(at(1), at(1)), sparse.row(at(0), at(200))), (None, None));
        let written = |(target, row): (EndpointIndex, &[u32; 3])| (row[0] != 0).then_some(target.0);
        assert_eq!(tiles.from(at(0)).filter_map(written).collect::<Vec<_>>(), [1, 63, 64]);
        assert_eq!(sparse.from(at(0)).filter_map(written).collect::<Vec<_>>(), [1, 63, 64]);
    }

    #[test]
    fn one_cell_takes_one_tile_and_a_few_cells_take_a_few_rows() {
        let (mut tiles, mut sparse) = (Tiles::<3>::default(), Sparse::<3>::default());
        tiles.slot(at(4_095), at(0));
        sparse.slot(at(4_095), at(0));
        assert_eq!(tiles.bytes(), 64 * 64 * 12);
        assert!(sparse.bytes() <= 32 * 16, "{}", sparse.bytes());
        (1..1_000).for_each(|target| *sparse.slot(at(0), at(target)) = [1; 3]);
        assert!(sparse.bytes() <= 1_100 * 16, "{}", sparse.bytes());
    }
}

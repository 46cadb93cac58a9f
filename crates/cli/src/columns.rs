//! Lists in columns: as wide as their texts, and cut in the middle of names where the terminal is narrower.

use crate::screen::{Screen, Tone, length, painted};

/// Spaces between columns.
const GAP: usize = 2;

/// A column is cut to this at least, so that something can be recognised.
const CUT_TO_MIN: usize = 7;

/// One cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    tone: Option<Tone>,
}

impl Cell {
    /// The same text in a colour.
    pub(crate) fn toned(self, tone: Option<Tone>) -> Self {
        Self { tone, ..self }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), tone: None }
    }
}

/// Rows under a head.
pub(crate) struct Columns {
    head: Vec<&'static str>,
    /// Columns of numbers, which stand on the right.
    right: &'static [usize],
    rows: Vec<Vec<Cell>>,
}

impl Columns {
    /// No rows yet; `right` are the columns whose texts stand on the right.
    pub(crate) fn new(head: &[&'static str], right: &'static [usize]) -> Self {
        Self { head: head.to_vec(), right, rows: Vec::new() }
    }

    /// One more row, with a cell for each column.
    pub(crate) fn push<const N: usize>(&mut self, row: [Cell; N]) {
        self.rows.push(row.into());
    }

    /// As text, no wider than the screen.
    pub(crate) fn text(&self, screen: Screen) -> String {
        let widths = self.widths(screen.columns);
        let head: Vec<Cell> = self.head.iter().map(|name| Cell::from(*name)).collect();
        let mut text = String::new();
        for row in std::iter::once(&head).chain(&self.rows) {
            let cells = row.iter().zip(&widths).enumerate();
            let line: Vec<String> =
                cells.map(|(at, (cell, width))| self.cell(at, cell, *width, screen)).collect();
            text.push_str(line.join(&" ".repeat(GAP)).trim_end());
            text.push('\n');
        }
        text
    }

    fn cell(&self, at: usize, cell: &Cell, width: usize, screen: Screen) -> String {
        let text = cut(&cell.text, width);
        let room = " ".repeat(width - length(&text).min(width));
        let text = painted(&text, cell.tone, screen.colour);
        if self.right.contains(&at) { room + &text } else { text + &room }
    }

    fn widths(&self, columns: Option<usize>) -> Vec<usize> {
        let width = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| length(&cell.text));
            cells.max().unwrap_or(0).max(self.head.get(at).map_or(0, |name| length(name)))
        };
        let mut widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let Some(columns) = columns else { return widths };
        let room = columns.saturating_sub(GAP * self.head.len().saturating_sub(1));
        // The widest gives way first: that is where the long names are.
        while widths.iter().sum::<usize>() > room {
            match widths.iter_mut().max().filter(|widest| **widest > CUT_TO_MIN) {
                Some(widest) => *widest -= 1,
                None => break,
            }
        }
        widths
    }
}

/// At most so many letters: the begin and the end, which tell names apart.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let (begin, end) = (kept / 2, letters.len() - (kept - kept / 2));
    let begin = letters.iter().take(begin);
    begin.chain(std::iter::once(&'…')).chain(letters.iter().skip(end)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> Columns {
        let mut list = Columns::new(&["NODE", "AGE"], &[1]);
        list.push(["a-node-with-a-very-long-name-007".into(), Cell::from("3 s").toned(Some(Tone::Good))]);
        list.push(["b".into(), "100 s".into()]);
        list
    }

    #[test]
    fn columns_are_as_wide_as_their_texts() {
        assert_eq!(
            list().text(Screen::default()),
            "NODE                                AGE\n\
             a-node-with-a-very-long-name-007    3 s\n\
             b                                 100 s\n"
        );
    }

    #[test]
    fn on_a_narrow_screen_names_lose_their_middle() {
        let text = list().text(Screen { columns: Some(20), colour: true });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "a-node…me-007    \x1b[38;5;32m3 s\x1b[0m");
        assert!(lines.iter().all(|line| length(line) <= 20), "{text}");
        assert_eq!(cut("abcdefgh", 5), "ab…gh");
        assert_eq!(cut("abc", 3), "abc");
    }
}

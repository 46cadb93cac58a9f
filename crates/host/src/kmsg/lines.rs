//! Bytes into whole lines, in bounded memory.

/// Longest line that is kept; the rest of a longer one is dropped. The kernel's longest record is 8 KiB (`PRINTKRB_RECORD_MAX` and its
/// dictionary), of which the message is 1 KiB.
const LINE_MAX: usize = 8 * 1024;

/// Collects bytes until a line is whole.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    /// Gives every line that is whole now to `each`, without its end.
    pub(crate) fn feed(&mut self, bytes: &[u8], each: &mut dyn FnMut(&str)) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = LINE_MAX.saturating_sub(self.begun.len());
            let whole = part.ends_with(b"\n");
            let text = if whole { &part[..part.len() - 1] } else { part };
            if whole && self.begun.is_empty() {
                each(&String::from_utf8_lossy(&text[..text.len().min(LINE_MAX)]));
                continue;
            }
            self.begun.extend_from_slice(&text[..text.len().min(room)]);
            if whole {
                each(&String::from_utf8_lossy(&self.begun));
                self.begun.clear();
            }
        }
    }

    /// The last line of a file that does not end with a line end.
    pub(crate) fn end(&mut self, each: &mut dyn FnMut(&str)) {
        if !self.begun.is_empty() {
            each(&String::from_utf8_lossy(&self.begun));
            self.begun.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_wherever_the_bytes_are_cut() {
        let text = "one\ntwo é\n\nlast";
        for cut in 0..=text.len() {
            let mut seen = Vec::new();
            let mut lines = Lines::default();
            lines.feed(&text.as_bytes()[..cut], &mut |line| seen.push(line.to_owned()));
            lines.feed(&text.as_bytes()[cut..], &mut |line| seen.push(line.to_owned()));
            lines.end(&mut |line| seen.push(line.to_owned()));
            assert_eq!(seen, ["one", "two é", "", "last"]);
        }
    }

    #[test]
    fn a_line_without_end_does_not_grow() {
        let mut lines = Lines::default();
        for _ in 0..100 {
            lines.feed(&[b'x'; 1024], &mut |_| panic!("no line is whole"));
        }
        assert_eq!(lines.begun.len(), LINE_MAX);
    }
}

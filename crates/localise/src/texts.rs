//! What failures say in words, each text once: a dead node fails thousands of pairs with the same few sentences.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Different texts that are held at the same time: with the longest text of a frame (1 KiB) they take 16 MB.
const TEXTS_MAX: usize = 16_384;
/// The number of the empty text.
pub(crate) const NO_TEXT: u32 = 0;
/// The number of the text that stands for one that found no room.
const NO_ROOM: u32 = 1;
const NO_ROOM_TEXT: &str = "not kept: too many pairs failed for different reasons at once";

/// Texts by numbers, with how many rows hold each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts {
    /// From number 2 on.
    list: Vec<(Arc<str>, u32)>,
    numbers: BTreeMap<Arc<str>, u32>,
    /// Numbers whose text nobody holds any more.
    free: Vec<u32>,
}

impl Texts {
    /// The number of a text, which one more row holds now.
    pub(crate) fn keep(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return NO_TEXT;
        }
        if let Some(&number) = self.numbers.get(text) {
            self.list[place(number)].1 += 1;
            return number;
        }
        if self.numbers.len() >= TEXTS_MAX {
            return NO_ROOM;
        }
        let text: Arc<str> = text.into();
        let entry = (Arc::clone(&text), 1);
        let number = match self.free.pop() {
            Some(number) => {
                self.list[place(number)] = entry;
                number
            }
            None => {
                self.list.push(entry);
                u32::try_from(self.list.len() + 1).unwrap_or(NO_ROOM)
            }
        };
        self.numbers.insert(text, number);
        number
    }

    /// One row less holds it.
    pub(crate) fn release(&mut self, number: u32) {
        if number <= NO_ROOM {
            return;
        }
        let (text, held) = &mut self.list[place(number)];
        *held = held.saturating_sub(1);
        if *held == 0 {
            self.numbers.remove(text);
            *text = "".into();
            self.free.push(number);
        }
    }

    /// The text of a number.
    pub(crate) fn get(&self, number: u32) -> &str {
        match number {
            NO_TEXT => "",
            NO_ROOM => NO_ROOM_TEXT,
            number => self.list.get(place(number)).map_or("", |(text, _)| text),
        }
    }

    /// Bytes that the texts themselves take.
    pub(crate) fn bytes(&self) -> usize {
        self.numbers.keys().map(|text| text.len()).sum()
    }
}

fn place(number: u32) -> usize {
    number as usize - 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_held_once_and_for_as_long_as_a_row_holds_it() {
        let mut texts = Texts::default();
        let [a, b] = ["state DOWN", "no carrier"].map(|text| texts.keep(text));
        assert_eq!((texts.keep("state DOWN"), texts.get(a), texts.get(b)), (a, "state DOWN", "no carrier"));
        assert_eq!(texts.keep(""), NO_TEXT);
        let held = texts.bytes();
        texts.release(a);
        assert_eq!((texts.get(a), texts.bytes()), ("state DOWN", held), "the other row holds it still");
        texts.release(a);
        assert!(texts.bytes() < held);
        let c = texts.keep("something new");
        assert_eq!((texts.get(c), texts.get(b)), ("something new", "no carrier"));
    }

    #[test]
    fn texts_without_end_take_no_memory_without_end_and_say_so() {
        let mut texts = Texts::default();
        let numbers: Vec<_> = (0..TEXTS_MAX + 10).map(|i| texts.keep(&format!("evidence {i}"))).collect();
        let last = texts.get(*numbers.last().unwrap());
        assert!(last.contains("not kept"), "{last}");
        assert!(texts.bytes() <= TEXTS_MAX * "evidence 16384".len());
        for number in numbers {
            texts.release(number);
        }
        assert_eq!(texts.bytes(), 0);
        let room = texts.keep("room again");
        assert_eq!(texts.get(room), "room again");
    }
}

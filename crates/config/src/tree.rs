//! The file as a tree that keeps duplicate keys and can tell the line of each of its nodes.
//!
//! A YAML library's own map forgets duplicates, and serde hands out no positions. Two facts help: a visitor sees every
//! key, and an error raised in a visitor comes back with the position of the value it looked at. So each node gets
//! its ordinal number, and the line of node n is found by reading the text again and raising an error at n. Only
//! problems need lines, and they are few.

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, Visitor};
use std::cell::Cell;
use std::fmt;

/// Keys and values in one file: a full config has about 100; aliases that multiply stop here.
pub(crate) const NODES_MAX: u32 = 10_000;

/// Bytes of text in all values, aliases counted each time: as much as the largest file can spell out.
const TEXT_BYTES_MAX: usize = crate::load::CONFIG_BYTES_MAX;

/// Brackets open at once; a config needs two. The parser's time grows with the square of this number.
const BRACKETS_OPEN_MAX: usize = 1000;

/// A key or a value, with its ordinal number in the file.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: u32,
    pub(crate) value: Value,
}

/// What stands there.
#[derive(Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Whole(i128),
    Real(f64),
    Text(String),
    List(Vec<Node>),
    /// In the order of the file, duplicates kept.
    Map(Vec<(Node, Node)>),
}

/// The text could not be read as a tree.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) line: Option<usize>,
    pub(crate) what: String,
    /// Whether YAML itself was broken, as opposed to a limit or a feature that is refused.
    pub(crate) syntax: bool,
}

/// Reads the whole text.
pub(crate) fn read(text: &str) -> Result<Node, Unreadable> {
    if text.lines().map(str::trim_start).all(|line| line.is_empty() || line.starts_with('#')) {
        return Ok(Node { id: 0, value: Value::Null });
    }
    if too_many_brackets(text) {
        let what = "leaves more than 1000 brackets open".to_owned();
        return Err(Unreadable { line: None, what, syntax: true });
    }
    let pass = Pass::default();
    Seed(&pass).deserialize(serde_yaml::Deserializer::from_str(text)).map_err(|error| {
        let refused = pass.refused.get();
        Unreadable {
            line: error.location().map(|location| location.line()),
            what: refused.map_or_else(|| in_our_words(&error.to_string()), str::to_owned),
            syntax: refused.is_none(),
        }
    })
}

fn in_our_words(message: &str) -> String {
    if message.contains("more than one document") {
        return "is more than one YAML document (`---` starts another)".to_owned();
    }
    if message.contains("recursion limit exceeded") {
        return "is nested too deeply".to_owned();
    }
    // The library writes "problem at line 3 column 5, context at line 2 column 1": the first part is enough.
    format!("is not valid YAML: {}", message.split(" at line ").next().unwrap_or_default())
}

/// Counts brackets in quotes and comments too: no config comes near the limit either way.
fn too_many_brackets(text: &str) -> bool {
    let mut open = 0_usize;
    text.bytes().any(|byte| {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        open > BRACKETS_OPEN_MAX
    })
}

/// The line of a node that `read` returned for the same text.
pub(crate) fn line_of(text: &str, id: u32) -> Option<usize> {
    let pass = Pass { stop_at: Some(id), ..Pass::default() };
    let error = Seed(&pass).deserialize(serde_yaml::Deserializer::from_str(text)).err()?;
    error.location().map(|location| location.line())
}

/// What one pass over the text counts.
#[derive(Default)]
struct Pass {
    nodes: Cell<u32>,
    text_bytes: Cell<usize>,
    stop_at: Option<u32>,
    refused: Cell<Option<&'static str>>,
}

impl Pass {
    fn refuse<E: serde::de::Error>(&self, why: &'static str) -> E {
        self.refused.set(Some(why));
        E::custom(why)
    }
}

struct Seed<'p>(&'p Pass);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        let id = self.0.nodes.get();
        if id >= NODES_MAX {
            return Err(self.0.refuse("has more than 10000 keys and values"));
        }
        self.0.nodes.set(id + 1);
        deserializer.deserialize_any(Look { pass: self.0, id }).map(|value| Node { id, value })
    }
}

struct Look<'p> {
    pass: &'p Pass,
    id: u32,
}

impl Look<'_> {
    fn take<E: serde::de::Error>(&self, value: Value) -> Result<Value, E> {
        if self.pass.stop_at == Some(self.id) {
            return Err(E::custom("this is the node"));
        }
        Ok(value)
    }
}

impl<'de> Visitor<'de> for Look<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Value, E> {
        self.take(Value::Null)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<Value, E> {
        self.take(Value::Null)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Value, E> {
        self.take(Value::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        self.take(Value::Whole(value.into()))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        self.take(Value::Whole(value.into()))
    }

    fn visit_i128<E: serde::de::Error>(self, value: i128) -> Result<Value, E> {
        self.take(Value::Whole(value))
    }

    fn visit_u128<E: serde::de::Error>(self, value: u128) -> Result<Value, E> {
        // No key takes such a number; any that is too large for the key reads the same to its check.
        self.take(Value::Whole(i128::try_from(value).unwrap_or(i128::MAX)))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        self.take(Value::Real(value))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        let bytes = self.pass.text_bytes.get().saturating_add(text.len());
        if bytes > TEXT_BYTES_MAX {
            return Err(self.pass.refuse("repeats its text through aliases beyond 256 KiB"));
        }
        self.pass.text_bytes.set(bytes);
        self.take(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        self.take(Value::Null)?;
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(Seed(self.pass))? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        self.take(Value::Null)?;
        let mut entries = Vec::new();
        while let Some(key) = access.next_key_seed(Seed(self.pass))? {
            let value = access.next_value_seed(Seed(self.pass))?;
            entries.push((key, value));
        }
        Ok(Value::Map(entries))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, _access: A) -> Result<Value, A::Error> {
        Err(self.pass.refuse("has a YAML tag (a word that starts with `!`): tags are not used here"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn lines(text: &str) -> Vec<Option<usize>> {
        let mut ids = Vec::new();
        collect(&read(text).expect("readable"), &mut ids);
        ids.into_iter().map(|id| line_of(text, id)).collect()
    }

    fn collect(node: &Node, ids: &mut Vec<u32>) {
        ids.push(node.id);
        match &node.value {
            Value::List(items) => items.iter().for_each(|item| collect(item, ids)),
            Value::Map(entries) => {
                for (key, value) in entries {
                    collect(key, ids);
                    collect(value, ids);
                }
            }
            _ => {}
        }
    }

    #[test]
    fn every_key_and_value_knows_its_line_whatever_the_style() {
        let block = "# head\na: 1\n\nb:\n  c: x\n  # note\n  d:\n    - 5\n    - z\n";
        let expected = [2, 2, 2, 4, 5, 5, 5, 7, 8, 8, 9];
        assert_eq!(lines(block), expected.map(Some));
        let flow = "{\"a\": 1,\n \"b\": {\"c\": \"x\",\n  'd': [5,\n z]}}";
        assert_eq!(lines(flow), [1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4].map(Some));
        let folded = "a: >\n  one\n  two\nb: |\n  x\nc: 1\n";
        assert_eq!(lines(folded), [1, 1, 1, 4, 4, 6, 6].map(Some));
    }

    #[test]
    fn duplicates_are_kept_in_order() {
        let Value::Map(entries) = read("a: 1\nb: 2\na: 3\n").unwrap().value else { panic!("no map") };
        let keys: Vec<_> = entries.iter().map(|(key, _)| format!("{:?}", key.value)).collect();
        assert_eq!(keys, ["Text(\"a\")", "Text(\"b\")", "Text(\"a\")"]);
    }

    #[test]
    fn comments_alone_are_an_empty_file() {
        for text in ["", "\n \n", "# only\n  # comments\n", "---\n"] {
            assert!(matches!(read(text).unwrap().value, Value::Null), "{text:?}");
        }
    }
}

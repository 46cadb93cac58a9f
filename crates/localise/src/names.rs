//! Endpoints by their names: the one look-up that every result of every agent needs.

use crate::EndpointIndex;
use rdmascope_model::EndpointName;

/// Names by numbers, and a table that finds the number of a name. The table never shrinks: no name is ever forgotten.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    list: Vec<EndpointName>,
    /// Number plus one at the place that the name's hash says, or the next free one behind it; 0 is free. At most half of it is full.
    table: Vec<u32>,
}

impl Names {
    pub(crate) fn list(&self) -> &[EndpointName] {
        &self.list
    }

    pub(crate) fn find(&self, name: &EndpointName) -> Option<EndpointIndex> {
        let mut at = self.first_place(name)?;
        loop {
            let number = self.table[at].checked_sub(1)?;
            if self.list[number as usize] == *name {
                return Some(EndpointIndex(number));
            }
            at = (at + 1) % self.table.len();
        }
    }

    /// The name must not be there yet.
    pub(crate) fn add(&mut self, name: EndpointName) -> EndpointIndex {
        let number = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        self.list.push(name);
        if self.list.len() * 2 > self.table.len() {
            self.table = vec![0; (self.list.len() * 4).next_power_of_two()];
            (0..number).for_each(|known| self.place(known));
        }
        self.place(number);
        EndpointIndex(number)
    }

    fn place(&mut self, number: u32) {
        let Some(mut at) = self.first_place(&self.list[number as usize]) else { return };
        while self.table[at] != 0 {
            at = (at + 1) % self.table.len();
        }
        self.table[at] = number + 1;
    }

    fn first_place(&self, name: &EndpointName) -> Option<usize> {
        (!self.table.is_empty()).then(|| hash(name) as usize & (self.table.len() - 1))
    }
}

/// FNV-1a: names are short, and whoever could choose them to collide may fill the table anyway.
fn hash(name: &EndpointName) -> u64 {
    let bytes = name.node.bytes().chain(*b"/").chain(name.device.bytes()).chain([name.port]);
    let mixed = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    mixed ^ mixed >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_no_other() {
        let mut names = Names::default();
        let name =
            |node: u32, port: u32| format!("node-{node}/mlx5_{port}/1").parse::<EndpointName>().unwrap();
        assert_eq!(names.find(&name(0, 0)), None);
        for node in 0..512 {
            for port in 0..8 {
                assert_eq!(names.find(&name(node, port)), None);
                assert_eq!(names.add(name(node, port)), EndpointIndex(node * 8 + port));
            }
        }
        for index in 0..4_096 {
            assert_eq!(names.find(&name(index / 8, index % 8)), Some(EndpointIndex(index)));
        }
        assert_eq!(names.find(&name(512, 0)), None);
        assert_eq!(names.find(&EndpointName { port: 2, ..name(3, 0) }), None);
    }
}

//! The parts of a model's JSON that its values do not hold.

use std::collections::BTreeMap;

use dealkit::Json;

/// The parts of the JSON that the Python values do not hold.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Extra {
    /// Undocumented fields, and those that could not be read, by name.
    pub(crate) unknown: BTreeMap<String, Json>,
    /// The exact JSON of timestamps finer than microseconds, by the position of the field.
    pub(crate) exact: Vec<(usize, Json)>,
}

impl Extra {
    /// The exact JSON of a field.
    pub(crate) fn exact(&self, position: usize) -> Option<&Json> {
        let of_field = self.exact.iter().find(|(at, _)| *at == position);
        of_field.map(|(_, json)| json)
    }

    /// Forgets the exact JSON of a field whose value has changed.
    pub(crate) fn forget_exact(&mut self, position: usize) {
        self.exact.retain(|(at, _)| *at != position);
    }
}

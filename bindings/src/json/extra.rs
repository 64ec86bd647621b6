//! [`Extra`]: the JSON of a model that its Python attributes do not hold.

use std::collections::BTreeMap;

use dealkit::Json;

/// The parts of a model's JSON that no attribute holds.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Extra {
    /// Undocumented fields, and fields that could not be read, by name.
    pub(crate) unknown_fields: BTreeMap<String, Json>,
    /// The exact JSON of timestamps with nanoseconds, which a datetime cannot hold, by the field's position.
    pub(crate) exact_timestamps: Vec<(usize, Json)>,
}

impl Extra {
    /// Returns the exact JSON of the field at a position, if it differs from the attribute's value.
    pub(crate) fn exact_json(&self, position: usize) -> Option<&Json> {
        let mut fields = self.exact_timestamps.iter();
        let field = fields.find(|(field_position, _)| *field_position == position);
        field.map(|(_, json)| json)
    }

    /// Removes the exact JSON of the field at a position, whose value has changed.
    pub(crate) fn remove_exact(&mut self, position: usize) {
        self.exact_timestamps
            .retain(|(field_position, _)| *field_position != position);
    }
}

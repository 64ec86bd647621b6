//! The field table as data: what each field of each response type holds, and whether it must be there.
//!
//! For what needs no Rust types: saying what is wrong with a document, the classes of the Python package, and the
//! sandbox's readings. Each model has its own as `SCHEMA`. Hidden, because it is not for use by others.

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub enum FieldKind {
    /// A string.
    Text,
    /// An identifier, which is an opaque string.
    Identifier,
    /// A string of an open set, which has this name.
    OpenSet(&'static str),
    /// True or false.
    Boolean,
    /// A 64-bit integer.
    Integer,
    /// An exact decimal number.
    Decimal,
    /// A day.
    Date,
    /// A moment.
    Timestamp,
    /// A free-form JSON object.
    Object,
    /// Strings by name.
    Strings,
    /// Another model.
    One(&'static Model),
    /// Any number of another model.
    Many(&'static Model),
}

/// Whether a field must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It must be there, and must not be null.
    Required,
    /// It may be missing or null, and is then not written.
    Optional,
    /// It may be missing or null, and is then written as null.
    Nullable,
}

/// One field of a model.
#[derive(Debug)]
pub struct Field {
    /// The name in Rust and in Python.
    pub name: &'static str,
    /// The name on the wire.
    pub wire: &'static str,
    /// What it holds.
    pub kind: FieldKind,
    /// Whether it must be there.
    pub presence: Presence,
    /// Whether its value is shown: a value that is personal, or of unknown content, is not.
    pub is_shown: bool,
    /// Its description.
    pub doc: &'static str,
}

/// A response type.
#[derive(Debug)]
pub struct Model {
    /// Its name.
    pub name: &'static str,
    /// Its position in the table, from 0.
    pub index: usize,
    /// Its fields, in the order of the specification.
    pub fields: &'static [Field],
}

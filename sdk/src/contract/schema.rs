//! The field table as data: what each field of each response type holds, and whether it must be there.
//!
//! For what needs no Rust types: saying what is wrong with a document, the classes of the Python package, and the
//! sandbox's readings. Each model has its own as `SCHEMA`. Hidden, because it is not for use by others.

#[derive(Clone, Copy, Debug)]
pub enum FieldKind {
    Text,
    Identifier,
    /// A string of an extensible enum, which has this name.
    ExtensibleEnum(&'static str),
    Boolean,
    /// A 64-bit integer.
    Integer,
    Decimal,
    Date,
    Timestamp,
    Object,
    /// Strings by name.
    Strings,
    One(&'static Model),
    Many(&'static Model),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It must be there, and must not be null.
    Required,
    /// It may be missing or null, and is then not written.
    Optional,
    /// It may be missing or null, and is then written as null.
    Nullable,
}

#[derive(Debug)]
pub struct Field {
    /// The name in Rust and in Python.
    pub name: &'static str,
    /// The name on the wire.
    pub wire: &'static str,
    pub kind: FieldKind,
    pub presence: Presence,
    /// Whether its value is shown: a value that is personal, or of unknown content, is not.
    pub is_shown: bool,
    pub doc: &'static str,
}

#[derive(Debug)]
pub struct Model {
    pub name: &'static str,
    /// Its position in the table, from 0.
    pub index: usize,
    /// Its fields, in the order of the specification.
    pub fields: &'static [Field],
}

//! The field table as data: the kind and presence of each field of each response type.
//!
//! Used by code that needs no Rust types: the explanation of decoding errors, the classes of the Python package, and the
//! sandbox's variants of the specification. Each model has a constant `SCHEMA`. Hidden, because this module is not for use by
//! other crates.

/// The kind of value of a field.
#[derive(Clone, Copy, Debug)]
pub enum FieldKind {
    String,
    Identifier,
    /// A string that is a value of the extensible enum with this name.
    ExtensibleEnum(&'static str),
    Boolean,
    /// A 64-bit integer.
    Integer,
    Decimal,
    Date,
    Timestamp,
    /// A JSON object with any content.
    JsonObject,
    /// An object with any names and string values.
    StringMap,
    Model(&'static Model),
    ModelList(&'static Model),
}

/// The rule on missing and null values of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The field must be present, and must not be null.
    Required,
    /// The field may be missing or null, and is then omitted when written.
    Optional,
    /// The field may be missing or null, and is then written as null.
    Nullable,
}

/// A field of a response type.
#[derive(Debug)]
pub struct Field {
    /// The name in Rust and in Python.
    pub name: &'static str,
    /// The name in JSON.
    pub wire: &'static str,
    pub kind: FieldKind,
    pub presence: Presence,
    /// True if `Debug` and `repr` show the value. Personal data and unknown content are hidden.
    pub is_shown: bool,
    /// The documentation in Rust and in Python.
    pub doc: &'static str,
}

/// A response type.
#[derive(Debug)]
pub struct Model {
    pub name: &'static str,
    /// The position in the table, counted from 0.
    pub index: usize,
    /// The fields, in the specification's order.
    pub fields: &'static [Field],
}

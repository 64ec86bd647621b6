//! What a field of a model is: pure data, not how it is read or written.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};
use dealkit::{
    AgentId, ApplicationId, ApplicationStatus, AssignedRole, BrokerageId, CollectiveId,
    ContactFieldId, ContactFieldType, ContactId, ContactSchemaId, ContactType, DealId, DealPhase,
    DealStatus, Decimal, FieldSchemaId, Json, ListingContractId, ListingSide, OfferId, OfficeId,
    QuoteId,
};
use pyo3::{
    prelude::*,
    types::{PyDict, PyMappingProxy, PyTuple},
};

use crate::json::{extra::Extra, reader::ReadModel};

/// What a field holds.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// A string.
    Text,
    /// A string that occurs again and again, of which one copy is kept.
    Interned,
    /// A role.
    Role,
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
    One(&'static Class),
    /// Any number of another model.
    Many(&'static Class),
}

impl Kind {
    /// The value of a missing field.
    #[inline]
    pub(crate) fn nothing(self, py: Python<'_>) -> Py<PyAny> {
        match self {
            Kind::Many(_) => PyTuple::empty(py).into_any().unbind(),
            Kind::Strings => {
                let proxy = PyMappingProxy::new(py, PyDict::new(py).as_mapping());
                proxy.into_any().unbind()
            }
            _ => py.None(),
        }
    }
}

/// What a field of this Rust type holds in Python. Models implement it themselves; see `model`.
pub(crate) trait FieldType {
    const KIND: Kind;
}

impl<T: FieldType> FieldType for Option<T> {
    const KIND: Kind = T::KIND;
}

/// What a field of this name holds: among the texts, labels also occur again and again.
pub(crate) const fn kind_of(name: &str, kind: Kind) -> Kind {
    match (name.as_bytes(), kind) {
        (b"label", Kind::Text) => Kind::Interned,
        _ => kind,
    }
}

macro_rules! field_types {
    ($($kind:ident: $($of:ty),+;)+) => {
        $($( impl FieldType for $of { const KIND: Kind = Kind::$kind; } )+)+
    };
}

field_types! {
    Text: String, AgentId, ApplicationId, BrokerageId, CollectiveId, ContactFieldId, ContactId,
        DealId, ListingContractId, OfferId, OfficeId, QuoteId;
    // Every deal has a few of these, the same each time.
    Interned: ApplicationStatus, ContactFieldType, ContactSchemaId, ContactType, DealPhase,
        DealStatus, FieldSchemaId, ListingSide;
    Role: AssignedRole;
    Boolean: bool;
    Integer: i64;
    Decimal: Decimal;
    Date: NaiveDate;
    Timestamp: DateTime<Utc>;
    Object: Json;
    Strings: BTreeMap<String, String>;
}

/// Whether a field must be there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It must be there, and must not be null.
    Required,
    /// It may be missing, and is then not written.
    Optional,
    /// It may be missing, and is then written as null.
    Nullable,
}

/// One field of a model.
pub(crate) struct Field {
    /// The attribute.
    pub(crate) name: &'static str,
    /// The name on the wire.
    pub(crate) wire: &'static str,
    pub(crate) kind: Kind,
    pub(crate) presence: Presence,
    /// Whether its value is shown: a value that is personal, or of unknown content, is not.
    pub(crate) is_shown: bool,
    /// Its description, for the stubs.
    pub(crate) doc: &'static str,
}

macro_rules! most_fields {
    ($( $(#[$doc:meta])* $model:ident { $(
        $(#[$field_doc:meta])* $presence:ident $show:ident $field:ident: $type:ty = $wire:literal,
    )+ } )+) => {
        /// The largest number of fields of any model.
        const MOST: usize = most(&[$( [$($wire),+].len() ),+]);
    };
}

dealkit::__response_models!(most_fields);

const fn most(counts: &[usize]) -> usize {
    match counts {
        [] => 0,
        [first, rest @ ..] => {
            let rest = most(rest);
            if *first > rest { *first } else { rest }
        }
    }
}

/// The values of a model's fields, in the order of its fields.
pub(crate) type Values = [Option<Py<PyAny>>; MOST];

/// The parts of a model: its values, in the order of its fields, and what they do not hold.
pub(crate) type Parts<'a> = (Vec<&'a Py<PyAny>>, Option<&'a Extra>);

/// A model: its fields, and how it is read and taken apart.
pub(crate) struct Class {
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [Field],
    pub(crate) read: ReadModel,
    pub(crate) parts: for<'a> fn(&'a Bound<'_, PyAny>) -> PyResult<Parts<'a>>,
    pub(crate) is: fn(&Bound<'_, PyAny>) -> bool,
}

/// The name of an attribute: `r#type` is `type` in Python.
pub(crate) const fn attribute(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

/// The fields, for the stubs, for notebooks and for tests: a tuple of (attribute, wire name, kind,
/// presence, show, doc) each.
pub(crate) fn describe<'py>(py: Python<'py>, fields: &[Field]) -> PyResult<Bound<'py, PyTuple>> {
    let fields = fields.iter().map(|field| {
        let kind = match field.kind {
            Kind::Text | Kind::Interned => "text".to_owned(),
            Kind::Role => "role".to_owned(),
            Kind::Boolean => "boolean".to_owned(),
            Kind::Integer => "integer".to_owned(),
            Kind::Decimal => "decimal".to_owned(),
            Kind::Date => "date".to_owned(),
            Kind::Timestamp => "timestamp".to_owned(),
            Kind::Object => "object".to_owned(),
            Kind::Strings => "strings".to_owned(),
            Kind::One(class) => class.name.to_owned(),
            Kind::Many(class) => format!("[{}]", class.name),
        };
        let presence = match field.presence {
            Presence::Required => "required",
            Presence::Optional => "optional",
            Presence::Nullable => "nullable",
        };
        let show = if field.is_shown { "shown" } else { "hidden" };
        (
            field.name,
            field.wire,
            kind,
            presence,
            show,
            field.doc.trim(),
        )
    });
    PyTuple::new(py, fields.collect::<Vec<_>>())
}

//! What a reading must know about a response, as data: which fields there are, which are optional, and what they hold.
//! It is the SDK's table; nothing of it is stated here.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};
use dealkit::{
    AgentId, ApplicationId, ApplicationStatus, AssignedRole, BrokerageId, CollectiveId,
    ContactFieldId, ContactFieldType, ContactId, ContactSchemaId, ContactType, DealId, DealPhase,
    DealStatus, Decimal, FieldSchemaId, Json, ListingContractId, ListingSide, OfferId, OfficeId,
    QuoteId,
};

/// The fields of a response type.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) fields: &'static [Field],
}

#[derive(Debug)]
pub(crate) struct Field {
    /// The name on the wire.
    pub(crate) name: &'static str,
    /// Whether it must be present and not null.
    pub(crate) is_required: bool,
    pub(crate) kind: Kind,
}

/// What a field holds, as far as a reading changes it.
#[derive(Debug)]
pub(crate) enum Kind {
    /// A value that no reading changes.
    Other,
    /// A string of an open set.
    OpenSet,
    Integer,
    Decimal,
    Timestamp,
    One(&'static Shape),
    Many(&'static Shape),
}

trait Holds {
    const KIND: Kind;
}

trait Shaped {
    const SHAPE: &'static Shape;
}

impl<T: Holds> Holds for Option<T> {
    const KIND: Kind = T::KIND;
}

macro_rules! holds {
    ($($kind:ident: $($of:ty),+;)+) => {
        $($( impl Holds for $of { const KIND: Kind = Kind::$kind; } )+)+
    };
}

holds! {
    Other: String, bool, NaiveDate, Json, BTreeMap<String, String>, AgentId, ApplicationId, BrokerageId,
        CollectiveId, ContactFieldId, ContactId, ContactSchemaId, DealId, FieldSchemaId, ListingContractId,
        OfferId, OfficeId, QuoteId;
    OpenSet: ApplicationStatus, AssignedRole, ContactFieldType, ContactType, DealPhase, DealStatus, ListingSide;
    Integer: i64;
    Decimal: Decimal;
    Timestamp: DateTime<Utc>;
}

macro_rules! shapes {
    ($( $(#[$doc:meta])* $model:ident {
        $( $(#[$field_doc:meta])* $presence:ident $show:ident $field:ident: $type:ty = $wire:literal, )+
    } )+) => {$(
        struct $model;

        impl Shaped for $model {
            const SHAPE: &'static Shape = &Shape {
                fields: &[$( Field {
                    name: $wire,
                    is_required: matches!(stringify!($presence).as_bytes(), b"required"),
                    kind: <$type as Holds>::KIND,
                } ),+],
            };
        }

        impl Holds for $model {
            const KIND: Kind = Kind::One($model::SHAPE);
        }

        impl Holds for Vec<$model> {
            const KIND: Kind = Kind::Many($model::SHAPE);
        }
    )+};
}

dealkit::__response_models!(shapes);

/// The shape of an agent.
pub(crate) const AGENT: &Shape = Agent::SHAPE;
/// The shape of a deal.
pub(crate) const DEAL: &Shape = Deal::SHAPE;

//! Small value types: each parses, formats and compares one kind of value, and knows nothing of HTTP.

mod any_format;
mod arithmetic;
mod characters;
mod datetime;
mod decimal;
#[cfg(feature = "client")]
pub(crate) mod duration;
mod ids;
mod json;
mod kind;
#[cfg(feature = "client")]
pub(crate) mod message;
mod named;
mod nullable;
#[cfg(any(feature = "arrow", feature = "client"))]
mod opaque;
mod open;
mod role;
#[doc(hidden)]
pub mod scalar;
pub(crate) mod serde_errors;
mod serde_json_probe;
mod text;
#[doc(hidden)]
pub mod text_encoding;

pub use decimal::{Decimal, ParseDecimalError};
pub use ids::*;
pub use json::Json;
pub use nullable::Nullable;
pub use open::{
    ApplicationStatus, ContactFieldType, ContactType, DealPhase, DealStatus, ListingSide,
};
pub use role::{AssignedRole, Role, UnknownRole};

pub(crate) use any_format::Given;
pub(crate) use characters::Characters;
pub(crate) use datetime::{date_of, format_date, parse_date, two_digits};
pub(crate) use kind::JsonKind;
#[cfg(feature = "client")]
pub(crate) use named::named;
#[cfg(any(feature = "arrow", feature = "client"))]
pub(crate) use opaque::opaque;
pub(crate) use open::{Undocumented, open_set};
pub(crate) use serde_errors::expected;
pub(crate) use text::{WireText, Word, like_a_string};

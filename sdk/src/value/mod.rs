//! Small value types, with their parsing, formatting and comparison. They do not depend on HTTP.

mod any_format;
mod arithmetic;
mod datetime;
mod decimal;
mod extensible_enum;
#[cfg(feature = "client")]
pub(crate) mod format_duration;
mod ids;
mod json;
#[doc(hidden)]
pub mod json_kind;
#[cfg(feature = "client")]
pub(crate) mod message;
mod named_enum;
mod nullable;
#[cfg(any(feature = "arrow", feature = "client"))]
mod opaque_debug;
mod role;
#[doc(hidden)]
pub mod scalar;
pub(crate) mod serde_errors;
mod serde_json_probe;
mod string_value;
#[doc(hidden)]
pub mod text_encoding;
mod wtf8;

pub use decimal::{Decimal, ParseDecimalError};
pub use extensible_enum::{
    ApplicationStatus, ContactFieldType, ContactType, DealPhase, DealStatus, ListingSide,
};
pub use ids::*;
pub use json::Json;
pub use nullable::Nullable;
pub use role::{AssignedRole, Role, UnknownRole};

pub(crate) use any_format::DeserializedValue;
pub(crate) use datetime::{format_date, parse_date, parse_date_bytes, parse_two_digits};
pub(crate) use extensible_enum::{UndocumentedValue, extensible_enum};
pub(crate) use json_kind::JsonKind;
#[cfg(feature = "client")]
pub(crate) use named_enum::named_enum;
#[cfg(any(feature = "arrow", feature = "client"))]
pub(crate) use opaque_debug::opaque_debug;
pub(crate) use serde_errors::expected;
pub(crate) use string_value::{Convertible, StringValue, impl_string_traits};
pub(crate) use wtf8::Wtf8;

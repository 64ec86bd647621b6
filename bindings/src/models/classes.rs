//! The classes of the response types, made from the core's table of their fields: class, reading, equality,
//! repr, pickling, dict and JSON follow from it, as the Rust types do.

use std::collections::BTreeMap;

use crate::models::model::models;
use chrono::{DateTime, NaiveDate, Utc};
use dealkit::{
    AgentId, ApplicationId, ApplicationStatus, AssignedRole, BrokerageId, CollectiveId,
    ContactFieldId, ContactFieldType, ContactId, ContactSchemaId, ContactType, DealId, DealPhase,
    DealStatus, Decimal, FieldSchemaId, Json, ListingContractId, ListingSide, OfferId, OfficeId,
    QuoteId,
};

dealkit::__response_models!(models);

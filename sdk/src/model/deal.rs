//! What "Retrieve a deal" answers with.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};

use crate::value::{
    AgentId, ApplicationId, ApplicationStatus, ContactFieldId, ContactFieldType, ContactId,
    ContactSchemaId, ContactType, DealId, DealPhase, DealStatus, Decimal, FieldSchemaId,
    ListingContractId, ListingSide, OfferId, QuoteId,
};

model! {
    /// A deal (specification, "Deal (response of retrieve)").
    ///
    /// Only `id` must be there. The specification does not say which fields are required, nor in what
    /// unit or scale money, percentages and splits are: the numbers are handed over as they came.
    ///
    /// ```
    /// use dealkit::{Deal, DealStatus};
    ///
    /// let deal = Deal::from_json(r#"{"id": "d_1", "status": "CLOSED", "sides": [{"side_percentage": 10.10}]}"#)?;
    /// assert_eq!(deal.status, Some(DealStatus::CLOSED));
    /// assert_eq!(deal.sides[0].side_percentage.unwrap().to_string(), "10.10");
    /// assert!(deal.quotes.is_empty());
    /// # Ok::<(), dealkit::DecodeError>(())
    /// ```
    pub struct Deal {
        /// The deal's identifier.
        required shown id: DealId = "id",
        /// Status, an open set.
        optional shown status: Option<DealStatus> = "status",
        /// Phase, an open set.
        optional shown phase: Option<DealPhase> = "phase",
        /// The day on which the deal expires.
        optional shown expiry_date: Option<NaiveDate> = "expiry_date",
        /// When the deal was created.
        optional shown created_at: Option<DateTime<Utc>> = "created_at",
        /// The listing contract.
        optional shown listing_contract: Option<ListingContract> = "listing_contract",
        /// The application, with its offers.
        optional shown application: Option<Application> = "application",
        /// The quotes.
        optional shown quotes: Vec<Quote> = "quotes",
        /// The contacts.
        optional shown contacts: Vec<Contact> = "contacts",
        /// The commission sides.
        optional shown sides: Vec<Side> = "sides",
        /// Free-form metadata: strings by name.
        optional hidden metadata: BTreeMap<String, String> = "metadata",
        /// The caller's own identifier of the deal.
        optional hidden external_id: Option<String> = "external_id",
    }
}

impl Deal {
    /// A deal with its identifier; the other fields are public and start empty.
    ///
    /// ```
    /// use dealkit::{Deal, DealStatus};
    ///
    /// let mut deal = Deal::new("d_1");
    /// deal.status = Some(DealStatus::CLOSED);
    /// ```
    pub fn new(id: impl Into<DealId>) -> Self {
        Self {
            id: id.into(),
            status: None,
            phase: None,
            expiry_date: None,
            created_at: None,
            listing_contract: None,
            application: None,
            quotes: Vec::new(),
            contacts: Vec::new(),
            sides: Vec::new(),
            metadata: BTreeMap::new(),
            external_id: None,
            extra: BTreeMap::new(),
        }
    }
}

model! {
    /// The listing contract of a deal (specification, "listing_contract").
    #[derive(Default)]
    pub struct ListingContract {
        /// The contract's identifier.
        optional shown id: Option<ListingContractId> = "id",
        /// The side that the agent stands on, an open set.
        optional shown side: Option<ListingSide> = "side",
        /// The split of the side.
        optional shown side_split: Option<i64> = "side_split",
        /// The sale price.
        optional shown sale_price: Option<i64> = "sale_price",
        /// The agent's commission, net.
        optional shown net_agent_commission: Option<i64> = "net_agent_commission",
        /// The agent's commission, gross.
        optional shown gross_agent_commission: Option<i64> = "gross_agent_commission",
        /// The commission rate.
        optional shown commission_rate: Option<i64> = "commission_rate",
        /// The day on which the sale is expected to close.
        optional shown expected_close_date: Option<NaiveDate> = "expected_close_date",
        /// When the contract was created.
        optional shown created_at: Option<DateTime<Utc>> = "created_at",
        /// The address of what is sold.
        optional shown address: Option<Address> = "address",
        /// The listing's agent.
        optional shown agent: Option<ListingAgent> = "agent",
    }
}

model! {
    /// A postal address.
    #[derive(Default)]
    pub struct Address {
        /// First line.
        optional hidden line1: Option<String> = "line1",
        /// Second line.
        optional hidden line2: Option<String> = "line2",
        /// City.
        optional hidden city: Option<String> = "city",
        /// State.
        optional hidden state: Option<String> = "state",
        /// Postal code.
        optional hidden zip: Option<String> = "zip",
    }
}

model! {
    /// The agent of a listing contract.
    #[derive(Default)]
    pub struct ListingAgent {
        /// The agent's identifier.
        optional shown id: Option<AgentId> = "id",
        /// E-mail address.
        optional hidden email: Option<String> = "email",
        /// First name.
        optional hidden first_name: Option<String> = "first_name",
        /// Last name.
        optional hidden last_name: Option<String> = "last_name",
    }
}

model! {
    /// The application of a deal (specification, "application").
    #[derive(Default)]
    pub struct Application {
        /// The application's identifier.
        optional shown id: Option<ApplicationId> = "id",
        /// Status, an open set.
        optional shown status: Option<ApplicationStatus> = "status",
        /// When the application was decided. The specification states no format, so it stays a string.
        optional shown decisioned_on: Option<String> = "decisioned_on",
        /// When the application was created. The specification states no format, so it stays a string.
        optional shown created_at: Option<String> = "created_at",
        /// The deal that the application belongs to.
        optional shown deal_id: Option<DealId> = "deal_id",
        /// The amount asked for.
        optional shown requested_amount: Option<Decimal> = "requested_amount",
        /// The offers made.
        optional shown offers: Vec<Offer> = "offers",
    }
}

model! {
    /// An offer of an application (specification, "Offer").
    #[derive(Default)]
    pub struct Offer {
        /// The offer's identifier.
        optional shown id: Option<OfferId> = "id",
        /// When the offer expires.
        optional shown expiry_date_time: Option<DateTime<Utc>> = "expiry_date_time",
        /// Origination fee in percent.
        optional shown origination_fee_percent: Option<Decimal> = "origination_fee_percent",
        /// Percent of the commission.
        optional shown percent_of_commission: Option<Decimal> = "percent_of_commission",
        /// When the offer was created.
        optional shown created_at: Option<DateTime<Utc>> = "created_at",
    }
}

model! {
    /// A quote (specification, "quote").
    #[derive(Default)]
    pub struct Quote {
        /// The quote's identifier.
        optional shown id: Option<QuoteId> = "id",
        /// When the quote was created.
        optional shown created_at: Option<DateTime<Utc>> = "created_at",
        /// Lower end of the estimated percentage.
        optional shown estimated_percent_min: Option<i64> = "estimated_percent_min",
        /// Upper end of the estimated percentage.
        optional shown estimated_percent_max: Option<i64> = "estimated_percent_max",
        /// Lower end of the estimated amount.
        optional shown estimated_amount_min: Option<i64> = "estimated_amount_min",
        /// Upper end of the estimated amount.
        optional shown estimated_amount_max: Option<i64> = "estimated_amount_max",
    }
}

model! {
    /// A contact of a deal (specification, "contact").
    #[derive(Default)]
    pub struct Contact {
        /// The contact's identifier.
        optional shown id: Option<ContactId> = "id",
        /// The schema that the contact follows.
        optional shown contact_schema_id: Option<ContactSchemaId> = "contactSchemaId",
        /// Type, an open set.
        optional shown r#type: Option<ContactType> = "type",
        /// What is known of the contact, field by field.
        optional shown fields: Vec<ContactField> = "fields",
    }
}

model! {
    /// One field of a contact (specification, "Contact field").
    #[derive(Default)]
    pub struct ContactField {
        /// The field's identifier.
        optional shown id: Option<ContactFieldId> = "id",
        /// The schema that the field follows.
        optional shown field_schema_id: Option<FieldSchemaId> = "fieldSchemaId",
        /// What the field is called where people see it.
        optional hidden label: Option<String> = "label",
        /// Type, an open set.
        optional shown r#type: Option<ContactFieldType> = "type",
        /// The field's value.
        optional hidden value: Option<String> = "value",
    }
}

model! {
    /// A commission side of a deal (specification, "side").
    #[derive(Default)]
    pub struct Side {
        /// The contact that the side belongs to.
        optional shown contact_id: Option<ContactId> = "contact_id",
        /// Gross commission.
        optional shown gross_commission: Option<Decimal> = "gross_commission",
        /// The agent's units.
        optional shown agent_units: Option<Decimal> = "agent_units",
        /// Percentage of the side.
        optional shown side_percentage: Option<Decimal> = "side_percentage",
    }
}

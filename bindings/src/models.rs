//! The fields of every response type, stated once: class, reading, equality, repr, pickling, dict and
//! JSON follow from it. A test holds it against openapi.json and the Rust models.
//!
//! Each field is `presence show name: kind = "wireName"`:
//!
//! * presence: `required` (must be there and not null), `optional` (missing or null reads as nothing, and
//!   nothing is not written), `nullable` (the same, but written as null);
//! * show: `brief` in the repr, `shown` in a notebook too, or `hidden` from both, as what is personal is;
//! * kind: see [`Kind`](crate::schema::Kind). An `interned` text comes again and again.

models! {
    /// A deal. Only `id` is always there: what the service left out or sent as null is None, an empty
    /// tuple or an empty mapping.
    Deal {
        /// The deal's identifier.
        required brief id: text = "id",
        /// Status, an open set; CLOSED is the one documented value.
        optional brief status: interned = "status",
        /// Phase, an open set; APPLICATION is the one documented value.
        optional brief phase: interned = "phase",
        /// The day on which the deal expires.
        optional shown expiry_date: date = "expiry_date",
        /// When the deal was created.
        optional shown created_at: timestamp = "created_at",
        /// The listing contract.
        optional shown listing_contract: one<ListingContract> = "listing_contract",
        /// The application, with its offers.
        optional shown application: one<Application> = "application",
        /// The quotes.
        optional shown quotes: many<Quote> = "quotes",
        /// The contacts.
        optional shown contacts: many<Contact> = "contacts",
        /// The commission sides.
        optional shown sides: many<Side> = "sides",
        /// Free-form metadata: strings by name.
        optional hidden metadata: strings = "metadata",
        /// The caller's own identifier of the deal.
        optional hidden external_id: text = "external_id",
    }

    /// The listing contract of a deal.
    ListingContract {
        /// The contract's identifier.
        optional brief id: text = "id",
        /// The side that the agent stands on, an open set.
        optional brief side: interned = "side",
        /// The split of the side.
        optional shown side_split: integer = "side_split",
        /// The sale price.
        optional shown sale_price: integer = "sale_price",
        /// The agent's commission, net.
        optional shown net_agent_commission: integer = "net_agent_commission",
        /// The agent's commission, gross.
        optional shown gross_agent_commission: integer = "gross_agent_commission",
        /// The commission rate.
        optional shown commission_rate: integer = "commission_rate",
        /// The day on which the sale is expected to close.
        optional shown expected_close_date: date = "expected_close_date",
        /// When the contract was created.
        optional shown created_at: timestamp = "created_at",
        /// The address of what is sold.
        optional shown address: one<Address> = "address",
        /// The listing's agent.
        optional shown agent: one<ListingAgent> = "agent",
    }

    /// A postal address.
    Address {
        /// First line.
        optional hidden line1: text = "line1",
        /// Second line.
        optional hidden line2: text = "line2",
        /// City.
        optional hidden city: text = "city",
        /// State.
        optional hidden state: text = "state",
        /// Postal code.
        optional hidden zip: text = "zip",
    }

    /// The agent of a listing contract.
    ListingAgent {
        /// The agent's identifier.
        optional brief id: text = "id",
        /// E-mail address.
        optional hidden email: text = "email",
        /// First name.
        optional hidden first_name: text = "first_name",
        /// Last name.
        optional hidden last_name: text = "last_name",
    }

    /// The application of a deal.
    Application {
        /// The application's identifier.
        optional brief id: text = "id",
        /// Status, an open set; PENDING is the one documented value.
        optional brief status: interned = "status",
        /// When the application was decided. The specification states no format, so it stays a string.
        optional shown decisioned_on: text = "decisioned_on",
        /// When the application was created. The specification states no format, so it stays a string.
        optional shown created_at: text = "created_at",
        /// The deal that the application belongs to.
        optional brief deal_id: text = "deal_id",
        /// The amount asked for.
        optional shown requested_amount: decimal = "requested_amount",
        /// The offers made.
        optional shown offers: many<Offer> = "offers",
    }

    /// An offer of an application.
    Offer {
        /// The offer's identifier.
        optional brief id: text = "id",
        /// When the offer expires.
        optional shown expiry_date_time: timestamp = "expiry_date_time",
        /// Origination fee in percent.
        optional shown origination_fee_percent: decimal = "origination_fee_percent",
        /// Percent of the commission.
        optional shown percent_of_commission: decimal = "percent_of_commission",
        /// When the offer was created.
        optional shown created_at: timestamp = "created_at",
    }

    /// A quote.
    Quote {
        /// The quote's identifier.
        optional brief id: text = "id",
        /// When the quote was created.
        optional shown created_at: timestamp = "created_at",
        /// Lower end of the estimated percentage.
        optional shown estimated_percent_min: integer = "estimated_percent_min",
        /// Upper end of the estimated percentage.
        optional shown estimated_percent_max: integer = "estimated_percent_max",
        /// Lower end of the estimated amount.
        optional shown estimated_amount_min: integer = "estimated_amount_min",
        /// Upper end of the estimated amount.
        optional shown estimated_amount_max: integer = "estimated_amount_max",
    }

    /// A contact of a deal.
    Contact {
        /// The contact's identifier.
        optional brief id: text = "id",
        /// The schema that the contact follows.
        optional shown contact_schema_id: interned = "contactSchemaId",
        /// Type, an open set.
        optional brief r#type: interned = "type",
        /// What is known of the contact, field by field.
        optional shown fields: many<ContactField> = "fields",
    }

    /// One field of a contact.
    ContactField {
        /// The field's identifier.
        optional brief id: text = "id",
        /// The schema that the field follows.
        optional shown field_schema_id: interned = "fieldSchemaId",
        /// What the field is called where people see it.
        optional hidden label: interned = "label",
        /// Type, an open set.
        optional brief r#type: interned = "type",
        /// The field's value.
        optional hidden value: text = "value",
    }

    /// A commission side of a deal.
    Side {
        /// The contact that the side belongs to.
        optional brief contact_id: text = "contact_id",
        /// Gross commission.
        optional shown gross_commission: decimal = "gross_commission",
        /// The agent's units.
        optional shown agent_units: decimal = "agent_units",
        /// Percentage of the side.
        optional shown side_percentage: decimal = "side_percentage",
    }

    /// An agent, as the service answers with after creating one.
    Agent {
        /// The agent's identifier.
        required brief id: text = "id",
        /// E-mail address.
        required hidden email: text = "email",
        /// Date of birth, if the service knows it.
        nullable hidden date_of_birth: date = "date_of_birth",
        /// First name.
        required hidden first_name: text = "first_name",
        /// Last name.
        required hidden last_name: text = "last_name",
        /// The agent's profile.
        required shown profile: one<AgentProfileResponse> = "profile",
        /// The brokerage the agent is currently associated with; an agent is active with at most one.
        nullable brief current_brokerage_id: text = "current_brokerage_id",
        /// The roles that the agent has, each with its scope.
        required shown role_assignments: many<RoleAssignment> = "role_assignments",
    }

    /// The profile of an agent in a response.
    AgentProfileResponse {
        /// Whether the agent's onboarding is complete.
        optional shown onboarding_complete: boolean = "onboarding_complete",
        /// What the caller attached to the agent: any JSON object.
        optional hidden client_metadata: object = "client_metadata",
        /// The caller's own identifier of the agent.
        optional hidden external_id: text = "external_id",
    }

    /// A role of an agent and where it holds.
    RoleAssignment {
        /// The brokerage that the role is for.
        nullable brief brokerage_id: text = "brokerage_id",
        /// The office that the role is for.
        nullable brief office_id: text = "office_id",
        /// The collective that the role is for.
        nullable brief collective_id: text = "collective_id",
        /// The role: a Role, or the string as it came when it is none of those.
        required brief role: role = "role",
    }
}

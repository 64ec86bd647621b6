//! The table of response types: every field with its name, type and documentation.

/// Passes the table of response types to a macro: `dealkit::__response_models!(callback)` expands to `callback! { … }`. The Rust
/// types and the classes of the Python package are generated from it. Not for use by others.
///
/// A type is written as `/// doc Name { fields }`, a field as `/// doc presence show attribute: Type = "jsonName",`:
///
/// * presence: `required` (must be present and not null), `optional` (may be missing or null, and is then omitted when written),
///   `nullable` (may be missing or null, and is then written as null);
/// * show: `shown` or `hidden` in Rust's `Debug` and in Python's `repr` and HTML. Personal data and unknown content are hidden;
/// * type: the Rust type. Its names are resolved where the callback is defined: `DealId`, `Decimal` and the like are dealkit's,
///   `NaiveDate`, `DateTime` and `Utc` are chrono's, `BTreeMap` is std's, and the callback defines the table's own types.
///   `Word<T>` is the type `T`; it marks fields whose setters accept any value that converts into `T`, such as a string.
///
/// Types and fields are in the specification's order. The docs appear in both Rust and Python.
#[doc(hidden)]
#[macro_export]
macro_rules! __response_models {
    ($callback:ident) => {
        $callback! {
            /// A deal. Only `id` is always present: any other field that the service omits or sends as null is None, an
            /// empty list or an empty map. The specification does not define the unit or scale of money, percentages and
            /// splits, so the numbers are the service's, unchanged.
            Deal {
                /// The deal's identifier.
                required shown id: Word<DealId> = "id",
                /// Status, an extensible enum; CLOSED is the one documented value.
                optional shown status: Option<Word<DealStatus>> = "status",
                /// Phase, an extensible enum; APPLICATION is the one documented value.
                optional shown phase: Option<Word<DealPhase>> = "phase",
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
                /// Free-form metadata: a map of strings.
                optional hidden metadata: BTreeMap<String, String> = "metadata",
                /// The caller's own identifier of the deal.
                optional hidden external_id: Option<Word<String>> = "external_id",
            }

            /// The listing contract of a deal.
            ListingContract {
                /// The contract's identifier.
                optional shown id: Option<Word<ListingContractId>> = "id",
                /// The side that the agent is on, an extensible enum.
                optional shown side: Option<Word<ListingSide>> = "side",
                /// The split of the side.
                optional shown side_split: Option<i64> = "side_split",
                /// The sale price.
                optional shown sale_price: Option<i64> = "sale_price",
                /// The agent's net commission.
                optional shown net_agent_commission: Option<i64> = "net_agent_commission",
                /// The agent's gross commission.
                optional shown gross_agent_commission: Option<i64> = "gross_agent_commission",
                /// The commission rate.
                optional shown commission_rate: Option<i64> = "commission_rate",
                /// The day on which the sale is expected to close.
                optional shown expected_close_date: Option<NaiveDate> = "expected_close_date",
                /// When the contract was created.
                optional shown created_at: Option<DateTime<Utc>> = "created_at",
                /// The address of the property.
                optional shown address: Option<Address> = "address",
                /// The listing's agent.
                optional shown agent: Option<ListingAgent> = "agent",
            }

            /// A postal address.
            Address {
                /// First line.
                optional hidden line1: Option<Word<String>> = "line1",
                /// Second line.
                optional hidden line2: Option<Word<String>> = "line2",
                /// City.
                optional hidden city: Option<Word<String>> = "city",
                /// State.
                optional hidden state: Option<Word<String>> = "state",
                /// Postal code.
                optional hidden zip: Option<Word<String>> = "zip",
            }

            /// The agent of a listing contract.
            ListingAgent {
                /// The agent's identifier.
                optional shown id: Option<Word<AgentId>> = "id",
                /// E-mail address.
                optional hidden email: Option<Word<String>> = "email",
                /// First name.
                optional hidden first_name: Option<Word<String>> = "first_name",
                /// Last name.
                optional hidden last_name: Option<Word<String>> = "last_name",
            }

            /// The application of a deal.
            Application {
                /// The application's identifier.
                optional shown id: Option<Word<ApplicationId>> = "id",
                /// Status, an extensible enum; PENDING is the one documented value.
                optional shown status: Option<Word<ApplicationStatus>> = "status",
                /// When the application was decided: a string, because the specification states no format.
                optional shown decisioned_on: Option<Word<String>> = "decisioned_on",
                /// When the application was created: a string, because the specification states no format.
                optional shown created_at: Option<Word<String>> = "created_at",
                /// The deal that the application belongs to.
                optional shown deal_id: Option<Word<DealId>> = "deal_id",
                /// The amount requested.
                optional shown requested_amount: Option<Decimal> = "requested_amount",
                /// The offers made.
                optional shown offers: Vec<Offer> = "offers",
            }

            /// An offer of an application.
            Offer {
                /// The offer's identifier.
                optional shown id: Option<Word<OfferId>> = "id",
                /// When the offer expires.
                optional shown expiry_date_time: Option<DateTime<Utc>> = "expiry_date_time",
                /// Origination fee in percent.
                optional shown origination_fee_percent: Option<Decimal> = "origination_fee_percent",
                /// Percent of the commission.
                optional shown percent_of_commission: Option<Decimal> = "percent_of_commission",
                /// When the offer was created.
                optional shown created_at: Option<DateTime<Utc>> = "created_at",
            }

            /// A quote.
            Quote {
                /// The quote's identifier.
                optional shown id: Option<Word<QuoteId>> = "id",
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

            /// A contact of a deal.
            Contact {
                /// The contact's identifier.
                optional shown id: Option<Word<ContactId>> = "id",
                /// The schema that the contact follows.
                optional shown contact_schema_id: Option<Word<ContactSchemaId>> = "contactSchemaId",
                /// Type, an extensible enum.
                optional shown r#type: Option<Word<ContactType>> = "type",
                /// The contact's data, field by field.
                optional shown fields: Vec<ContactField> = "fields",
            }

            /// One field of a contact.
            ContactField {
                /// The field's identifier.
                optional shown id: Option<Word<ContactFieldId>> = "id",
                /// The schema that the field follows.
                optional shown field_schema_id: Option<Word<FieldSchemaId>> = "fieldSchemaId",
                /// The field's name as shown to people.
                optional hidden label: Option<Word<String>> = "label",
                /// Type, an extensible enum.
                optional shown r#type: Option<Word<ContactFieldType>> = "type",
                /// The field's value.
                optional hidden value: Option<Word<String>> = "value",
            }

            /// A commission side of a deal.
            Side {
                /// The contact that the side belongs to.
                optional shown contact_id: Option<Word<ContactId>> = "contact_id",
                /// Gross commission.
                optional shown gross_commission: Option<Decimal> = "gross_commission",
                /// The agent's units.
                optional shown agent_units: Option<Decimal> = "agent_units",
                /// Percentage of the side.
                optional shown side_percentage: Option<Decimal> = "side_percentage",
            }

            /// An agent, as the service returns it after creating it. The length limits of the names are not checked in a
            /// response.
            Agent {
                /// The agent's identifier.
                required shown id: Word<AgentId> = "id",
                /// E-mail address.
                required hidden email: Word<String> = "email",
                /// Date of birth, if the service knows it.
                nullable hidden date_of_birth: Option<NaiveDate> = "date_of_birth",
                /// First name.
                required hidden first_name: Word<String> = "first_name",
                /// Last name.
                required hidden last_name: Word<String> = "last_name",
                /// The agent's profile.
                required shown profile: AgentProfileResponse = "profile",
                /// The brokerage the agent is currently associated with; an agent is active with at most one.
                nullable shown current_brokerage_id: Option<Word<BrokerageId>> = "current_brokerage_id",
                /// The roles that the agent has, each with its scope.
                required shown role_assignments: Vec<RoleAssignment> = "role_assignments",
            }

            /// The profile of an agent in a response. The profile in a request has fields with other names.
            AgentProfileResponse {
                /// Whether the agent's onboarding is complete.
                optional shown onboarding_complete: Option<bool> = "onboarding_complete",
                /// Metadata that the caller attached to the agent: a JSON object in which every number is exact.
                optional hidden client_metadata: Option<Word<Json>> = "client_metadata",
                /// The caller's own identifier of the agent.
                optional hidden external_id: Option<Word<String>> = "external_id",
            }

            /// A role of an agent, and its scope.
            RoleAssignment {
                /// The brokerage that the role is for.
                nullable shown brokerage_id: Option<Word<BrokerageId>> = "brokerage_id",
                /// The office that the role is for.
                nullable shown office_id: Option<Word<OfficeId>> = "office_id",
                /// The collective that the role is for.
                nullable shown collective_id: Option<Word<CollectiveId>> = "collective_id",
                /// The role: one of the roles that a request can name, or any other string, unchanged.
                required shown role: Word<AssignedRole> = "role",
            }
        }
    };
}

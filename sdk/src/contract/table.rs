//! Every field of every response type, stated once.

/// Passes the table of the response types to a macro: `dealkit::__response_models!(callback)` expands
/// to `callback! { … }`. This generates the Rust types and the classes of the Python package from a
/// single source; it is not for use by others.
///
/// Types are written as `/// doc Name { fields }`, fields as `/// doc presence show attribute: Type = "wireName",`:
///
/// * presence: `required` (must be present and not null), `optional` (missing or null reads as an absent
///   value, which is not written), `nullable` (the same, but written as null);
/// * show: `shown` or `hidden`, both in Rust's `Debug` and in Python's `repr` and HTML: personal data and
///   unknown content are hidden;
/// * type: the Rust type. Names are resolved where the callback is defined: `DealId`, `Decimal` and the like
///   are dealkit's, `NaiveDate`, `DateTime` and `Utc` are chrono's, `BTreeMap` is std's, and the names of the
///   table's own types are whatever the callback defines them to be. `Word<T>` is a `T` that the builders make
///   from whatever converts into one, such as a string.
///
/// The order is that of the specification's tables. The docs are shown in both Rust and Python.
#[doc(hidden)]
#[macro_export]
macro_rules! __response_models {
    ($callback:ident) => {
        $callback! {
            /// A deal. Only `id` is always present: anything that the service omits or sends as null is None, an
            /// empty list or an empty map. The specification does not say in what unit or scale money, percentages
            /// and splits are, so the numbers are passed on unchanged.
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
                /// Free-form metadata: strings by name.
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
                /// The address of what is sold.
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
                /// When the application was decided. The specification states no format, so it is kept as a string.
                optional shown decisioned_on: Option<Word<String>> = "decisioned_on",
                /// When the application was created. The specification states no format, so it is kept as a string.
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

            /// An agent, as the service returns it after creating one. The length limits of the names are not
            /// enforced on what a service sends.
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

            /// The profile of an agent in a response. It differs from the profile in a request, whose fields have
            /// other names.
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
                /// The role: one that a request can name, or any other string, unchanged.
                required shown role: Word<AssignedRole> = "role",
            }
        }
    };
}

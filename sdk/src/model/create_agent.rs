//! The request "Create agent": what is sent, its builder, and its reading from JSON.

use std::{collections::BTreeMap, fmt};

use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
    names::{self, create_agent as field},
    validate::{self, Fields, Null, UnknownFields, ValidationError, Violation},
    value::{BrokerageId, CollectiveId, Json, Kind, Nullable, OfficeId, Role},
};

/// The request "Create agent" (specification, "Create agent").
///
/// The builder asks the compiler for what is required, and `build` checks every rule before anything is
/// sent. `Debug` hides what is personal.
///
/// ```
/// use dealkit::{AgentProfile, CreateAgent, Role};
///
/// let request = CreateAgent::builder()
///     .email("ada@example.com")
///     .first_name("Ada")
///     .last_name("Lovelace")
///     .profile(AgentProfile::new().tier("A"))
///     .role(Role::Agent)
///     .phone("+15550100")
///     .brokerage_id("b_1")
///     .build()?;
/// # assert_eq!(request.email(), "ada@example.com");
/// # Ok::<(), dealkit::ValidationError>(())
/// ```
///
/// A missing required field does not compile:
///
/// ```compile_fail
/// # use dealkit::CreateAgent;
/// let request = CreateAgent::builder().email("ada@example.com").build();
/// ```
#[derive(Clone, PartialEq, bon::Builder)]
#[builder(finish_fn(
    name = build_unvalidated,
    doc {
        /// Builds the request without checking any rule: a real service may accept more than the rules say.
    }
), on(String, into))]
pub struct CreateAgent {
    /// E-mail address: a bare mailbox such as `ada@example.com`. Required.
    email: String,
    /// First name, 1 to 255 characters (Unicode code points). Required.
    first_name: String,
    /// Last name, 1 to 255 characters (Unicode code points). Required.
    last_name: String,
    /// The profile; an empty one is fine. Required.
    profile: AgentProfile,
    /// The role; the service takes [`Role::Agent`] when none is sent.
    role: Option<Role>,
    /// Phone number: a plus sign and digits.
    phone: Option<String>,
    /// URL of a picture. `Nullable::Null` sends null.
    #[builder(into, default)]
    image_url: Nullable<String>,
    /// Date of birth: a `chrono::NaiveDate`, or a string `YYYY-MM-DD`. `Nullable::Null` sends null.
    #[builder(into, default)]
    date_of_birth: Nullable<String>,
    /// The brokerage that the agent belongs to. `Nullable::Null` sends null.
    #[builder(into, default)]
    brokerage_id: Nullable<BrokerageId>,
    /// The office that the agent belongs to. `Nullable::Null` sends null.
    #[builder(into, default)]
    office_id: Nullable<OfficeId>,
    /// The collective that the agent belongs to. `Nullable::Null` sends null.
    #[builder(into, default)]
    collective_id: Nullable<CollectiveId>,
}

impl<S: create_agent_builder::IsComplete> CreateAgentBuilder<S> {
    /// Builds the request if it keeps every rule.
    ///
    /// # Errors
    /// [`ValidationError`] holds every violation, with the codes that the service uses.
    pub fn build(self) -> Result<CreateAgent, ValidationError> {
        let request = self.build_unvalidated();
        request.validate()?;
        Ok(request)
    }
}

impl<S: create_agent_builder::State> fmt::Debug for CreateAgentBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateAgentBuilder").finish_non_exhaustive()
    }
}

impl CreateAgent {
    /// Reads the request from its JSON body and checks every rule.
    ///
    /// # Errors
    /// [`ValidationError`] holds every violation, also those of type and of missing fields.
    ///
    /// ```
    /// use dealkit::{CreateAgent, Json, UnknownFields};
    ///
    /// let body = Json::parse(r#"{"email": "ada@example.com", "first_name": "Ada", "profile": null}"#).unwrap();
    /// let error = CreateAgent::from_json(&body, UnknownFields::Ignore).unwrap_err();
    /// assert_eq!(error.violations()[0].pointer, "/last_name");
    /// assert_eq!(error.violations()[1].pointer, "/profile");
    /// ```
    pub fn from_json(body: &Json, unknown: UnknownFields) -> Result<Self, ValidationError> {
        let mut fields = Fields::of_body(body)?;
        let mut violations = Vec::new();
        let out = &mut violations;
        let request = CreateAgent {
            email: fields.required_text(field::EMAIL, validate::email, out),
            first_name: fields.required_text(field::FIRST_NAME, validate::name, out),
            last_name: fields.required_text(field::LAST_NAME, validate::name, out),
            profile: AgentProfile::take(&mut fields, unknown, out),
            role: fields
                .text(field::ROLE, Null::Forbidden, validate::role, out)
                .value()
                .and_then(|role| role.parse().ok()),
            phone: fields
                .text(field::PHONE, Null::Forbidden, validate::phone, out)
                .value(),
            image_url: fields.text(field::IMAGE_URL, Null::Allowed, validate::absolute_url, out),
            date_of_birth: fields.text(field::DATE_OF_BIRTH, Null::Allowed, validate::date, out),
            brokerage_id: fields.identifier(field::BROKERAGE_ID, out),
            office_id: fields.identifier(field::OFFICE_ID, out),
            collective_id: fields.identifier(field::COLLECTIVE_ID, out),
        };
        fields.rest(unknown, out);
        ValidationError::check(violations)?;
        Ok(request)
    }

    /// Checks every rule on what would be sent.
    ///
    /// # Errors
    /// [`ValidationError`] holds every violation.
    pub fn validate(&self) -> Result<(), ValidationError> {
        Self::from_json(&self.to_json(), UnknownFields::Ignore).map(drop)
    }

    /// The JSON body that is sent.
    pub fn to_json(&self) -> Json {
        // Strings and JSON values only: writing them cannot fail.
        Json::from_serialize(self).unwrap_or_else(|_| Json::from(serde_json::Value::Null))
    }

    /// E-mail address.
    pub fn email(&self) -> &str {
        &self.email
    }

    /// First name.
    pub fn first_name(&self) -> &str {
        &self.first_name
    }

    /// Last name.
    pub fn last_name(&self) -> &str {
        &self.last_name
    }

    /// The profile.
    pub fn profile(&self) -> &AgentProfile {
        &self.profile
    }

    /// The role that the agent gets: [`Role::Agent`] when none is named.
    pub fn role(&self) -> Role {
        self.role.unwrap_or_default()
    }

    /// Phone number.
    pub fn phone(&self) -> Option<&str> {
        self.phone.as_deref()
    }

    /// URL of a picture; `None` when absent or null.
    pub fn image_url(&self) -> Option<&str> {
        self.image_url.as_ref().value().map(String::as_str)
    }

    /// Date of birth as `YYYY-MM-DD`; `None` when absent or null.
    pub fn date_of_birth(&self) -> Option<&str> {
        self.date_of_birth.as_ref().value().map(String::as_str)
    }

    /// The brokerage; `None` when absent or null.
    pub fn brokerage_id(&self) -> Option<&BrokerageId> {
        self.brokerage_id.as_ref().value()
    }

    /// The office; `None` when absent or null.
    pub fn office_id(&self) -> Option<&OfficeId> {
        self.office_id.as_ref().value()
    }

    /// The collective; `None` when absent or null.
    pub fn collective_id(&self) -> Option<&CollectiveId> {
        self.collective_id.as_ref().value()
    }
}

impl Serialize for CreateAgent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry(field::EMAIL, &self.email)?;
        fields.serialize_entry(field::FIRST_NAME, &self.first_name)?;
        fields.serialize_entry(field::LAST_NAME, &self.last_name)?;
        fields.serialize_entry(field::PROFILE, &self.profile)?;
        if let Some(role) = &self.role {
            fields.serialize_entry(field::ROLE, role)?;
        }
        if let Some(phone) = &self.phone {
            fields.serialize_entry(field::PHONE, phone)?;
        }
        entry(&mut fields, field::IMAGE_URL, &self.image_url)?;
        entry(&mut fields, field::DATE_OF_BIRTH, &self.date_of_birth)?;
        entry(&mut fields, field::BROKERAGE_ID, &self.brokerage_id)?;
        entry(&mut fields, field::OFFICE_ID, &self.office_id)?;
        entry(&mut fields, field::COLLECTIVE_ID, &self.collective_id)?;
        fields.end()
    }
}

fn entry<M: SerializeMap, T: Serialize>(
    fields: &mut M,
    name: &str,
    value: &Nullable<T>,
) -> Result<(), M::Error> {
    match value {
        Nullable::Absent => Ok(()),
        Nullable::Null => fields.serialize_entry(name, &()),
        Nullable::Value(value) => fields.serialize_entry(name, value),
    }
}

impl fmt::Debug for CreateAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateAgent")
            .field("profile", &self.profile)
            .field("role", &self.role)
            .field("brokerage_id", &self.brokerage_id)
            .field("office_id", &self.office_id)
            .field("collective_id", &self.collective_id)
            .finish_non_exhaustive()
    }
}

/// The profile of an agent to create (specification, "Agent profile (request object)").
///
/// The specification says of no field what it means or whether it is required: an empty profile is
/// fine. `Debug` shows the names of the fields and none of the values. What a response holds is
/// [`AgentProfileResponse`](crate::AgentProfileResponse).
///
/// ```
/// use dealkit::AgentProfile;
///
/// let profile = AgentProfile::new()
///     .tier("A")
///     .external_id("crm-17")
///     .client_metadata(serde_json::json!({"source": "import"}))
///     .extra("badge", "gold");
/// assert_eq!(profile.get("tier").unwrap().as_str(), r#""A""#);
/// ```
#[derive(Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct AgentProfile {
    /// By wire name. One map for all, so that a field is never sent twice.
    fields: BTreeMap<String, Json>,
}

/// Setters of fields that are strings.
macro_rules! text_fields {
    ($($setter:ident = $wire:literal,)+) => {
        $(
            #[doc = concat!("Sets `", $wire, "`.")]
            #[must_use]
            pub fn $setter(self, value: impl Into<String>) -> Self {
                self.extra($wire, value.into())
            }
        )+
    };
}

impl AgentProfile {
    /// A profile without any field.
    pub fn new() -> Self {
        Self::default()
    }

    text_fields! {
        tier = "tier",
        id = "id",
        user_id = "userId",
        partner_uuid = "partnerUUID",
        partner_office_id = "partnerOfficeId",
        partner_mls_agent_id = "partnerMlsAgentId",
        partner_mls_id = "partnerMlsId",
        partner_status = "partnerStatus",
        mls_id = "mlsId",
        processor_connected_account_id = "processorConnectedAccountId",
        external_id = "externalId",
    }

    /// Sets `onboardingComplete`.
    #[must_use]
    pub fn onboarding_complete(self, value: bool) -> Self {
        self.extra("onboardingComplete", value)
    }

    /// Sets `processorOnboardingComplete`.
    #[must_use]
    pub fn processor_onboarding_complete(self, value: bool) -> Self {
        self.extra("processorOnboardingComplete", value)
    }

    /// Sets `clientMetadata`, which must be a JSON object; its text is sent exactly as it is.
    #[must_use]
    pub fn client_metadata(self, value: impl Into<Json>) -> Self {
        self.extra("clientMetadata", value)
    }

    /// Sets a field by its wire name, also an undocumented one. Setting a known
    /// field this way replaces it, and the rules check its type.
    #[must_use]
    pub fn extra(mut self, name: impl Into<String>, value: impl Into<Json>) -> Self {
        self.fields.insert(name.into(), value.into());
        self
    }

    /// The wire names of the documented fields, in the specification's order.
    pub fn known_fields() -> impl Iterator<Item = &'static str> {
        names::PROFILE.iter().map(|(name, _)| *name)
    }

    /// Takes the profile out of the fields of a request. What is not known is kept all the same: the request
    /// is the caller's.
    fn take(
        fields: &mut Fields<'_>,
        unknown: UnknownFields,
        out: &mut Vec<Violation>,
    ) -> AgentProfile {
        let mut profile = AgentProfile::new();
        let Some(value) = fields.required(field::PROFILE, Kind::Object, out) else {
            return profile;
        };
        let Some(mut inner) = Fields::of(value.get(), "/profile") else {
            return profile;
        };
        profile.fields = inner.to_map();
        for (name, kind) in names::PROFILE {
            inner.take(name, kind, Null::Forbidden, out);
        }
        inner.rest(unknown, out);
        profile
    }

    /// A field by its wire name, if it is set.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.fields.get(name)
    }
}

impl fmt::Debug for AgentProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(
                self.fields
                    .keys()
                    .map(|name| (name, format_args!("<hidden>"))),
            )
            .finish()
    }
}

//! Agents: the request that creates one, and the call that sends it.

use std::{collections::BTreeMap, fmt};

#[cfg(feature = "client")]
use http::Method;
use serde::{Serialize, Serializer, ser::SerializeMap};

#[cfg(feature = "client")]
use crate::{
    call::Call,
    client::Client,
    error::{Error, Operation},
    model::Agent,
    wire,
};
use crate::{
    validate::{self, UnknownMembers, ValidationError},
    value::{BrokerageId, CollectiveId, Json, Nullable, OfficeId, Role},
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
/// A missing required member does not compile:
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
    pub(crate) email: String,
    /// First name, 1 to 255 characters (Unicode code points). Required.
    pub(crate) first_name: String,
    /// Last name, 1 to 255 characters (Unicode code points). Required.
    pub(crate) last_name: String,
    /// The profile; an empty one is fine. Required.
    pub(crate) profile: AgentProfile,
    /// The role; the service takes [`Role::Agent`] when none is sent.
    pub(crate) role: Option<Role>,
    /// Phone number: a plus sign and digits.
    pub(crate) phone: Option<String>,
    /// URL of a picture. `Nullable::Null` sends null.
    #[builder(into, default)]
    pub(crate) image_url: Nullable<String>,
    /// Date of birth: a `chrono::NaiveDate`, or a string `YYYY-MM-DD`. `Nullable::Null` sends null.
    #[builder(into, default)]
    pub(crate) date_of_birth: Nullable<String>,
    /// The brokerage that the agent belongs to. `Nullable::Null` sends null.
    #[builder(into, default)]
    pub(crate) brokerage_id: Nullable<BrokerageId>,
    /// The office that the agent belongs to. `Nullable::Null` sends null.
    #[builder(into, default)]
    pub(crate) office_id: Nullable<OfficeId>,
    /// The collective that the agent belongs to. `Nullable::Null` sends null.
    #[builder(into, default)]
    pub(crate) collective_id: Nullable<CollectiveId>,
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
    /// [`ValidationError`] holds every violation, also those of type and of missing members.
    ///
    /// ```
    /// use dealkit::{CreateAgent, Json, UnknownMembers};
    ///
    /// let body = Json::parse(r#"{"email": "ada@example.com", "first_name": "Ada", "profile": null}"#).unwrap();
    /// let error = CreateAgent::from_json(&body, UnknownMembers::Ignore).unwrap_err();
    /// assert_eq!(error.violations()[0].pointer, "/last_name");
    /// assert_eq!(error.violations()[1].pointer, "/profile");
    /// ```
    pub fn from_json(body: &Json, unknown: UnknownMembers) -> Result<Self, ValidationError> {
        validate::create_agent(body, unknown)
    }

    /// Checks every rule on what would be sent.
    ///
    /// # Errors
    /// [`ValidationError`] holds every violation.
    pub fn validate(&self) -> Result<(), ValidationError> {
        validate::create_agent(&self.to_json(), UnknownMembers::Ignore).map(|_| ())
    }

    /// The JSON body that is sent.
    pub fn to_json(&self) -> Json {
        // Strings and JSON values only: writing them cannot fail.
        Json::of(self).unwrap_or_else(|_| Json::from(serde_json::Value::Null))
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

/// Wire names, stated once: for writing, for the rules, and for error texts, which show no other name.
macro_rules! members {
    ($($name:ident = $wire:literal,)+) => {
        $(pub(crate) const $name: &str = $wire;)+
        pub(crate) const ALL: &[&str] = &[$($wire),+];
    };
}

/// The members of the request.
pub(crate) mod member {
    members! {
        EMAIL = "email",
        FIRST_NAME = "first_name",
        LAST_NAME = "last_name",
        PROFILE = "profile",
        ROLE = "role",
        PHONE = "phone",
        IMAGE_URL = "image_url",
        DATE_OF_BIRTH = "date_of_birth",
        BROKERAGE_ID = "brokerage_id",
        OFFICE_ID = "office_id",
        COLLECTIVE_ID = "collective_id",
    }
}

impl Serialize for CreateAgent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(None)?;
        members.serialize_entry(member::EMAIL, &self.email)?;
        members.serialize_entry(member::FIRST_NAME, &self.first_name)?;
        members.serialize_entry(member::LAST_NAME, &self.last_name)?;
        members.serialize_entry(member::PROFILE, &self.profile)?;
        if let Some(role) = &self.role {
            members.serialize_entry(member::ROLE, role)?;
        }
        if let Some(phone) = &self.phone {
            members.serialize_entry(member::PHONE, phone)?;
        }
        entry(&mut members, member::IMAGE_URL, &self.image_url)?;
        entry(&mut members, member::DATE_OF_BIRTH, &self.date_of_birth)?;
        entry(&mut members, member::BROKERAGE_ID, &self.brokerage_id)?;
        entry(&mut members, member::OFFICE_ID, &self.office_id)?;
        entry(&mut members, member::COLLECTIVE_ID, &self.collective_id)?;
        members.end()
    }
}

fn entry<M: SerializeMap, T: Serialize>(
    members: &mut M,
    name: &str,
    value: &Nullable<T>,
) -> Result<(), M::Error> {
    match value {
        Nullable::Absent => Ok(()),
        Nullable::Null => members.serialize_entry(name, &()),
        Nullable::Value(value) => members.serialize_entry(name, value),
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
/// The specification says of no member what it means or whether it is required: an empty profile is
/// fine. `Debug` shows the names of the members and none of the values. What a response holds is
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
    /// By wire name. One map for all, so that a member is never sent twice.
    pub(crate) members: BTreeMap<String, Json>,
}

/// Setters of members that are strings.
macro_rules! text_members {
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
    /// A profile without any member.
    pub fn new() -> Self {
        Self::default()
    }

    text_members! {
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

    /// Sets a member by its wire name, also one that the specification does not show. Setting a known
    /// member this way replaces it, and the rules check its type.
    #[must_use]
    pub fn extra(mut self, name: impl Into<String>, value: impl Into<Json>) -> Self {
        self.members.insert(name.into(), value.into());
        self
    }

    /// The wire names of the members that the specification shows, in its order.
    pub fn known_members() -> impl Iterator<Item = &'static str> {
        validate::PROFILE_MEMBERS.iter().map(|(name, _)| *name)
    }

    /// A member by its wire name, if it is set.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.members.get(name)
    }
}

impl fmt::Debug for AgentProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(
                self.members
                    .keys()
                    .map(|name| (name, format_args!("<hidden>"))),
            )
            .finish()
    }
}

/// Calls on agents; see [`Client::agents`].
#[cfg(feature = "client")]
#[derive(Clone)]
pub struct Agents {
    client: Client,
}

#[cfg(feature = "client")]
impl Agents {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Creates an agent (specification, "Create agent").
    ///
    /// The specification has no idempotency key: when a call fails and
    /// [`Error::delivery`](crate::Error::delivery) is not `NotSent`, the agent may have been created.
    ///
    /// ```no_run
    /// # async fn example(client: dealkit::Client) -> Result<(), dealkit::Error> {
    /// use dealkit::{AgentProfile, CreateAgent};
    ///
    /// let request = CreateAgent::builder()
    ///     .email("ada@example.com")
    ///     .first_name("Ada")
    ///     .last_name("Lovelace")
    ///     .profile(AgentProfile::new().tier("A"))
    ///     .build()?;
    /// let agent = client.agents().create(request).await?;
    /// println!("created {}", agent.id);
    /// # Ok(()) }
    /// ```
    pub fn create(&self, request: CreateAgent) -> Call<Agent> {
        self.create_json(request.to_json())
    }

    /// Creates an agent from a body that is sent as it is: no rule is checked. For what
    /// [`CreateAgent`] cannot say, and for services that accept more than the rules.
    pub fn create_json(&self, body: Json) -> Call<Agent> {
        let operation = Operation {
            method: Method::POST,
            template: wire::AGENTS_PATH.to_owned(),
        };
        let path = Ok(wire::AGENTS_PATH.to_owned());
        Call::new(self.client.clone(), operation, path, |answer, _| {
            Agent::from_json(&answer.body).map_err(Error::decode)
        })
        .with_json(body)
    }
}

#[cfg(feature = "client")]
impl fmt::Debug for Agents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agents").finish_non_exhaustive()
    }
}

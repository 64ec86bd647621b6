//! The request "Create agent": its contents, its builder, and how it is decoded from JSON.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::{
    json::document_limits::without_bom,
    rules::{
        fields::{Fields, check_names, parse_object},
        validate::{
            Null, UnknownFields, ValidationError, Violation, check_kind, check_text, field_pointer,
        },
    },
    specification::field_names,
    value::{AssignedRole, BrokerageId, CollectiveId, Json, JsonKind, Nullable, OfficeId},
};

/// The request "Create agent" (specification, "Create agent").
///
/// The compiler ensures that required fields are set on the builder, and `build` checks every rule before anything is
/// sent. `Debug` hides personal data.
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
///
/// # A value, null, or nothing
///
/// Five fields may be null, and there is one way to express each case:
///
/// | what is sent | how to write it |
/// |---|---|
/// | a value | `.office_id("o_1")` |
/// | null | `.office_id(Nullable::Null)` |
/// | nothing | do not call the setter |
/// | the value of an `Option`, or nothing for `None` | `.maybe_office_id(option)` |
///
/// Other optional fields have both setters too, but accept no null. Passing an `Option` where a value is expected does
/// not compile, because its `None` could mean null or absent:
///
/// ```
/// # use dealkit::{CreateAgent, OfficeId};
/// let office: Option<OfficeId> = None;
/// let builder = CreateAgent::builder().maybe_office_id(office);
/// ```
///
/// ```compile_fail,E0277
/// # use dealkit::{CreateAgent, OfficeId};
/// let office: Option<OfficeId> = None;
/// let builder = CreateAgent::builder().office_id(office);
/// ```
///
/// # From JSON
///
/// `Deserialize` checks every rule, as `build` does, and its error names every violation. It ignores fields
/// that are not in the specification; [`from_json`](Self::from_json) can reject them, and returns the
/// violations one by one. Of serde's formats, those that are self-describing (JSON, YAML, …) can be read.
///
/// ```
/// # use dealkit::CreateAgent;
/// let body = r#"{"email": "ada@example.com", "first_name": "", "last_name": "Lovelace", "profile": {}, "role": "AGNT"}"#;
/// let error = serde_json::from_str::<CreateAgent>(body).unwrap_err().to_string();
/// assert!(error.contains("/first_name: ") && error.contains("(too_short)"));
/// assert!(error.contains("/role: ") && error.contains("(unknown_value)"));
/// ```
#[derive(Clone, PartialEq, Serialize, bon::Builder)]
#[builder(finish_fn(
    name = build_unvalidated,
    doc {
        /// Builds the request without checking any rule: a real service may accept more than the rules allow.
    }
), builder_type(doc {
    /// Collects the fields of a [`CreateAgent`]: [`build`](Self::build) checks every rule, and
    /// [`build_unvalidated`](Self::build_unvalidated) none.
}), state_mod(vis = "pub"), derive(Clone), on(String, into), on(AssignedRole, into), on(Nullable<_>, into))]
pub struct CreateAgent {
    /// E-mail address: a bare mailbox such as `ada@example.com`. Required.
    email: String,
    /// First name, 1 to 255 characters (Unicode code points). Required.
    first_name: String,
    /// Last name, 1 to 255 characters (Unicode code points). Required.
    last_name: String,
    /// The profile; it may be empty. Required.
    profile: AgentProfile,
    /// The role: a [`Role`](crate::Role), or a string, which the rules check. If none is sent, the service uses
    /// `AGENT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<AssignedRole>,
    /// Phone number: a plus sign and digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    phone: Option<String>,
    /// URL of a picture. `Nullable::Null` sends null.
    #[serde(skip_serializing_if = "Option::is_none")]
    image_url: Option<Nullable<String>>,
    /// Date of birth: a `chrono::NaiveDate`, or a string `YYYY-MM-DD`. `Nullable::Null` sends null.
    #[serde(skip_serializing_if = "Option::is_none")]
    date_of_birth: Option<Nullable<String>>,
    /// The brokerage that the agent belongs to. `Nullable::Null` sends null.
    #[serde(skip_serializing_if = "Option::is_none")]
    brokerage_id: Option<Nullable<BrokerageId>>,
    /// The office that the agent belongs to. `Nullable::Null` sends null.
    #[serde(skip_serializing_if = "Option::is_none")]
    office_id: Option<Nullable<OfficeId>>,
    /// The collective that the agent belongs to. `Nullable::Null` sends null.
    #[serde(skip_serializing_if = "Option::is_none")]
    collective_id: Option<Nullable<CollectiveId>>,
}

impl<S: create_agent_builder::IsComplete> CreateAgentBuilder<S> {
    /// Builds the request if it follows every rule.
    ///
    /// # Errors
    /// [`ValidationError`] has every violation, with the service's own codes.
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
    /// Decodes the request from its JSON body and checks every rule.
    ///
    /// # Errors
    /// [`ValidationError`] holds every violation, including wrong types and missing fields. A text that is not JSON is one
    /// of the body.
    ///
    /// ```
    /// use dealkit::{CreateAgent, UnknownFields};
    ///
    /// let body = r#"{"email": "ada@example.com", "first_name": "Ada", "profile": null}"#;
    /// let error = CreateAgent::from_json(body, UnknownFields::Ignore).unwrap_err();
    /// assert_eq!(error.violations()[0].pointer, "/last_name");
    /// assert_eq!(error.violations()[1].pointer, "/profile");
    /// ```
    pub fn from_json(
        body: impl AsRef<[u8]>,
        unknown: UnknownFields,
    ) -> Result<Self, ValidationError> {
        let object = parse_object("", without_bom(body.as_ref()));
        let mut fields = Fields::new(object.map_err(ValidationError::one)?);
        let request = Self {
            email: fields.take_required_text("email"),
            first_name: fields.take_required_text("first_name"),
            last_name: fields.take_required_text("last_name"),
            profile: fields
                .take("profile", JsonKind::Object, Null::Required)
                .and_then(|profile| {
                    AgentProfile::read(
                        profile.as_bytes(),
                        "/profile",
                        unknown,
                        &mut fields.violations,
                    )
                })
                .unwrap_or_default(),
            role: fields.take_optional_text("role"),
            phone: fields.take_optional_text("phone"),
            image_url: fields.take_nullable_text("image_url"),
            date_of_birth: fields.take_nullable_text("date_of_birth"),
            brokerage_id: fields.take_nullable_text("brokerage_id"),
            office_id: fields.take_nullable_text("office_id"),
            collective_id: fields.take_nullable_text("collective_id"),
        };
        ValidationError::check(fields.finish(unknown))?;
        Ok(request)
    }

    /// Checks every rule on the request as it would be sent.
    ///
    /// # Errors
    /// [`ValidationError`] has every violation.
    pub fn validate(&self) -> Result<(), ValidationError> {
        let mut violations = Vec::new();
        let out = &mut violations;
        // The types guarantee the rest.
        check_text("email", Some(&self.email), out);
        check_text("first_name", Some(&self.first_name), out);
        check_text("last_name", Some(&self.last_name), out);
        self.profile.check("/profile", UnknownFields::Ignore, out);
        check_text("role", self.role.as_ref().map(AssignedRole::as_str), out);
        check_text("phone", self.phone(), out);
        check_text("image_url", self.image_url(), out);
        check_text("date_of_birth", self.date_of_birth(), out);
        ValidationError::check(violations)
    }

    /// The JSON body to be sent.
    pub fn to_json(&self) -> Json {
        // There are only strings and JSON values, which always serialize.
        Json::from_infallible(self)
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

    /// The role that the agent gets: `AGENT` if none is set. Can differ from the five of
    /// [`Role`](crate::Role) only if the rules have not been checked.
    pub fn role(&self) -> &AssignedRole {
        self.role.as_ref().unwrap_or(&AssignedRole::Agent)
    }

    /// Phone number.
    pub fn phone(&self) -> Option<&str> {
        self.phone.as_deref()
    }

    /// URL of a picture; `None` when absent or null.
    pub fn image_url(&self) -> Option<&str> {
        value(&self.image_url).map(String::as_str)
    }

    /// Date of birth as `YYYY-MM-DD`; `None` when absent or null.
    pub fn date_of_birth(&self) -> Option<&str> {
        value(&self.date_of_birth).map(String::as_str)
    }

    /// The brokerage; `None` when absent or null.
    pub fn brokerage_id(&self) -> Option<&BrokerageId> {
        value(&self.brokerage_id)
    }

    /// The office; `None` when absent or null.
    pub fn office_id(&self) -> Option<&OfficeId> {
        value(&self.office_id)
    }

    /// The collective; `None` when absent or null.
    pub fn collective_id(&self) -> Option<&CollectiveId> {
        value(&self.collective_id)
    }
}

/// The value of a field that may be null or absent.
fn value<T>(field: &Option<Nullable<T>>) -> Option<&T> {
    field.as_ref()?.as_ref().value()
}

/// Checks every rule; fields that are not in the specification are ignored.
impl<'de> Deserialize<'de> for CreateAgent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let body = <Json as Deserialize>::deserialize(deserializer)?;
        Self::from_json(&body, UnknownFields::Ignore).map_err(de::Error::custom)
    }
}

impl fmt::Debug for CreateAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateAgent")
            .field("profile", &self.profile)
            // An unknown role may be anything, if the rules have not been checked.
            .field("role", &self.role.as_ref().and_then(AssignedRole::known))
            .field("brokerage_id", &self.brokerage_id)
            .field("office_id", &self.office_id)
            .field("collective_id", &self.collective_id)
            .finish_non_exhaustive()
    }
}

/// The profile of an agent to create (specification, "Agent profile (request object)").
///
/// The specification does not say what the fields mean or whether they are required: the profile may be empty.
/// `clientMetadata` must be a JSON object, whose text is sent exactly as it is. `Debug` shows the names of the fields
/// and none of the values. The profile in a response is [`AgentProfileResponse`](crate::AgentProfileResponse).
///
/// ```
/// use dealkit::{AgentProfile, Json};
///
/// let profile = AgentProfile::new()
///     .tier("A")
///     .external_id("crm-17")
///     .client_metadata(serde_json::json!({"source": "import"}))
///     .maybe_mls_id(None::<String>) // not sent
///     .extra("badge", Json::string("gold"));
/// assert_eq!(profile.get("tier").unwrap().as_str(), r#""A""#);
/// assert!(profile.get("mlsId").is_none());
/// ```
#[derive(Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct AgentProfile {
    /// By wire name. There is one map for all fields, so that none is sent twice.
    fields: BTreeMap<Cow<'static, str>, Json>,
}

/// The setters of each field.
macro_rules! setters {
    ($($setter:ident, $maybe:ident: $type:ident = $wire:literal,)+) => {
        $(
            #[doc = concat!("Sets `", $wire, "`.")]
            #[must_use]
            pub fn $setter(self, value: impl Into<$type>) -> Self {
                let value: $type = value.into();
                self.with(Cow::Borrowed($wire), Json::from_infallible(value))
            }

            #[doc = concat!("Sets `", $wire, "`, or omits it if `None`.")]
            #[must_use]
            pub fn $maybe(self, value: Option<impl Into<$type>>) -> Self {
                match value {
                    Some(value) => self.$setter(value),
                    None => self,
                }
            }
        )+
    };
}

impl AgentProfile {
    /// A profile without any fields.
    pub fn new() -> Self {
        Self::default()
    }

    field_names::profile_fields!(setters);

    /// Sets a field by its wire name, even an undocumented one. Setting a known field this way
    /// replaces it, and the rules check its type.
    #[must_use]
    pub fn extra(self, name: impl Into<String>, value: impl Into<Json>) -> Self {
        self.with(Cow::Owned(name.into()), value.into())
    }

    fn with(mut self, name: Cow<'static, str>, value: Json) -> Self {
        self.fields.insert(name, value);
        self
    }

    /// The wire names of the documented fields, in the specification's order.
    pub fn known_fields() -> impl Iterator<Item = &'static str> {
        field_names::PROFILE_FIELD_NAMES.iter().copied()
    }

    /// Unknown fields are kept all the same: the request is the caller's. There is no profile where there is no object,
    /// which is a violation.
    fn read(
        json: &[u8],
        at: &str,
        unknown: UnknownFields,
        out: &mut Vec<Violation>,
    ) -> Option<Self> {
        let object = parse_object(at, json)
            .map_err(|wrong| out.push(wrong))
            .ok()?;
        let mut profile = Self::new();
        for (name, value) in object {
            // It always is JSON.
            if let Ok(value) = Json::parse(value) {
                profile = profile.extra(name, value);
            }
        }
        profile.check(at, unknown, out);
        Some(profile)
    }

    /// Checks the types of the documented fields, and the names.
    fn check(&self, at: &str, unknown: UnknownFields, out: &mut Vec<Violation>) {
        // In the order of the specification, but without a look-up for each of its names.
        let place = |name: &str| {
            field_names::PROFILE_FIELD_NAMES
                .iter()
                .position(|known| *known == name)
        };
        let mut given: Vec<_> = self.fields.iter().collect();
        given.sort_by_key(|(name, _)| place(name));
        for (name, value) in given {
            let documented = field_names::PROFILE_FIELDS
                .iter()
                .find(|(known, _)| known == name);
            if let Some(&(_, kind)) = documented
                && let Err((code, detail)) = check_kind(value.kind(), kind, Null::Forbidden)
            {
                out.push(Violation::new(field_pointer(at, name), code, detail));
            }
        }
        let given = self.fields.keys().map(|name| &**name);
        check_names(given, field_names::PROFILE_FIELD_NAMES, at, unknown, out);
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

//! The request "Create agent": its fields, its builder, and its decoding from JSON.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeMap as _};

use crate::{
    json::document_limits::without_bom,
    model::responses::json_with_field,
    rules::{
        fields::{Fields, check_names, parse_object},
        validate::{
            NullRule, UnknownFields, ValidationError, Violation, check_kind, check_text,
            field_pointer,
        },
    },
    specification::field_names,
    value::{AssignedRole, BrokerageId, CollectiveId, Json, JsonKind, Nullable, OfficeId},
};

/// The request "Create agent" (specification, "Create agent").
///
/// A builder without a required field does not compile, and `build` checks every rule before anything is sent. `Debug` hides
/// personal data.
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
/// # Null and omitted fields
///
/// Five fields may be null. Each case is expressed in one way:
///
/// | sent | code |
/// |---|---|
/// | a value | `.office_id("o_1")` |
/// | null | `.office_id(Nullable::Null)` |
/// | nothing | do not call the setter |
/// | the value of an `Option`, or nothing for `None` | `.maybe_office_id(option)` |
///
/// Other optional fields have both setters, too, but cannot be null. A setter without `maybe_` does not accept an `Option`,
/// because `None` could mean either null or omitted:
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
/// `Deserialize` checks every rule, as `build` does, and its error names every violation. It accepts undocumented fields and
/// keeps them in [`extra`](Self::extra); [`from_json`](Self::from_json) can reject them, and returns the violations one by
/// one. A request can be read from any self-describing serde format (JSON, YAML, …).
///
/// ```
/// # use dealkit::CreateAgent;
/// let body = r#"{"email": "ada@example.com", "first_name": "", "last_name": "Lovelace", "profile": {}, "role": "AGNT"}"#;
/// let error = serde_json::from_str::<CreateAgent>(body).unwrap_err().to_string();
/// assert!(error.contains("/first_name: ") && error.contains("(too_short)"));
/// assert!(error.contains("/role: ") && error.contains("(unknown_value)"));
/// ```
#[derive(Clone, PartialEq, bon::Builder)]
#[builder(finish_fn(
    name = build_unvalidated,
    doc {
        /// Builds the request without checking the rules. A real service may accept requests that the rules reject.
    }
), builder_type(doc {
    /// Builder of a [`CreateAgent`]: [`build`](Self::build) checks every rule, [`build_unvalidated`](Self::build_unvalidated)
    /// checks none.
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
    /// The role: a [`Role`](crate::Role), or a string, which the rules check. The service's default is `AGENT`.
    role: Option<AssignedRole>,
    /// Phone number: a plus sign and digits.
    phone: Option<String>,
    /// URL of a picture. `Nullable::Null` sends null.
    image_url: Option<Nullable<String>>,
    /// Date of birth: a `chrono::NaiveDate`, or a string `YYYY-MM-DD`. `Nullable::Null` sends null.
    date_of_birth: Option<Nullable<String>>,
    /// The brokerage that the agent belongs to. `Nullable::Null` sends null.
    brokerage_id: Option<Nullable<BrokerageId>>,
    /// The office that the agent belongs to. `Nullable::Null` sends null.
    office_id: Option<Nullable<OfficeId>>,
    /// The collective that the agent belongs to. `Nullable::Null` sends null.
    collective_id: Option<Nullable<CollectiveId>>,
    #[builder(skip)]
    extra: BTreeMap<String, Json>,
}

impl<S: create_agent_builder::IsComplete> CreateAgentBuilder<S> {
    /// Builds the request if it follows every rule.
    ///
    /// # Errors
    /// [`ValidationError`] has every violation.
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
    /// Reads the request from its JSON body, and checks every rule.
    ///
    /// # Errors
    /// [`ValidationError`] has every violation, including wrong types and missing fields. A body that is not JSON is one
    /// violation, with an empty pointer.
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
        let mut fields = Fields::new(object.map_err(ValidationError::from_violation)?);
        let request = Self {
            email: fields.take_required_text("email"),
            first_name: fields.take_required_text("first_name"),
            last_name: fields.take_required_text("last_name"),
            profile: fields
                .take("profile", JsonKind::Object, NullRule::Required)
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
            extra: fields.undocumented_fields(),
        };
        ValidationError::check(fields.finish(unknown))?;
        Ok(request)
    }

    /// Checks every rule.
    ///
    /// # Errors
    /// [`ValidationError`] has every violation.
    pub fn validate(&self) -> Result<(), ValidationError> {
        let mut violations = Vec::new();
        let out = &mut violations;
        // The types of the fields ensure the rules that are not checked here.
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

    /// Sets a field by its JSON name, such as a field that the specification lacks and a service accepts.
    ///
    /// An undocumented field is sent unchanged, next to the documented fields. If the field is documented, the whole request is
    /// written as JSON and read again, which checks every rule.
    ///
    /// # Errors
    /// [`ValidationError`], if the field is documented and the request breaks a rule.
    ///
    /// ```
    /// # use dealkit::{AgentProfile, CreateAgent, Json};
    /// let request = CreateAgent::builder()
    ///     .email("ada@example.com")
    ///     .first_name("Ada")
    ///     .last_name("Lovelace")
    ///     .profile(AgentProfile::new())
    ///     .build()?
    ///     .with("referral", Json::string("r_1"))?;
    /// assert_eq!(request.get("referral"), Some(Json::string("r_1")));
    /// assert_eq!(request.with("phone", 5).unwrap_err().violations()[0].pointer, "/phone");
    /// # Ok::<(), dealkit::ValidationError>(())
    /// ```
    pub fn with(mut self, name: &str, value: impl Into<Json>) -> Result<Self, ValidationError> {
        let value = value.into();
        if field_names::CREATE_AGENT_FIELD_NAMES.contains(&name) {
            let body = json_with_field(&self, name, &value);
            return Self::from_json(body, UnknownFields::Ignore);
        }
        self.extra.insert(name.to_owned(), value);
        Ok(self)
    }

    /// Returns the undocumented fields, by name.
    pub fn extra(&self) -> &BTreeMap<String, Json> {
        &self.extra
    }

    /// Returns a field, documented or not, by its JSON name; `None` if it is not sent.
    ///
    /// Each call serializes the request.
    pub fn get(&self, name: &str) -> Option<Json> {
        let mut fields: BTreeMap<String, Json> = self.to_json().deserialize().ok()?;
        fields.remove(name)
    }

    /// Returns the JSON body to be sent.
    pub fn to_json(&self) -> Json {
        // Serializing strings and JSON values cannot fail.
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

    /// The role of the agent: `AGENT` if none is set. The role is always a [`Role`](crate::Role), unless the rules were not
    /// checked.
    pub fn role(&self) -> &AssignedRole {
        self.role.as_ref().unwrap_or(&AssignedRole::Agent)
    }

    /// Phone number.
    pub fn phone(&self) -> Option<&str> {
        self.phone.as_deref()
    }

    /// URL of a picture; `None` if omitted or null.
    pub fn image_url(&self) -> Option<&str> {
        value_of(&self.image_url).map(String::as_str)
    }

    /// Date of birth as `YYYY-MM-DD`; `None` if omitted or null.
    pub fn date_of_birth(&self) -> Option<&str> {
        value_of(&self.date_of_birth).map(String::as_str)
    }

    /// The brokerage; `None` if omitted or null.
    pub fn brokerage_id(&self) -> Option<&BrokerageId> {
        value_of(&self.brokerage_id)
    }

    /// The office; `None` if omitted or null.
    pub fn office_id(&self) -> Option<&OfficeId> {
        value_of(&self.office_id)
    }

    /// The collective; `None` if omitted or null.
    pub fn collective_id(&self) -> Option<&CollectiveId> {
        value_of(&self.collective_id)
    }
}

/// Returns the value of a field that may be omitted or null.
fn value_of<T>(field: &Option<Nullable<T>>) -> Option<&T> {
    field.as_ref()?.as_ref().value()
}

impl Serialize for CreateAgent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("email", &self.email)?;
        fields.serialize_entry("first_name", &self.first_name)?;
        fields.serialize_entry("last_name", &self.last_name)?;
        fields.serialize_entry("profile", &self.profile)?;
        /// Writes the optional fields that are set.
        macro_rules! write_if_set {
            ($($field:ident),+) => {
                $( if let Some(value) = &self.$field {
                    fields.serialize_entry(stringify!($field), value)?;
                } )+
            };
        }
        write_if_set!(
            role,
            phone,
            image_url,
            date_of_birth,
            brokerage_id,
            office_id,
            collective_id
        );
        for (name, value) in &self.extra {
            fields.serialize_entry(name, value)?;
        }
        fields.end()
    }
}

/// Checks every rule, and accepts undocumented fields.
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
            // Show documented roles only: in a request whose rules were not checked, a role can be any string.
            .field("role", &self.role.as_ref().and_then(AssignedRole::known))
            .field("brokerage_id", &self.brokerage_id)
            .field("office_id", &self.office_id)
            .field("collective_id", &self.collective_id)
            .finish_non_exhaustive()
    }
}

/// The profile of an agent to create (specification, "Agent profile (request object)").
///
/// The specification states neither the meaning of the fields nor whether they are required. The profile may therefore be
/// empty. `clientMetadata` must be a JSON object, whose text is sent unchanged. `Debug` shows the names of the fields, but not
/// their values. The profile in a response is [`AgentProfileResponse`](crate::AgentProfileResponse).
///
/// ```
/// use dealkit::{AgentProfile, Json};
///
/// let profile = AgentProfile::new()
///     .tier("A")
///     .external_id("crm-17")
///     .client_metadata(serde_json::json!({"source": "import"}))
///     .maybe_mls_id(None::<String>) // not sent
///     .with("badge", Json::string("gold")); // undocumented
/// assert_eq!(profile.get("tier"), Some(Json::string("A")));
/// assert_eq!(profile.get("mlsId"), None);
/// assert_eq!(profile.extra()["badge"], Json::string("gold"));
/// ```
#[derive(Clone, Default, PartialEq)]
pub struct AgentProfile {
    /// The documented fields, by JSON name.
    documented: BTreeMap<&'static str, Json>,
    extra: BTreeMap<String, Json>,
}

/// Defines two setters for each documented field.
macro_rules! setters {
    ($($setter:ident, $maybe:ident: $type:ident = $wire:literal,)+) => {
        $(
            #[doc = concat!("Sets `", $wire, "`.")]
            #[must_use]
            pub fn $setter(mut self, value: impl Into<$type>) -> Self {
                let value: $type = value.into();
                self.documented.insert($wire, Json::from_infallible(value));
                self
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
    /// Creates a profile without fields.
    pub fn new() -> Self {
        Self::default()
    }

    field_names::profile_fields!(setters);

    /// Sets a field, documented or not, by its JSON name. The rules check the type of a documented field; an undocumented
    /// field is sent unchanged.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Json>) -> Self {
        match Self::known_fields().find(|known| *known == name) {
            Some(known) => self.documented.insert(known, value.into()),
            None => self.extra.insert(name.to_owned(), value.into()),
        };
        self
    }

    /// Returns the undocumented fields, by name.
    pub fn extra(&self) -> &BTreeMap<String, Json> {
        &self.extra
    }

    /// Returns a field, documented or not, by its JSON name; `None` if it is not sent.
    pub fn get(&self, name: &str) -> Option<Json> {
        let field = self.documented.get(name).or_else(|| self.extra.get(name));
        field.cloned()
    }

    /// Returns the JSON names of the documented fields, in the specification's order.
    pub fn known_fields() -> impl Iterator<Item = &'static str> {
        field_names::PROFILE_FIELD_NAMES.iter().copied()
    }

    /// Reads and checks the profile at the pointer `at`. Undocumented fields stay in the profile even if `unknown` makes them
    /// violations. Returns `None` if the profile is not an object, which is a violation.
    fn read(
        json: &[u8],
        at: &str,
        unknown: UnknownFields,
        out: &mut Vec<Violation>,
    ) -> Option<Self> {
        let object = parse_object(at, json)
            .map_err(|violation| out.push(violation))
            .ok()?;
        let mut profile = Self::new();
        for (name, value) in object {
            // Parsing cannot fail, because `parse_object` has checked the JSON.
            if let Ok(value) = Json::parse(value) {
                profile = profile.with(&name, value);
            }
        }
        profile.check(at, unknown, out);
        Some(profile)
    }

    /// Checks the types of the documented fields, and rejects undocumented names if `unknown` says so.
    fn check(&self, at: &str, unknown: UnknownFields, out: &mut Vec<Violation>) {
        for &(name, kind) in field_names::PROFILE_FIELDS {
            if let Some(value) = self.documented.get(name)
                && let Err((code, detail)) = check_kind(value.kind(), kind, NullRule::Forbidden)
            {
                out.push(Violation::new(field_pointer(at, name), code, detail));
            }
        }
        let undocumented = self.extra.keys().map(String::as_str);
        check_names(
            undocumented,
            field_names::PROFILE_FIELD_NAMES,
            at,
            unknown,
            out,
        );
    }

    /// Returns all fields, sorted by name.
    fn fields(&self) -> BTreeMap<&str, &Json> {
        let documented = self.documented.iter().map(|(name, value)| (*name, value));
        let extra = self.extra.iter().map(|(name, value)| (&**name, value));
        documented.chain(extra).collect()
    }
}

impl Serialize for AgentProfile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.extra.is_empty() {
            return self.documented.serialize(serializer);
        }
        self.fields().serialize(serializer)
    }
}

impl fmt::Debug for AgentProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(
                self.fields()
                    .keys()
                    .map(|name| (name, format_args!("<hidden>"))),
            )
            .finish()
    }
}

//! Creating an agent: the rules of the SDK, of the server, and of the contract, stated a third time.

use std::collections::BTreeMap;

use bytes::Bytes;
use dealkit::{Agent, CreateAgent, Json, UnknownFields, Violation};
use dealkit_server::Service;
use http::Response;

use crate::{
    json::{self, Kind},
    sandbox, time,
};

/// Any bytes as the body of "Create agent".
pub fn create_agent(data: &[u8]) {
    thread_local! {
        static SERVICES: [(UnknownFields, Service); 2] = [
            (UnknownFields::Ignore, sandbox::service(Vec::new(), |_| ())),
            (UnknownFields::Reject, sandbox::service(Vec::new(), |config| config.strict = true)),
        ];
    }
    SERVICES.with(|services| {
        for (unknown, service) in services {
            create(data, *unknown, service);
        }
    });
}

fn create(data: &[u8], unknown: UnknownFields, service: &Service) {
    // If the server would not accept a document at all, the SDK need only not panic on it.
    let by_sdk = std::str::from_utf8(data)
        .ok()
        .and_then(|text| Json::parse(text).ok())
        .map(|body| CreateAgent::from_json(&body, unknown));

    let request = sandbox::request("POST", "/v1/agents").header("content-type", "application/json");
    let response = service.handle(request.body(Bytes::copy_from_slice(data)).unwrap());
    let status = sandbox::check(&response, false);

    let is_strict = json::is_strict(data);
    assert_eq!(dealkit_server::json::check(data).is_ok(), is_strict);
    if !is_strict {
        assert_eq!(status, 400);
        malformed(data, &response);
        return;
    }
    let document = json::document(data).unwrap();
    let expected = violations(document, unknown);
    match by_sdk.expect("what the server takes as JSON, the SDK does too") {
        Ok(request) => {
            assert_eq!(status, 201, "{}", String::from_utf8_lossy(response.body()));
            assert_eq!(expected, [], "created in spite of it");
            request.validate().unwrap();
            let again = CreateAgent::from_json(&request.to_json(), unknown).unwrap();
            assert!(again == request, "{} is another request", request.to_json());
            created(document, &response, service);
        }
        Err(error) => {
            assert_eq!(status, 422);
            refused(document, error.violations(), &expected, &response);
        }
    }
}

/// The detail gives a position, and that position is in the text.
fn malformed(data: &[u8], response: &Response<Bytes>) {
    let detail = sandbox::text(response, "/detail");
    let (line, column) = detail
        .rsplit_once(" at line ")
        .and_then(|(_, place)| place.split_once(" column "))
        .map(|(line, column)| {
            (
                line.parse::<usize>().unwrap(),
                column.parse::<usize>().unwrap(),
            )
        })
        .expect("the detail ends with the place");
    let mut lines = data.split(|byte| *byte == b'\n');
    let line = lines.nth(line - 1).expect("the line is there");
    let characters = line.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
    assert!((1..=characters + 1).contains(&column), "{detail}");
}

/// SDK, server and contract name the same violations in the same order.
fn refused(
    document: &str,
    by_sdk: &[Violation],
    expected: &[(String, &str)],
    response: &Response<Bytes>,
) {
    let errors = json::items(sandbox::field(response, "/errors").unwrap());
    let by_server: Vec<Violation> = errors
        .iter()
        .map(|error| serde_json::from_str(error).unwrap())
        .collect();
    assert_eq!(by_server, by_sdk);
    let named: Vec<(String, &str)> = by_sdk
        .iter()
        .map(|violation| (violation.pointer.clone(), violation.code.as_str()))
        .collect();
    assert_eq!(named, expected);
    let expected_count = match errors.len() {
        1 => "1 field breaks".to_owned(),
        count => format!("{count} fields break"),
    };
    assert!(sandbox::text(response, "/detail").starts_with(&expected_count));
    for violation in by_sdk {
        let missing = violation.code.as_str() == "required";
        assert_eq!(json::at(document, &violation.pointer).is_none(), missing);
        // Of a value, only the type, the length and the contract's own words are shown.
        let detail = &violation.detail;
        assert!(
            [
                "must be ",
                "is required and missing",
                "is not a documented field"
            ]
            .iter()
            .any(|words| detail.starts_with(words))
                && detail.is_ascii()
                && detail.len() < 120,
            "{detail}"
        );
    }
}

const PROFILE: [(&str, Kind); 14] = [
    ("tier", Kind::String),
    ("id", Kind::String),
    ("userId", Kind::String),
    ("partnerUUID", Kind::String),
    ("partnerOfficeId", Kind::String),
    ("partnerMlsAgentId", Kind::String),
    ("partnerMlsId", Kind::String),
    ("partnerStatus", Kind::String),
    ("mlsId", Kind::String),
    ("onboardingComplete", Kind::Boolean),
    ("processorConnectedAccountId", Kind::String),
    ("processorOnboardingComplete", Kind::Boolean),
    ("clientMetadata", Kind::Object),
    ("externalId", Kind::String),
];

const ROLES: [&str; 5] = [
    "COLLECTIVE_ADMIN",
    "BROKER_ADMIN",
    "OFFICE_ADMIN",
    "ADMIN",
    "AGENT",
];

/// Every name that a request may have.
pub(crate) fn names() -> Vec<&'static str> {
    let own = [
        "email",
        "first_name",
        "last_name",
        "profile",
        "role",
        "phone",
        "image_url",
        "date_of_birth",
        "brokerage_id",
        "office_id",
        "collective_id",
    ];
    let profile = PROFILE.iter().map(|(name, _)| *name);
    own.into_iter().chain(profile).chain(ROLES).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Absence {
    Required,
    Missing,
    MissingOrNull,
}

use Absence::{Missing, MissingOrNull, Required};

/// The code with which a rule refuses a string, if it does.
type Rule = fn(&str) -> Option<&'static str>;

/// Every violation of a request, in the contract's order.
fn violations(document: &str, unknown: UnknownFields) -> Vec<(String, &'static str)> {
    if Kind::of(document) != Kind::Object {
        return vec![(String::new(), "wrong_type")];
    }
    let mut body = Rules {
        fields: json::by_name(document),
        at: "",
        unknown,
        out: Vec::new(),
    };
    body.text("email", Required, email);
    body.text("first_name", Required, name);
    body.text("last_name", Required, name);
    if let Some(profile) = body.field("profile", Kind::Object, Required) {
        let mut profile = Rules {
            fields: json::by_name(profile),
            at: "/profile",
            unknown,
            out: Vec::new(),
        };
        for (name, kind) in PROFILE {
            profile.field(name, kind, Missing);
        }
        body.out.extend(profile.finish());
    }
    body.text("role", Missing, |text| {
        (!ROLES.contains(&text)).then_some("unknown_value")
    });
    body.text("phone", Missing, phone);
    body.text("image_url", MissingOrNull, image_url);
    body.text("date_of_birth", MissingOrNull, |text| {
        time::date(text).is_none().then_some("invalid_date")
    });
    for name in ["brokerage_id", "office_id", "collective_id"] {
        body.text(name, MissingOrNull, |_| None);
    }
    body.finish()
}

struct Rules<'j> {
    fields: BTreeMap<String, &'j str>,
    at: &'static str,
    unknown: UnknownFields,
    out: Vec<(String, &'static str)>,
}

impl<'j> Rules<'j> {
    fn breaks(&mut self, name: &str, code: &'static str) {
        self.out
            .push((format!("{}/{}", self.at, json::token(name)), code));
    }

    fn field(&mut self, name: &str, kind: Kind, absence: Absence) -> Option<&'j str> {
        let code = match self.fields.remove(name) {
            Some(value) if Kind::of(value) == kind => return Some(value),
            None if absence != Required => return None,
            Some("null") if absence == MissingOrNull => return None,
            None => "required",
            Some("null") => "null_not_allowed",
            Some(_) => "wrong_type",
        };
        self.breaks(name, code);
        None
    }

    fn text(&mut self, name: &str, absence: Absence, rule: Rule) {
        let value = self.field(name, Kind::String, absence);
        // A strict document contains no unpaired surrogate.
        if let Some(code) = value.and_then(|value| rule(&json::string(value).unwrap())) {
            self.breaks(name, code);
        }
    }

    fn finish(mut self) -> Vec<(String, &'static str)> {
        if self.unknown == UnknownFields::Reject {
            let left: Vec<String> = self.fields.keys().cloned().collect();
            for name in left {
                self.breaks(&name, "unknown_field");
            }
        }
        self.out
    }
}

fn name(text: &str) -> Option<&'static str> {
    match text.chars().count() {
        0 => Some("too_short"),
        1..=255 => None,
        _ => Some("too_long"),
    }
}

fn phone(text: &str) -> Option<&'static str> {
    let (plus, digits) = text.split_at_checked(1).unwrap_or_default();
    let right = plus == "+" && !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit());
    (!right).then_some("invalid_phone")
}

/// The contract leaves mailboxes to a library, so the library is asked; it must be right where there is no doubt.
fn email(text: &str) -> Option<&'static str> {
    let valid = by_library("email", text);
    let plain = |part: &str| {
        (1..=20).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_lowercase())
    };
    if let Some((local, domain)) = text.split_once('@') {
        let labels: Vec<&str> = domain.split('.').collect();
        if plain(local) && labels.len() == 2 && labels.iter().all(|label| plain(label)) {
            assert!(valid, "a plain mailbox is one");
        }
    }
    let spaced = text.trim() != text || text.contains(['\r', '\n', '\0']);
    if !text.contains('@') || spaced || text.ends_with('>') {
        assert!(!valid, "{text:?} is no bare mailbox");
    }
    (!valid).then_some("invalid_email")
}

/// The same for URLs.
fn image_url(text: &str) -> Option<&'static str> {
    let valid = by_library("image_url", text);
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) || !text.contains(':') {
        assert!(!valid, "{text:?} is no clean absolute URL");
    }
    (!valid).then_some("invalid_url")
}

/// Whether the SDK accepts `text` for a field of an otherwise valid request.
fn by_library(name: &str, text: &str) -> bool {
    let mut body = serde_json::json!({
        "email": "ada@example.com", "first_name": "Ada", "last_name": "Lovelace", "profile": {},
    });
    body[name] = text.into();
    CreateAgent::from_json(&body.into(), UnknownFields::Reject).is_ok()
}

/// The agent is what was asked for, nothing more and nothing less.
fn created(document: &str, response: &Response<Bytes>, service: &Service) {
    let sent = |pointer: &str| json::at(document, pointer).filter(|value| *value != "null");
    let got = |pointer: &str| sandbox::field(response, pointer);
    let same = |from: &str, to: &str| {
        // Strings are compared by their characters, not by how they were escaped.
        let (from, to) = (sent(from), got(to));
        assert_eq!(
            from.and_then(json::string),
            to.filter(|value| *value != "null").and_then(json::string)
        );
        assert!(to.is_some());
    };
    same("/email", "/email");
    same("/first_name", "/first_name");
    same("/last_name", "/last_name");
    same("/date_of_birth", "/date_of_birth");
    same("/brokerage_id", "/current_brokerage_id");
    same("/brokerage_id", "/role_assignments/0/brokerage_id");
    same("/office_id", "/role_assignments/0/office_id");
    same("/collective_id", "/role_assignments/0/collective_id");
    let role = sent("/role").map_or("AGENT".to_owned(), |role| json::string(role).unwrap());
    assert_eq!(sandbox::text(response, "/role_assignments/0/role"), role);

    let profile = json::by_name(got("/profile").unwrap());
    let sent_profile = json::by_name(sent("/profile").unwrap());
    assert_eq!(
        profile.get("onboarding_complete"),
        sent_profile.get("onboardingComplete").or(Some(&"false"))
    );
    // Byte for byte: no digit changes.
    assert_eq!(
        profile.get("client_metadata"),
        sent_profile.get("clientMetadata").or(Some(&"{}"))
    );
    assert_eq!(
        profile.get("external_id").map(|id| json::string(id)),
        sent_profile.get("externalId").map(|id| json::string(id))
    );

    let names = |pointer| json::fields(got(pointer).unwrap()).len();
    assert_eq!(names(""), 8);
    assert_eq!(
        names("/profile"),
        2 + usize::from(profile.contains_key("external_id"))
    );
    assert_eq!(json::items(got("/role_assignments").unwrap()).len(), 1);
    assert_eq!(names("/role_assignments/0"), 4);

    let agent = Agent::from_json(response.body()).unwrap();
    assert!(!agent.id.as_str().is_empty());
    assert!(
        service.agents() == [agent],
        "the service remembers another agent"
    );
    service.reset();
    assert!(service.agents().is_empty());
}

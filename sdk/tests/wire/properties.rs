//! What holds for any number, JSON and instant, not only for those that somebody thought of.

use chrono::{DateTime, NaiveDate, NaiveDateTime, SecondsFormat, TimeDelta, Utc};
use dealkit::{AgentProfile, CreateAgent, Deal, Decimal, Json, UnknownFields};
use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::Value;

/// The text of a number with up to 28 digits, without an exponent.
fn decimal() -> impl Strategy<Value = String> {
    (any::<bool>(), "0|[1-9][0-9]{0,27}", "[0-9]{0,28}").prop_map(|(minus, whole, mut fraction)| {
        let significant = if whole == "0" { 0 } else { whole.len() };
        fraction.truncate(28 - significant);
        let zero = whole == "0" && fraction.bytes().all(|digit| digit == b'0');
        let sign = if minus && !zero { "-" } else { "" };
        let point = if fraction.is_empty() { "" } else { "." };
        format!("{sign}{whole}{point}{fraction}")
    })
}

proptest! {
    #[test]
    fn any_decimal_keeps_every_digit(text in decimal()) {
        let decimal: Decimal = text.parse().unwrap();
        prop_assert_eq!(decimal.to_string(), text.as_str());
        prop_assert_eq!(serde_json::to_string(&decimal).unwrap(), text.as_str());
        prop_assert_eq!(serde_json::from_str::<Decimal>(&text).unwrap().to_string(), text.as_str());

        let document = format!(r#"{{"id":"d_1","application":{{"requested_amount":{text},"offers":[{{"percent_of_commission": {text} }}]}},"sides":[{{"agent_units":{text}}}],"more":{text}}}"#);
        let deal = Deal::from_json(&document).unwrap();
        prop_assert_eq!(deal.application.as_ref().unwrap().requested_amount.unwrap().to_string(), text.as_str());
        prop_assert_eq!(deal.sides[0].agent_units.unwrap().to_string(), text.as_str());
        let written = serde_json::to_string(&deal).unwrap();
        prop_assert_eq!(written.matches(&format!(":{text}")).count(), 4, "{}", written);
    }

    /// Any JSON number is read exactly or refused; it is never rounded.
    #[test]
    fn any_number_is_exact_or_refused(text in "-?(0|[1-9][0-9]{0,40})([.][0-9]{1,40})?([eE][+-]?[0-9]{1,3})?") {
        let Ok(decimal) = text.parse::<Decimal>() else {
            // A number that clearly fits is not refused.
            let digits = text.bytes().filter(u8::is_ascii_digit).count();
            prop_assert!(digits > 28 || text.contains(['e', 'E']), "{} was refused", text);
            prop_assert!(serde_json::from_str::<Decimal>(&text).is_err());
            return Ok(());
        };
        prop_assert_eq!(value_of(&decimal.to_string()), value_of(&text), "{} became {}", text, decimal);
        prop_assert_eq!(serde_json::from_str::<Decimal>(&text).unwrap(), decimal);
    }

    #[test]
    fn any_text_is_a_decimal_only_if_it_is_a_json_number(text in "[-+0-9.eE_ ]{0,8}") {
        let is_number = serde_json::from_str::<Value>(&text).is_ok_and(|value| value.is_number())
            && text.trim() == text;
        if text.parse::<Decimal>().is_ok() {
            prop_assert!(is_number, "{:?}", text);
        }
    }
}

/// A number as its digits and the power of ten to multiply them by, with one representation for each value.
fn value_of(text: &str) -> (bool, String, i64) {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches(['-', '0']);
    let short = digits.trim_end_matches('0');
    if short.is_empty() {
        return (false, "0".to_owned(), 0);
    }
    let dropped = i64::try_from(digits.len() - short.len()).unwrap();
    let places = i64::try_from(fraction.len()).unwrap();
    let exponent: i64 = exponent.parse().unwrap();
    (
        text.starts_with('-'),
        short.to_owned(),
        exponent - places + dropped,
    )
}

/// Any JSON document as text, with numbers and white space that a tidy writer would not produce.
fn json_text() -> impl Strategy<Value = String> {
    let space = || select(vec!["", "", "", " ", "\n", "\t \r\n"]);
    let string = any::<String>().prop_map(|text| Value::from(text).to_string());
    let leaf = prop_oneof![
        select(vec![
            "null",
            "true",
            "false",
            "0",
            "-0",
            "-0.0",
            "1e400",
            "10.10",
            "1E+5",
            "\"\\u0041\\/\"",
            "\"\\ud83d\\ude00\""
        ])
        .prop_map(str::to_owned),
        "-?(0|[1-9][0-9]{0,40})([.][0-9]{1,40})?([eE][+-]?[0-9]{1,3})?",
        string.clone(),
    ];
    leaf.prop_recursive(4, 24, 5, move |inner| {
        prop_oneof![
            (vec(inner.clone(), 0..5), space(), space()).prop_map(|(items, one, two)| format!(
                "[{one}{}{two}]",
                items.join(&format!("{one},{two}"))
            )),
            (vec((string.clone(), inner), 0..5), space(), space()).prop_map(
                |(members, one, two)| {
                    let members: Vec<String> = members
                        .into_iter()
                        .map(|(name, value)| format!("{name}{one}:{two}{value}"))
                        .collect();
                    format!("{{{one}{}{two}}}", members.join(&format!("{two},{one}")))
                }
            ),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_json_is_kept_exactly(text in json_text()) {
        let json = Json::parse(text.as_str()).unwrap();
        prop_assert_eq!(json.as_str(), text.as_str());
        prop_assert_eq!(json.to_string(), text.as_str());
        prop_assert_eq!(serde_json::to_string(&json).unwrap(), text.as_str());

        let request = CreateAgent::builder()
            .email("ada@example.com")
            .first_name("Ada")
            .last_name("Lovelace")
            .profile(AgentProfile::new().extra("more", json.clone()))
            .build()
            .unwrap();
        let member = format!(r#""more":{text}"#);
        prop_assert!(request.to_json().as_str().contains(&member));
        let again = CreateAgent::from_json(request.to_json(), UnknownFields::Ignore).unwrap();
        prop_assert_eq!(again.profile().get("more").unwrap().as_str(), text.as_str());

        let deal = Deal::from_json(format!(r#"{{"id":"d_1","more": {text} }}"#)).unwrap();
        prop_assert_eq!(deal.extra()["more"].as_str(), text.as_str());
        prop_assert_eq!(serde_json::to_string(&deal).unwrap().matches(&format!(r#""more":{text}"#)).count(), 1);
    }

    #[test]
    fn any_instant_is_read_as_that_instant(
        (year, month, day) in prop_oneof![
            3 => (1_i32..=9999, 1_u32..=12, 1_u32..=31),
            1 => select(vec![(1, 1, 1), (9999, 12, 31)]), // An offset leads out of the range here.
        ],
        (hour, minute, second) in (0_u32..24, 0_u32..60, 0_u32..60),
        fraction in "[0-9]{0,9}",
        offset in option::of((any::<bool>(), 0_i64..24, 0_i64..60)),
        (between, zulu) in (select(vec!['T', 't', ' ']), select(vec!["Z", "z", "", "+00:00", "-00:00"])),
    ) {
        let Some(date) = NaiveDate::from_ymd_opt(year, month, day) else {
            return Ok(());
        };
        let nanos = format!("{fraction:0<9}").parse().unwrap();
        let local = date.and_hms_nano_opt(hour, minute, second, nanos).unwrap();
        let point = if fraction.is_empty() { "" } else { "." };
        let (suffix, shift) = match offset {
            Some((minus, hours, minutes)) => {
                let sign = if minus { -1 } else { 1 };
                let suffix = format!("{}{hours:02}:{minutes:02}", if minus { '-' } else { '+' });
                (suffix, TimeDelta::minutes(sign * (hours * 60 + minutes)))
            }
            None => (zulu.to_owned(), TimeDelta::zero()),
        };
        let text = format!(
            "{year:04}-{month:02}-{day:02}{between}{hour:02}:{minute:02}:{second:02}{point}{fraction}{suffix}"
        );
        let read = Deal::from_json(format!(r#"{{"id":"d_1","created_at":"{text}"}}"#));
        let expected: NaiveDateTime = local - shift;
        let in_range = expected >= NaiveDate::from_ymd_opt(1, 1, 1).unwrap().into()
            && expected < NaiveDate::from_ymd_opt(10_000, 1, 1).unwrap().into();
        match read {
            Ok(deal) => {
                prop_assert!(in_range, "{} is out of range", text);
                let found: DateTime<Utc> = deal.created_at.unwrap();
                prop_assert_eq!(found, expected.and_utc(), "{}", text);
                // Written back, it is the same instant, with no more digits than it needs.
                let written = serde_json::to_value(&deal).unwrap();
                prop_assert_eq!(
                    written["created_at"].as_str().unwrap(),
                    expected.and_utc().to_rfc3339_opts(SecondsFormat::AutoSi, true)
                );
                prop_assert_eq!(Deal::from_json(written.to_string()).unwrap(), deal);
            }
            Err(error) => {
                prop_assert!(!in_range, "{}: {}", text, error);
                prop_assert_eq!(error.path(), "created_at");
                prop_assert!(!error.to_string().contains(&text));
            }
        }
    }
}

//! Generated deals: as many as wanted, always the same for the same seed.
//!
//! Every deal begins with a random state of its own, so that `g_17` is the same however many are generated.

use std::fmt::Write;

use crate::state::split_mix::SplitMix64;

/// Names, and how they are written in an e-mail address.
const FIRST_NAMES: [(&str, &str); 16] = [
    ("Ada", "ada"),
    ("Grace", "grace"),
    ("Edsger", "edsger"),
    ("Barbara", "barbara"),
    ("Alan", "alan"),
    ("Zoë", "zoe"),
    ("Niklaus", "niklaus"),
    ("Radia", "radia"),
    ("Donald", "donald"),
    ("Frances", "frances"),
    ("José", "jose"),
    ("Margaret", "margaret"),
    ("Dennis", "dennis"),
    ("Shafi", "shafi"),
    ("Łukasz", "lukasz"),
    ("Hedy", "hedy"),
];
const LAST_NAMES: [(&str, &str); 16] = [
    ("Archer", "archer"),
    ("Bennett", "bennett"),
    ("Castillo", "castillo"),
    ("Dubois", "dubois"),
    ("Eriksen", "eriksen"),
    ("Fischer", "fischer"),
    ("García", "garcia"),
    ("Hughes", "hughes"),
    ("Ito", "ito"),
    ("Jensen", "jensen"),
    ("Kowalski", "kowalski"),
    ("Lindqvist", "lindqvist"),
    ("Müller", "mueller"),
    ("Nakamura", "nakamura"),
    ("O'Brien", "obrien"),
    ("Petrov", "petrov"),
];
const STREETS: [&str; 8] = [
    "Alder Lane",
    "Birch Street",
    "Cedar Avenue",
    "Dogwood Court",
    "Elm Street",
    "Fir Road",
    "Harbor View",
    "Juniper Way",
];
const CITIES: [(&str, &str, &str); 8] = [
    ("Asheville", "NC", "28801"),
    ("Boulder", "CO", "80302"),
    ("Burlington", "VT", "05401"),
    ("Eugene", "OR", "97401"),
    ("Galveston", "TX", "77550"),
    ("Madison", "WI", "53703"),
    ("Santa Fe", "NM", "87501"),
    ("Savannah", "GA", "31401"),
];
const STATUSES: [&str; 4] = ["CLOSED", "OPEN", "PENDING", "CANCELLED"];
const PHASES: [&str; 3] = ["APPLICATION", "LISTING", "CLOSING"];
const APPLICATION_STATUSES: [&str; 3] = ["PENDING", "APPROVED", "DECLINED"];
const SIDES: [&str; 2] = ["BUYER", "SELLER"];
const CONTACT_TYPES: [&str; 4] = ["BUYER", "SELLER", "ESCROW", "LENDER"];
/// The months in which things happen, so that a deal's dates are in an order that makes sense.
const LISTED: Months = (1, 2);
const OPENED: Months = (3, 4);
const APPLIED: Months = (5, 6);
const QUOTED: Months = (5, 7);
const DECIDED: Months = (8, 9);
const OFFERED: Months = (10, 11);
const ANY: Months = (1, 12);
const SOURCES: [&str; 3] = ["import", "partner", "manual"];

/// A range of months: the first and the last.
type Months = (u64, u64);

/// The id of the generated deal number `index`, from 0.
pub fn id(index: usize) -> String {
    format!("g_{index}")
}

/// The generated deal number `index` of `seed`, as JSON with every field of the specification.
///
/// ```
/// use dealkit_server::generate;
///
/// assert_eq!(generate::deal(17, 1), generate::deal(17, 1));
/// assert_ne!(generate::deal(17, 1), generate::deal(17, 2));
/// ```
pub fn deal(index: usize, seed: u64) -> String {
    let mut deal = DealWriter {
        random: SplitMix64::of(seed, index as u64),
        text: String::with_capacity(4_096),
        index,
    };
    // Writing to a string does not fail.
    let _ = deal.write();
    deal.text
}

struct DealWriter {
    random: SplitMix64,
    text: String,
    index: usize,
}

impl DealWriter {
    fn write(&mut self) -> std::fmt::Result {
        let index = self.index;
        let year = self.random.between(2023, 2026);
        let created = self.timestamp(year, OPENED);
        let expiry = self.date(year + 1, ANY);
        let (status, phase) = (self.random.pick(&STATUSES), self.random.pick(&PHASES));
        write!(
            self.text,
            r#"{{"id":"g_{index}","status":"{status}","phase":"{phase}","expiry_date":"{expiry}","created_at":"{created}","#
        )?;
        let price = self.random.between(120, 2_400) * 1_000;
        let rate = self.random.between(2, 6);
        let gross = price * rate / 100;
        self.listing_contract(price, rate, gross, year)?;
        self.application(gross, year)?;
        let quotes = self.random.between(1, 3);
        self.list("quotes", quotes, |deal, quote| {
            deal.quote(quote, gross, year)
        })?;
        self.text.push(',');
        let contacts = self.random.between(2, 5);
        self.list("contacts", contacts, Self::contact)?;
        self.text.push(',');
        self.sides(gross)?;
        let (source, batch) = (self.random.pick(&SOURCES), self.random.between(1, 99));
        let external = self.random.between(100_000, 999_999);
        write!(
            self.text,
            r#","metadata":{{"source":"{source}","batch":"{batch}"}},"external_id":"crm-{external}"}}"#
        )
    }

    fn listing_contract(
        &mut self,
        price: u64,
        rate: u64,
        gross: u64,
        year: u64,
    ) -> std::fmt::Result {
        let index = self.index;
        let side = self.random.pick(&SIDES);
        let split = self.random.between(40, 60);
        let net = gross * split / 100;
        let (close, created) = (self.date(year + 1, ANY), self.timestamp(year, LISTED));
        let (number, street) = (self.random.between(1, 999), self.random.pick(&STREETS));
        let unit = self.random.between(1, 40);
        let (city, state, zip) = self.random.pick(&CITIES);
        let Person { first, last, email } = self.person();
        write!(
            self.text,
            r#""listing_contract":{{"id":"lc_{index}","side":"{side}","side_split":{split},"sale_price":{price},"net_agent_commission":{net},"gross_agent_commission":{gross},"commission_rate":{rate},"expected_close_date":"{close}","created_at":"{created}","#
        )?;
        write!(
            self.text,
            r#""address":{{"line1":"{number} {street}","line2":"Unit {unit}","city":"{city}","state":"{state}","zip":"{zip}"}},"#
        )?;
        write!(
            self.text,
            r#""agent":{{"id":"ag_{index}","email":"{email}","first_name":"{first}","last_name":"{last}"}}}},"#
        )
    }

    fn application(&mut self, gross: u64, year: u64) -> std::fmt::Result {
        let index = self.index;
        let status = self.random.pick(&APPLICATION_STATUSES);
        let (decisioned, created) = (self.date(year, DECIDED), self.timestamp(year, APPLIED));
        let (amount, cents) = (
            gross * self.random.between(20, 80) / 100,
            self.random.between(0, 99),
        );
        write!(
            self.text,
            r#""application":{{"id":"app_{index}","status":"{status}","decisioned_on":"{decisioned}","created_at":"{created}","deal_id":"g_{index}","requested_amount":{amount}.{cents:02},"#
        )?;
        let offers = self.random.between(1, 3);
        self.list("offers", offers, |deal, offer| {
            let (expiry, created) = (deal.timestamp(year + 1, ANY), deal.timestamp(year, OFFERED));
            let (fee, fee_cents) = (deal.random.between(0, 4), deal.random.between(0, 99));
            let (percent, percent_cents) = (deal.random.between(5, 80), deal.random.between(0, 99));
            write!(
                deal.text,
                r#"{{"id":"of_{index}_{offer}","expiry_date_time":"{expiry}","origination_fee_percent":{fee}.{fee_cents:02},"percent_of_commission":{percent}.{percent_cents:02},"created_at":"{created}"}}"#
            )
        })?;
        self.text.write_str("},")
    }

    fn quote(&mut self, quote: u64, gross: u64, year: u64) -> std::fmt::Result {
        let index = self.index;
        let created = self.timestamp(year, QUOTED);
        let (low, high) = (self.random.between(5, 40), self.random.between(41, 80));
        let (least, most) = (gross * low / 100, gross * high / 100);
        write!(
            self.text,
            r#"{{"id":"q_{index}_{quote}","created_at":"{created}","estimated_percent_min":{low},"estimated_percent_max":{high},"estimated_amount_min":{least},"estimated_amount_max":{most}}}"#
        )
    }

    fn contact(&mut self, contact: u64) -> std::fmt::Result {
        let index = self.index;
        let kind = self.random.pick(&CONTACT_TYPES);
        let Person { first, last, email } = self.person();
        let phone = self.random.between(100, 199);
        let (city, ..) = self.random.pick(&CITIES);
        write!(
            self.text,
            r#"{{"id":"c_{index}_{contact}","contactSchemaId":"cs_1","type":"{kind}","fields":["#
        )?;
        let fields = [
            ("First name", "TEXT", first),
            ("Last name", "TEXT", last),
            ("Email", "EMAIL", &email),
            // Numbers that are reserved for fiction.
            ("Phone", "PHONE", &format!("+15555550{phone}")),
            ("City", "TEXT", city),
        ];
        for (number, (label, kind, value)) in fields.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(
                self.text,
                r#"{comma}{{"id":"cf_{index}_{contact}_{number}","fieldSchemaId":"fs_{number}","label":"{label}","type":"{kind}","value":"{value}"}}"#
            )?;
        }
        self.text.write_str("]}")
    }

    /// One side with everything, or two that share it.
    fn sides(&mut self, gross: u64) -> std::fmt::Result {
        let index = self.index;
        let first = if self.random.between(0, 3) == 0 {
            100
        } else {
            self.random.between(20, 80)
        };
        let count = if first == 100 { 1 } else { 2 };
        self.list("sides", count, |deal, side| {
            let share = if side == 0 { first } else { 100 - first };
            let cents = gross * share;
            let (whole, cents) = (cents / 100, cents % 100);
            write!(
                deal.text,
                r#"{{"contact_id":"c_{index}_{side}","gross_commission":{whole}.{cents:02},"agent_units":{}.{:02},"side_percentage":{share}.00}}"#,
                share / 100,
                share % 100,
            )
        })
    }

    /// A field that is an array of `count` elements.
    fn list(
        &mut self,
        name: &str,
        count: u64,
        mut element: impl FnMut(&mut Self, u64) -> std::fmt::Result,
    ) -> std::fmt::Result {
        write!(self.text, r#""{name}":["#)?;
        for number in 0..count {
            if number > 0 {
                self.text.push(',');
            }
            element(self, number)?;
        }
        self.text.push(']');
        Ok(())
    }

    fn person(&mut self) -> Person {
        let (first, plain_first) = self.random.pick(&FIRST_NAMES);
        let (last, plain_last) = self.random.pick(&LAST_NAMES);
        // A domain that belongs to nobody.
        Person {
            first,
            last,
            email: format!("{plain_first}.{plain_last}@example.com"),
        }
    }

    fn date(&mut self, year: u64, (first, last): Months) -> String {
        // Every month has at least 28 days.
        let (month, day) = (self.random.between(first, last), self.random.between(1, 28));
        format!("{year}-{month:02}-{day:02}")
    }

    fn timestamp(&mut self, year: u64, months: Months) -> String {
        let date = self.date(year, months);
        let (hour, minute) = (self.random.between(0, 23), self.random.between(0, 59));
        let (second, milli) = (self.random.between(0, 59), self.random.between(0, 999));
        format!("{date}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

/// Somebody who does not exist.
struct Person {
    first: &'static str,
    last: &'static str,
    email: String,
}

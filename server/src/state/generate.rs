//! Generated deals: as many as wanted, always the same for the same seed.
//!
//! Every deal begins with a random state of its own, so that `g_17` is the same however many are generated.

use crate::state::split_mix::SplitMix64;

const FIRST_NAMES: &str = "Ada,Grace,Edsger,Barbara,Alan,Zoë,Niklaus,Radia,Donald,Frances,José,Margaret,Dennis,Shafi,Łukasz,Hedy";
const LAST_NAMES: &str = "Archer,Bennett,Castillo,Dubois,Eriksen,Fischer,García,Hughes,Ito,Jensen,Kowalski,Lindqvist,Müller,\
    Nakamura,O'Brien,Petrov";
const STREETS: &str = "Alder Lane,Birch Street,Cedar Avenue,Dogwood Court,Elm Street,Fir Road,Harbor View,Juniper Way";
/// Each with its state and its ZIP code.
const CITIES: &str = "Asheville/NC/28801,Boulder/CO/80302,Burlington/VT/05401,Eugene/OR/97401,Galveston/TX/77550,\
    Madison/WI/53703,Santa Fe/NM/87501,Savannah/GA/31401";
const STATUSES: &str = "CLOSED,OPEN,PENDING,CANCELLED";
const PHASES: &str = "APPLICATION,LISTING,CLOSING";
const APPLICATION_STATUSES: &str = "PENDING,APPROVED,DECLINED";
const SIDES: &str = "BUYER,SELLER";
const CONTACT_TYPES: &str = "BUYER,SELLER,ESCROW,LENDER";
const SOURCES: &str = "import,partner,manual";
/// The months in which things happen, so that a deal's dates are in an order that makes sense.
const LISTED: Months = (1, 2);
const OPENED: Months = (3, 4);
const APPLIED: Months = (5, 6);
const QUOTED: Months = (5, 7);
const DECIDED: Months = (8, 9);
const OFFERED: Months = (10, 11);
const ANY: Months = (1, 12);

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
    let random = SplitMix64::of(seed, index as u64);
    DealWriter { random, index }.deal()
}

/// Writes the parts of a deal, each of which takes the next random numbers.
struct DealWriter {
    random: SplitMix64,
    index: usize,
}

impl DealWriter {
    fn deal(&mut self) -> String {
        let index = self.index;
        let year = self.random.between(2023, 2026);
        let created = self.timestamp(year, OPENED);
        let expiry = self.date(year + 1, ANY);
        let (status, phase) = (self.random.pick(STATUSES), self.random.pick(PHASES));
        let price = self.random.between(120, 2_400) * 1_000;
        let rate = self.random.between(2, 6);
        let gross = price * rate / 100;
        let listing_contract = self.listing_contract(price, rate, gross, year);
        let application = self.application(gross, year);
        let quotes = self.random.between(1, 3);
        let quotes = list(0..quotes, |quote| self.quote(quote, gross, year));
        let contacts = self.random.between(2, 5);
        let contacts = list(0..contacts, |contact| self.contact(contact));
        let sides = self.sides(gross);
        let (source, batch) = (self.random.pick(SOURCES), self.random.between(1, 99));
        let external = self.random.between(100_000, 999_999);
        format!(
            r#"{{"id":"g_{index}","status":"{status}","phase":"{phase}","expiry_date":"{expiry}","created_at":"{created}","listing_contract":{listing_contract},"application":{application},"quotes":{quotes},"contacts":{contacts},"sides":{sides},"metadata":{{"source":"{source}","batch":"{batch}"}},"external_id":"crm-{external}"}}"#
        )
    }

    fn listing_contract(&mut self, price: u64, rate: u64, gross: u64, year: u64) -> String {
        let index = self.index;
        let side = self.random.pick(SIDES);
        let split = self.random.between(40, 60);
        let net = gross * split / 100;
        let (close, created) = (self.date(year + 1, ANY), self.timestamp(year, LISTED));
        let (number, street) = (self.random.between(1, 999), self.random.pick(STREETS));
        let unit = self.random.between(1, 40);
        let (city, state, zip) = self.city();
        let (first, last, email) = self.person();
        format!(
            r#"{{"id":"lc_{index}","side":"{side}","side_split":{split},"sale_price":{price},"net_agent_commission":{net},"gross_agent_commission":{gross},"commission_rate":{rate},"expected_close_date":"{close}","created_at":"{created}","address":{{"line1":"{number} {street}","line2":"Unit {unit}","city":"{city}","state":"{state}","zip":"{zip}"}},"agent":{{"id":"ag_{index}","email":"{email}","first_name":"{first}","last_name":"{last}"}}}}"#
        )
    }

    fn application(&mut self, gross: u64, year: u64) -> String {
        let index = self.index;
        let status = self.random.pick(APPLICATION_STATUSES);
        let (decisioned, created) = (self.date(year, DECIDED), self.timestamp(year, APPLIED));
        let amount = gross * self.random.between(20, 80) / 100;
        let cents = self.random.between(0, 99);
        let offers = self.random.between(1, 3);
        let offers = list(0..offers, |offer| {
            let (expiry, created) = (self.timestamp(year + 1, ANY), self.timestamp(year, OFFERED));
            let (fee, fee_cents) = (self.random.between(0, 4), self.random.between(0, 99));
            let (percent, percent_cents) = (self.random.between(5, 80), self.random.between(0, 99));
            format!(
                r#"{{"id":"of_{index}_{offer}","expiry_date_time":"{expiry}","origination_fee_percent":{fee}.{fee_cents:02},"percent_of_commission":{percent}.{percent_cents:02},"created_at":"{created}"}}"#
            )
        });
        format!(
            r#"{{"id":"app_{index}","status":"{status}","decisioned_on":"{decisioned}","created_at":"{created}","deal_id":"g_{index}","requested_amount":{amount}.{cents:02},"offers":{offers}}}"#
        )
    }

    fn quote(&mut self, quote: u64, gross: u64, year: u64) -> String {
        let index = self.index;
        let created = self.timestamp(year, QUOTED);
        let (low, high) = (self.random.between(5, 40), self.random.between(41, 80));
        let (least, most) = (gross * low / 100, gross * high / 100);
        format!(
            r#"{{"id":"q_{index}_{quote}","created_at":"{created}","estimated_percent_min":{low},"estimated_percent_max":{high},"estimated_amount_min":{least},"estimated_amount_max":{most}}}"#
        )
    }

    fn contact(&mut self, contact: u64) -> String {
        let index = self.index;
        let kind = self.random.pick(CONTACT_TYPES);
        let (first, last, email) = self.person();
        let phone = self.random.between(100, 199);
        let (city, ..) = self.city();
        // Numbers that are reserved for fiction.
        let phone = format!("+15555550{phone}");
        let fields = [
            ("First name", "TEXT", first),
            ("Last name", "TEXT", last),
            ("Email", "EMAIL", &email),
            ("Phone", "PHONE", &phone),
            ("City", "TEXT", city),
        ];
        let fields = list((0..).zip(fields), |(number, (label, kind, value))| {
            format!(
                r#"{{"id":"cf_{index}_{contact}_{number}","fieldSchemaId":"fs_{number}","label":"{label}","type":"{kind}","value":"{value}"}}"#
            )
        });
        format!(
            r#"{{"id":"c_{index}_{contact}","contactSchemaId":"cs_1","type":"{kind}","fields":{fields}}}"#
        )
    }

    /// One side with everything, or two that share it.
    fn sides(&mut self, gross: u64) -> String {
        let index = self.index;
        let first = match self.random.between(0, 3) {
            0 => 100,
            _ => self.random.between(20, 80),
        };
        list(0..if first == 100 { 1 } else { 2 }, |side| {
            let share = if side == 0 { first } else { 100 - first };
            let cents = gross * share;
            let (whole, cents) = (cents / 100, cents % 100);
            let (units, hundredths) = (share / 100, share % 100);
            format!(
                r#"{{"contact_id":"c_{index}_{side}","gross_commission":{whole}.{cents:02},"agent_units":{units}.{hundredths:02},"side_percentage":{share}.00}}"#
            )
        })
    }

    /// Somebody who does not exist: two names, and an address at a domain that belongs to nobody.
    fn person(&mut self) -> (&'static str, &'static str, String) {
        let (first, last) = (self.random.pick(FIRST_NAMES), self.random.pick(LAST_NAMES));
        let email = format!("{first}.{last}@example.com").to_lowercase();
        let plain = [
            ("ë", "e"),
            ("é", "e"),
            ("ł", "l"),
            ("í", "i"),
            ("ü", "ue"),
            ("'", ""),
        ];
        let email = plain
            .iter()
            .fold(email, |email, (from, to)| email.replace(from, to));
        (first, last, email)
    }

    fn city(&mut self) -> (&'static str, &'static str, &'static str) {
        let (city, rest) = self.random.pick(CITIES).split_once('/').unwrap_or_default();
        let (state, zip) = rest.split_once('/').unwrap_or_default();
        (city, state, zip)
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

/// An array of an element for each of these.
fn list<T>(of: impl IntoIterator<Item = T>, element: impl FnMut(T) -> String) -> String {
    let elements: Vec<_> = of.into_iter().map(element).collect();
    format!("[{}]", elements.join(","))
}

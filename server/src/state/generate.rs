//! Generator of deals: the same seed gives the same deals.
//!
//! A generated deal is a copy of the first sample with different identifiers, people, days and amounts. It therefore has every
//! field of the specification. The random generator restarts for each deal: `g_17` does not depend on the number of
//! generated deals.

use std::sync::LazyLock;

use dealkit::{
    Deal, Decimal,
    chrono::{Days, TimeDelta},
};

use crate::state::split_mix::SplitMix64;

/// The default deals, as a JSON array.
pub(super) const SAMPLES: &str = include_str!("samples.json");

const STATUSES: &[&str] = &["CLOSED", "OPEN", "PENDING", "CANCELLED"];
const PHASES: &[&str] = &["APPLICATION", "LISTING", "CLOSING"];
const FIRST_NAMES: &[&str] = &["Ada", "Grace", "Edsger", "Barbara", "Alan", "Radia"];
const LAST_NAMES: &[&str] = &["Archer", "Bennett", "Castillo", "Dubois", "Hughes", "Ito"];
/// Prefixes of the identifiers that must differ between deals.
const UNIQUE_ID_PREFIXES: [&str; 8] = [
    "\"lc_", "\"ag_", "\"app_", "\"of_", "\"q_", "\"c_", "\"cf_", "\"crm-",
];

/// Returns the id of the generated deal at this index, from 0.
pub fn id(index: usize) -> String {
    format!("g_{index}")
}

/// Generates the deal at this index, as JSON with every field of the specification.
///
/// ```
/// use dealkit_server::generate;
///
/// assert_eq!(generate::deal(17, 1), generate::deal(17, 1));
/// assert_ne!(generate::deal(17, 1), generate::deal(17, 2));
/// ```
pub fn deal(index: usize, seed: u64) -> String {
    static SAMPLE: LazyLock<Option<Deal>> = LazyLock::new(|| {
        let samples: Vec<Deal> = serde_json::from_str(SAMPLES).ok()?;
        samples.into_iter().next()
    });
    let Some(mut deal) = SAMPLE.clone() else {
        // Unreachable: tests parse the samples.
        return String::new();
    };
    let mut random = SplitMix64::for_index(seed, index as u64);
    let days = random.between(0, 1_000);
    let age = TimeDelta::milliseconds(random.between(0, 86_400_000 * days.max(1)) as i64);
    let price = random.between(120, 2_400) as i64 * 1_000;
    deal.id = id(index).into();
    deal.status = Some(random.pick(STATUSES).into());
    deal.phase = Some(random.pick(PHASES).into());
    deal.expiry_date = deal.expiry_date.map(|day| day + Days::new(days));
    deal.created_at = deal.created_at.map(|at| at - age);
    if let Some(listing) = &mut deal.listing_contract {
        listing.sale_price = Some(price);
        listing.gross_agent_commission = Some(price * 3 / 100);
        listing.net_agent_commission = Some(price * 3 / 200);
        listing.created_at = listing.created_at.map(|at| at - age);
        if let Some(agent) = &mut listing.agent {
            let (first, last) = (random.pick(FIRST_NAMES), random.pick(LAST_NAMES));
            agent.email = Some(format!("{first}.{last}@example.com").to_lowercase());
            agent.first_name = Some(first.into());
            agent.last_name = Some(last.into());
        }
    }
    if let Some(application) = &mut deal.application {
        application.deal_id = Some(deal.id.clone());
        application.requested_amount = Some(random_amount(&mut random, 100_000, 3_000_000));
        application.offers.truncate(random.between(1, 2) as usize);
        for offer in &mut application.offers {
            offer.percent_of_commission = Some(random_amount(&mut random, 500, 8_099));
        }
    }
    deal.quotes.truncate(random.between(1, 2) as usize);
    // Serialization cannot fail: a deal contains only strings, numbers and dates.
    let text = serde_json::to_string(&deal).unwrap_or_default();
    UNIQUE_ID_PREFIXES.iter().fold(text, |text, prefix| {
        text.replace(prefix, &format!("{prefix}{index}_"))
    })
}

/// Returns a random amount with two decimal places; the bounds are in hundredths.
fn random_amount(random: &mut SplitMix64, least: u64, most: u64) -> Decimal {
    Decimal::new(random.between(least, most) as i64, 2)
}

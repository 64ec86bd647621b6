//! What "Retrieve a deal" returns.

use super::Deal;
use crate::value::DealId;

/// ```
/// use dealkit::{Deal, DealStatus};
///
/// let deal = Deal::from_json(r#"{"id": "d_1", "status": "CLOSED", "sides": [{"side_percentage": 10.10}]}"#)?;
/// assert_eq!(deal.status, Some(DealStatus::Closed));
/// assert_eq!(deal.sides[0].side_percentage.unwrap().to_string(), "10.10");
/// assert!(deal.quotes.is_empty());
/// # Ok::<(), dealkit::DecodeError>(())
/// ```
impl Deal {
    /// A deal with its identifier; the other fields are public and start empty.
    ///
    /// ```
    /// use dealkit::{Deal, DealStatus};
    ///
    /// let mut deal = Deal::new("d_1");
    /// deal.status = Some(DealStatus::Closed);
    /// ```
    pub fn new(id: impl Into<DealId>) -> Self {
        Self::with_required(id.into())
    }
}

/// Describes a deal's status to the user of a program.
fn describe_status(status: Option<DealStatus>) -> String {
    match status {
        Some(DealStatus::Closed) => "closed".to_owned(),
        // Undocumented today: the comparison stays true after a later version of dealkit adds a variant.
        Some(status) if status == "SETTLED" => "settled".to_owned(),
        Some(status) => format!("{status} (unknown to this program)"),
        None => "unknown".to_owned(),
    }
}

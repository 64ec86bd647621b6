/// What a program shows of a deal's status.
fn shown(status: Option<DealStatus>) -> String {
    match status {
        Some(DealStatus::Closed) => "closed".to_owned(),
        // Undocumented: holds before and after a version of dealkit has a variant for it.
        Some(status) if status == "SETTLED" => "settled".to_owned(),
        Some(status) => format!("{status}, whatever that is"),
        None => "unknown".to_owned(),
    }
}

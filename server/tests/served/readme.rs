//! README.md lists exactly the flags, fault fields, variants and paths of the server.

use std::collections::BTreeSet;

use crate::support::{process::command, send};
use dealkit_server::{Fault, Sandbox, Variant};

const README: &str = include_str!("../../README.md");

/// Returns the code in the first column of a table in this section.
fn first_column(section: &str) -> BTreeSet<String> {
    let (_, rest) = README.split_once(&format!("\n## {section}\n")).unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.map(|row| row.split('`').next().unwrap().to_owned());
    cells.collect()
}

fn set<T: Into<String>>(items: impl IntoIterator<Item = T>) -> BTreeSet<String> {
    items.into_iter().map(Into::into).collect()
}

#[test]
fn readme_lists_every_flag() {
    let help = command(&["--help"]).output().unwrap().stdout;
    let help = String::from_utf8(help).unwrap();
    let flags = help.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line
            .strip_prefix("-h, ")
            .or(line.strip_prefix("-V, "))
            .unwrap_or(line);
        line.starts_with("--").then_some(line.trim_end())
    });
    let mut flags = set(flags);
    assert!(
        flags.remove("--help") && flags.remove("--version"),
        "{flags:?}"
    );
    // The table describes these flags in words.
    assert_eq!(
        first_column("Flags"),
        flags
            .iter()
            .map(|flag| flag.replace(['<', '>'], ""))
            .collect()
    );
    for flag in flags {
        let name = flag.trim_start_matches("--").split(' ').next().unwrap();
        let variable = format!("DEALKIT_SERVER_{}", name.to_uppercase().replace('-', "_"));
        assert!(help.contains(&variable), "{variable}");
    }
}

#[test]
fn readme_lists_every_variant() {
    assert_eq!(
        first_column("Other variants"),
        set(Variant::all().iter().map(|variant| variant.name()))
    );
}

#[test]
fn readme_lists_every_field_of_a_fault() {
    let error = Fault::from_json(r#"{"unknown": 1}"#)
        .unwrap_err()
        .to_string();
    let (_, fields) = error.split_once("expected one of ").unwrap();
    assert_eq!(first_column("Faults on demand"), set(fields.split(", ")));
}

#[test]
fn readme_lists_every_path_of_the_interface() {
    let sandbox = Sandbox::builder().start().unwrap();
    let unknown = send(
        &sandbox,
        b"GET /__sandbox/ HTTP/1.1\r\nhost: localhost\r\n\r\n",
    );
    let detail = unknown.json()["detail"].as_str().unwrap().to_owned();
    let routes = detail
        .strip_prefix("This server has ")
        .unwrap()
        .trim_end_matches(". Check the base URL and the path.")
        .replace(" and ", ", ");
    assert_eq!(
        first_column("Inspect and control the sandbox"),
        set(routes.split(", "))
    );
}

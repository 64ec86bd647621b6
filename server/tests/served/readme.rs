//! README.md against the server: it lists every flag, fault, reading and path of the interface, and nothing else.

use std::collections::BTreeSet;

use crate::support::{process::command, send};
use dealkit_server::{Fault, Reading, Sandbox};

const README: &str = include_str!("../../README.md");

/// The first cells of the table in a section: the parts in backticks.
fn table(section: &str) -> BTreeSet<String> {
    let (_, rest) = README.split_once(&format!("\n## {section}\n")).unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.map(|row| row.split('`').next().unwrap().to_owned());
    cells.collect()
}

fn set<T: Into<String>>(of: impl IntoIterator<Item = T>) -> BTreeSet<String> {
    of.into_iter().map(Into::into).collect()
}

#[test]
fn every_flag_is_there() {
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
    // The table has them in words, as clap writes them in the help.
    assert_eq!(
        table("Flags"),
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
fn every_reading_is_there() {
    assert_eq!(
        table("Other readings"),
        set(Reading::all().iter().map(|reading| reading.name()))
    );
}

#[test]
fn every_field_of_a_fault_is_there() {
    let error = Fault::from_json(r#"{"unknown": 1}"#)
        .unwrap_err()
        .to_string();
    let (_, fields) = error.split_once("expected ").unwrap();
    assert_eq!(
        table("Faults on demand"),
        set(fields.split('`').skip(1).step_by(2))
    );
}

#[test]
fn every_path_of_the_interface_is_there() {
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
        table("Inspect and control the sandbox"),
        set(routes.split(", "))
    );
}

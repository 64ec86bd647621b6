//! Comparison of contenders: in each of many rounds, every contender has one turn, and the ratios are calculated within the round.
//!
//! A busy machine slows down a whole round, which does not change its ratios.

use std::{
    env, fs,
    path::PathBuf,
    process::{self, Command, Stdio},
    time::{Duration, Instant},
};

use clap::Parser;
use serde_json::{Value, json};

/// One turn of a contender. Returns the time of one unit of its work.
pub type Turn<'t> = Box<dyn FnMut() -> Duration + 't>;

/// The arguments of every benchmark.
#[derive(Debug, Parser)]
pub struct Arguments {
    /// Rounds of each table
    #[arg(long, default_value_t = 31)]
    pub rounds: usize,

    /// The time after which a table gets no more rounds, in seconds; every table has at least one round
    #[arg(long, default_value_t = 60.0)]
    pub seconds: f64,

    /// Measure only the tables whose names start with this
    #[arg(long, value_name = "NAME", default_value = "")]
    pub only: String,

    /// The file to which to write the results, in JSON
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,

    /// Run only this contender of the first table, twice, without measuring: for a profiler
    #[arg(long, value_name = "CONTENDER")]
    pub run: Option<String>,
}

/// The description of a table.
#[derive(Debug, Clone)]
pub struct Table {
    /// The name that identifies it in every run.
    pub name: String,
    /// The title, for readers.
    pub title: String,
    /// The unit of a value, such as `µs CPU`.
    pub unit: &'static str,
    /// The position of the table on a curve: the curve's name, the name of the variable, and its value.
    pub point: Option<(&'static str, &'static str, usize)>,
}

impl Table {
    /// Makes a table that is not a point of a curve.
    pub fn new(name: &str, title: impl Into<String>, unit: &'static str) -> Self {
        Self {
            name: name.to_owned(),
            title: title.into(),
            unit,
            point: None,
        }
    }

    /// Makes a table that is a point of a curve.
    pub fn at(curve: &'static str, along: &'static str, value: usize, unit: &'static str) -> Self {
        Self {
            name: format!("{curve}: {value}"),
            title: format!("{curve}: {value} {along}"),
            unit,
            point: Some((curve, along, value)),
        }
    }
}

/// The tables of one program. Each table is written as soon as it is measured.
#[derive(Debug)]
pub struct Bench {
    arguments: Arguments,
    tables: Vec<Value>,
}

impl Bench {
    /// Makes a benchmark without tables.
    pub fn new(arguments: Arguments) -> Self {
        Self {
            arguments,
            tables: Vec::new(),
        }
    }

    /// Returns whether this run measures the table.
    pub fn wants(&self, table: &Table) -> bool {
        table.name.starts_with(&self.arguments.only)
    }

    /// Measures and prints one table. The first contender is dealkit: each ratio is its time divided by another contender's.
    pub fn compare(&mut self, table: Table, contenders: Vec<(&str, Turn<'_>)>) {
        self.compare_in(self.arguments.rounds, table, contenders);
    }

    /// Measures and prints one table in `rounds` rounds.
    pub fn compare_in(
        &mut self,
        rounds: usize,
        table: Table,
        mut contenders: Vec<(&str, Turn<'_>)>,
    ) {
        if !self.wants(&table) {
            return;
        }
        if let Some(only) = &self.arguments.run {
            let (_, turn) = contenders
                .iter_mut()
                .find(|(name, _)| name == only)
                .unwrap_or_else(|| panic!("{}: no contender is called {only}", table.name));
            turn(); // Warm up.
            count_instructions();
            turn();
            process::exit(0);
        }
        for (_, turn) in &mut contenders {
            turn(); // Warm up.
        }
        let mut times = vec![Vec::with_capacity(rounds); contenders.len()];
        let began = Instant::now();
        for round in 0..rounds.min(self.arguments.rounds) {
            if round > 0 && began.elapsed().as_secs_f64() > self.arguments.seconds {
                break;
            }
            for ((_, turn), times) in contenders.iter_mut().zip(&mut times) {
                times.push(turn().as_secs_f64() * 1e6);
            }
        }
        let names: Vec<_> = contenders.iter().map(|(name, _)| *name).collect();
        self.add(&table, &names, &times);
    }

    /// Adds and prints a table of given values. The first row is dealkit's.
    pub fn add(&mut self, table: &Table, names: &[&str], values: &[Vec<f64>]) {
        print(table, names, values);
        let rows: Vec<_> = names
            .iter()
            .zip(values)
            .map(|(name, values)| json!({"name": name, "values": values}))
            .collect();
        let point = table
            .point
            .map(|(curve, along, value)| json!({"curve": curve, "along": along, "value": value}));
        self.tables.push(json!({
            "name": table.name, "title": table.title, "unit": table.unit, "point": point, "rows": rows,
        }));
        if let Some(path) = &self.arguments.results {
            let document = serde_json::to_string(&self.tables).unwrap();
            fs::write(path, document).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }

    /// Checks that at least one table was measured.
    pub fn finish(self) {
        assert!(
            !self.tables.is_empty(),
            "no table is called {}",
            self.arguments.only
        );
    }
}

/// Starts the counting of instructions, if callgrind runs this program with `--instr-atstart=no`.
fn count_instructions() {
    if env::var("LD_PRELOAD").is_ok_and(|loaded| loaded.contains("valgrind")) {
        let mut control = Command::new("callgrind_control");
        control.args(["--instr=on", &process::id().to_string()]);
        assert!(control.stdout(Stdio::null()).status().unwrap().success());
    }
}

fn print(table: &Table, names: &[&str], values: &[Vec<f64>]) {
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let unit = table.unit;
    println!("\n{}  ({} rounds)\n", table.title, values[0].len());
    println!("| {:width$} | {unit:>13} | ratio | quartiles     |", "");
    println!(
        "|{:-<1$}|--------------:|------:|---------------|",
        "",
        width + 2
    );
    for (name, of_one) in names.iter().zip(values) {
        let ratios = values[0].iter().zip(of_one).map(|(ours, its)| ours / its);
        let ratios = sorted(ratios);
        println!(
            "| {name:width$} | {:13.2} | {:5.2} | {:5.2} - {:5.2} |",
            quartile(&sorted(of_one.iter().copied()), 2),
            quartile(&ratios, 2),
            quartile(&ratios, 1),
            quartile(&ratios, 3)
        );
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Returns a quartile; the second is the median.
fn quartile(sorted: &[f64], which: usize) -> f64 {
    sorted[(sorted.len() - 1) * which / 4]
}

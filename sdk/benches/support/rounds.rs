//! Measuring beside others: everybody takes turns, many times over, and the ratio is taken turn by turn.
//!
//! A busy machine makes all of a turn slower; the ratios within it stay.

use std::time::Duration;

/// One turn: what a call of it took.
pub(crate) type Turn<'t> = Box<dyn FnMut() -> Duration + 't>;

/// Runs and prints one table. The first contender is the one that the others are compared with.
pub(crate) fn compare(title: &str, rounds: usize, mut contenders: Vec<(&str, Turn<'_>)>) {
    for (_, turn) in &mut contenders {
        turn(); // Warm up.
    }
    let mut times = vec![Vec::new(); contenders.len()];
    for _ in 0..rounds {
        for ((_, turn), times) in contenders.iter_mut().zip(&mut times) {
            times.push(turn());
        }
    }
    let width = contenders
        .iter()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or(0);
    println!("\n{title}  ({rounds} rounds)\n");
    println!("| {:width$} |  µs a call | ratio | quartiles     |", "");
    println!(
        "|{:-<1$}|-----------:|------:|---------------|",
        "",
        width + 2
    );
    for ((name, _), of_one) in contenders.iter().zip(&times) {
        let ratios = of_one.iter().zip(&times[0]);
        let ratios = sorted(ratios.map(|(time, first)| time.as_secs_f64() / first.as_secs_f64()));
        let micros = sorted(of_one.iter().map(|time| time.as_secs_f64() * 1e6));
        println!(
            "| {name:width$} | {:10.1} | {:5.2} | {:5.2} - {:5.2} |",
            at(&micros, 2),
            at(&ratios, 2),
            at(&ratios, 1),
            at(&ratios, 3)
        );
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// A quartile; the second is the median.
fn at(sorted: &[f64], quartile: usize) -> f64 {
    sorted[(sorted.len() - 1) * quartile / 4]
}

//! Writes the contract's vectors as corpora for cargo-fuzz, and a dictionary for each target:
//! `corpus DIRECTORY`.

use std::{fs, path::PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args_os().nth(1).ok_or("name a directory")?;
    let directory = PathBuf::from(directory);
    for (target, _) in dealkit_fuzz::TARGETS {
        let corpus = directory.join(target);
        fs::create_dir_all(&corpus)?;
        for (name, input) in dealkit_fuzz::corpus::inputs(target) {
            fs::write(corpus.join(name), input)?;
        }
        let dictionary: String = dealkit_fuzz::corpus::tokens(target)
            .iter()
            .map(|token| {
                let bytes = token.bytes().map(|byte| format!("\\x{byte:02x}"));
                format!("\"{}\"\n", bytes.collect::<String>())
            })
            .collect();
        fs::write(directory.join(format!("{target}.dict")), dictionary)?;
    }
    Ok(())
}

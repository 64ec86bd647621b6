//! Generates a module for each Rust program on the documentation pages, for the test `pages`. Completes partial programs with a
//! `main` and, if they use one, a client. A program with a test runs that test.

use std::{env, error::Error, fmt::Write as _, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("..");
    let mut pages = vec![root.join("README.md")];
    for folder in ["docs/guide", "docs/reference"] {
        println!("cargo::rerun-if-changed=../{folder}");
        for page in fs::read_dir(root.join(folder))? {
            pages.push(page?.path());
        }
    }
    println!("cargo::rerun-if-changed=../README.md");
    let (mut modules, mut list) = (String::new(), String::new());
    for page in pages {
        let name = page.file_name().unwrap_or_default().display().to_string();
        let Some(page_name) = name.strip_suffix(".md") else {
            continue;
        };
        let text = fs::read_to_string(&page)?;
        // Every second part is a code block, which starts with its language.
        let parts: Vec<&str> = text.split("\n```").collect();
        for (at, block) in parts.iter().enumerate().skip(1).step_by(2) {
            let Some(program) = block.strip_prefix("rust\n") else {
                continue;
            };
            let introduction = parts.get(at - 1).copied().unwrap_or_default();
            let paragraph = introduction.trim_end().rsplit("\n\n").next();
            if paragraph.is_some_and(|text| text.contains("`src/main.rs`"))
                && !program.contains("fn main() ")
            {
                let name = page.display();
                return Err(
                    format!("{name}: main.rs without main: {program}").into()
                );
            }
            let shows = match parts.get(at + 1..at + 3) {
                Some([between, output]) if between.trim().is_empty() => {
                    output.strip_prefix("text\n")
                }
                _ => None,
            };
            let module =
                format!("{}_{at}", page_name.to_lowercase().replace('-', "_"));
            writeln!(
                modules,
                "pub mod {module} {{\n{}\n}}",
                complete_program(program)
            )?;
            let generated = text.contains("--generate 100 --seed 7");
            let shows = shows.unwrap_or_default();
            writeln!(
                list,
                "({module:?}, {generated}, {shows:?}, programs::{module}::run),"
            )?;
        }
    }
    let out = Path::new(&env::var("OUT_DIR")?).join("pages.rs");
    fs::write(
        out,
        format!(
            "#[allow(warnings, clippy::all)]\nmod programs {{\n{modules}}}\nconst PROGRAMS: &[Program] = &[\n{list}];\n"
        ),
    )?;
    Ok(())
}

fn complete_program(part: &str) -> String {
    let run = "pub fn run() -> Result<(), Box<dyn std::error::Error>> { Ok(main()?) }";
    if part.contains("fn main() ") {
        return format!("{part}\n{run}");
    }
    if let Some((_, test)) = part.split_once("#[tokio::test]\n    async fn ") {
        let name = test.split('(').next().unwrap_or_default();
        let program = part.replace("#[cfg(test)]\n", "").replace(
            "#[tokio::test]\n    async",
            "#[tokio::main]\n    pub async",
        );
        return format!(
            "{program}\n{}",
            run.replace("main", &format!("tests::{name}"))
        );
    }
    let client =
        match part.contains("client.") && !part.contains("let client = ") {
            true => "let client = dealkit::Client::from_env()?;",
            false => "",
        };
    format!(
        "#[tokio::main(flavor = \"current_thread\")]\nasync fn main() -> Result<(), Box<dyn std::error::Error>> {{\n\
        {client}\n{part}\nOk(())\n}}\n{run}"
    )
}

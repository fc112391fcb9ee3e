//! `gatepost completions` and `gatepost man`: the command line, described for shells and `man`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;
use serde_json::json;

use super::global_args::GlobalArgs;
use super::{Failure, description, print_json, print_octets, say};

#[derive(Args, Debug)]
pub(super) struct Completions {
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut description(), "gatepost", &mut text);
        print_octets(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Args, Debug)]
pub(super) struct Man {
    /// The folder for the pages, such as /usr/local/share/man/man1; created if missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Man {
    pub(super) fn run(self, global: &GlobalArgs) -> Result<ExitCode, Failure> {
        let failure = |error| format!("cannot write to {}: {error}", self.folder.display());
        std::fs::create_dir_all(&self.folder).map_err(failure)?;
        let mut root = description();
        root.build();
        let mut pages = Vec::new();
        collect(&root, &mut pages);
        for page in &pages {
            let name = page.get_filename();
            let mut text = Vec::new();
            page.render(&mut text).map_err(failure)?;
            std::fs::write(self.folder.join(name), text).map_err(failure)?;
        }
        let (folder, count) = (self.folder.display(), pages.len());
        if global.json {
            print_json(&json!({ "folder": folder.to_string(), "pages": count }))?;
        } else {
            say!("{count} pages are in {folder}: man {folder}/gatepost.1")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Collects the pages of a command and its subcommands.
fn collect(command: &Command, pages: &mut Vec<clap_mangen::Man>) {
    pages.push(clap_mangen::Man::new(command.clone()));
    let below = command.get_subcommands().filter(|one| one.get_name() != "help");
    below.for_each(|one| collect(one, pages));
}

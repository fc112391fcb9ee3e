//! Builds the program anew when a file of a folder that it holds is added or removed: `include_dir!`
//! alone does not see it.

fn main() {
    for folder in ["fixtures/mail", "fixtures/webhook", "migrations/postgres", "migrations/sqlite"]
    {
        println!("cargo::rerun-if-changed={folder}");
    }
}

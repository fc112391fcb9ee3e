//! Builds the program anew when a fixture that it holds is added or removed: `include_dir!` alone does not
//! see it.

fn main() {
    for folder in ["fixtures/mail", "fixtures/webhook"] {
        println!("cargo::rerun-if-changed={folder}");
    }
}

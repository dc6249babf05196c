//! Links the program of debug builds at a fixed address: the tests start it ten thousand times, and
//! half of a start is relocating it (benches/README.md, "The gate").

#![expect(clippy::disallowed_methods, reason = "Cargo answers build scripts in the environment")]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name, value| std::env::var(name).is_ok_and(|actual| actual == value);
    if is("PROFILE", "debug")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
    {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}

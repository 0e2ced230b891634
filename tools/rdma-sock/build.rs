// SPDX-License-Identifier: GPL-2.0

//! Compiles the BPF program with clang and leaves the object where the crate includes it.

use std::{
    env,
    path::PathBuf,
    process::Command, //
};

const SOURCE: &str = "bpf/accel.bpf.c";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={SOURCE}");
    println!("cargo:rerun-if-env-changed=CLANG");

    let variable = |name: &str| env::var(name).unwrap_or_else(|e| panic!("{name}: {e}"));
    let object = PathBuf::from(variable("OUT_DIR")).join("accel.bpf.o");
    // Where the multiarch C libraries keep <asm/types.h>; harmless where there is no such folder.
    let include = format!(
        "/usr/include/{}-linux-gnu",
        variable("CARGO_CFG_TARGET_ARCH")
    );
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".into());

    run(Command::new(clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-std=gnu11"])
        .args(["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"])
        .args(["-idirafter", &include, "-c", SOURCE, "-o"])
        .arg(&object));
    // The type information stays, the debugging sections are of no use to the loader.
    run(Command::new("llvm-strip").arg("-g").arg(&object));
}

fn run(command: &mut Command) {
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{command:?} failed: {status}"),
        Err(error) => panic!("cannot run {command:?}: {error} (Debian packages: clang, llvm)"),
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The build of `rdma_soft` for kernels that it does not work on.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests may panic"
)]

use std::{
    env,
    fs,
    path::Path,
    process::Command, //
};

/// What the compiler says about a kernel that does not suffice.
const MESSAGE: &str =
    "rdma_soft needs a kernel of 64 bits, little endian, without HIGHMEM and PREEMPT_RT";

/// Compiles the requirements as the module does, for a kernel with a symbol of its configuration. Returns
/// whether that succeeds, and what the compiler says.
fn build(name: &str, symbol: Option<&str>) -> (bool, String) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rust/rnic/requirements.rs");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let main = folder.join(format!("requirements_{name}.rs"));
    let text = format!(
        "#![no_std]\n#[path = {file:?}]\nmod requirements;\nconst _: () = requirements::check();\n"
    );
    fs::write(&main, text).unwrap();
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command
        .args([
            "--edition=2021",
            "--crate-type=rlib",
            "--emit=metadata",
            "-o",
        ])
        .arg(folder.join(format!("librequirements_{name}.rmeta")))
        .arg(&main);
    if let Some(symbol) = symbol {
        command.arg(format!("--cfg={symbol}"));
    }
    let done = command.output().expect("the compiler runs");
    (
        done.status.success(),
        String::from_utf8_lossy(&done.stderr).into_owned(),
    )
}

/// RNIC-GEN-01.
#[test]
fn build_for_a_kernel_that_does_not_suffice_fails() {
    for symbol in ["CONFIG_PREEMPT_RT", "CONFIG_HIGHMEM"] {
        let (built, said) = build(symbol, Some(symbol));
        assert!(!built, "{symbol}: {said}");
        assert!(said.contains(MESSAGE), "{symbol}: {said}");
    }
}

/// RNIC-GEN-01.
#[test]
fn build_for_a_kernel_that_suffices_succeeds() {
    for symbol in [None, Some("CONFIG_PREEMPT")] {
        let (built, said) = build("plain", symbol);
        assert!(built, "{said}");
    }
}

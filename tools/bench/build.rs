// SPDX-License-Identifier: GPL-2.0

//! Has bindgen describe the structures and functions of libibverbs that the crate uses.

use std::{
    env,
    path::PathBuf,
    process::Command, //
};

const HEADER: &str = "/usr/include/infiniband/verbs.h";

/// Functions that are in the library. Those that are inline in the header go through the operations
/// of a context, and are written by hand in `verbs/ffi.rs`.
const FUNCTIONS: &str = "ibv_(get_device_list|free_device_list|get_device_name|open_device|\
    close_device|alloc_pd|dealloc_pd|reg_mr|dereg_mr|create_comp_channel|destroy_comp_channel|\
    create_cq|destroy_cq|get_cq_event|ack_cq_events|create_qp|destroy_qp|modify_qp|query_gid|\
    query_port)";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let out = env::var("OUT_DIR").unwrap_or_else(|e| panic!("OUT_DIR: {e}"));
    let file = PathBuf::from(out).join("verbs.rs");
    let mut command = Command::new("bindgen");
    command
        .args(["--no-layout-tests", "--default-enum-style", "consts"])
        .args(["--no-prepend-enum-name", "--no-doc-comments"])
        .args(["--allowlist-function", FUNCTIONS])
        .args([
            "--allowlist-type",
            "ibv_(send_wr|recv_wr|sge|wc|qp_attr|gid|port_attr)",
        ])
        .args([
            "--allowlist-type",
            "ibv_(access_flags|qp_attr_mask|wc_status|send_flags)",
        ])
        .arg("--output")
        .arg(&file)
        .arg(HEADER);
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{command:?} failed: {status}"),
        Err(error) => panic!(
            "cannot run {command:?}: {error} (Debian packages: bindgen, libclang-dev, libibverbs-dev)"
        ),
    }
    println!("cargo:rustc-link-lib=ibverbs");
}

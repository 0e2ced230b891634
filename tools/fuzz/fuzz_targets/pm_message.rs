// SPDX-License-Identifier: GPL-2.0

//! See `rdma_sock_host::fuzz::pm_message`.

#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| rdma_sock_host::fuzz::pm_message(octets));

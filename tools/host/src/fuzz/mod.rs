// SPDX-License-Identifier: GPL-2.0

//! Entry points for fuzzing, see `tools/fuzz`. Each takes any octets and panics where a promise of
//! the core does not hold.

mod cdc_conn;
mod clc_handshake;
mod conn_pair;
mod input;
mod llc_group;
mod llc_pair;
mod messages;
#[cfg(test)]
mod replay;
mod roce_packet;
mod roce_qp;
mod sdp_conn;
mod sdp_messages;
mod sdp_pair;

pub use self::{
    cdc_conn::cdc_conn,
    clc_handshake::clc_handshake,
    conn_pair::conn_pair,
    llc_group::llc_group,
    llc_pair::llc_pair,
    messages::{
        cdc_message,
        clc_message,
        llc_message,
        tcp_option, //
    },
    roce_packet::roce_packet,
    roce_qp::roce_qp,
    sdp_conn::sdp_conn,
    sdp_messages::{
        pm_message,
        sdp_hello,
        sdp_message, //
    },
    sdp_pair::sdp_pair,
};

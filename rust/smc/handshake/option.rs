// SPDX-License-Identifier: GPL-2.0

//! The policy behind the TCP option hooks: the decisions are in `proto::tcpopt`.
//!
//! Source: RFC 7609 section 3.1, appendix A.1 (`SMCR-TCP-01..23`).

use crate::{
    kapi::net::option::{
        Answer,
        OptionPolicy,
        Verdict, //
    },
    proto::{
        smc::tcpopt::{
            self,
            Nonce, //
        },
        stream::reason::{
            Local,
            Reason, //
        },
    },
};

/// The policy of SMC-R.
pub(crate) struct SmcPolicy;

fn translate(verdict: tcpopt::Verdict) -> Verdict {
    let Some(octets) = verdict.octets() else {
        return Verdict::Leave;
    };
    let octets = octets.as_slice();
    let mut bytes = [0; 16];
    match bytes.get_mut(..octets.len()) {
        Some(place) => {
            place.copy_from_slice(octets);
            Verdict::Add {
                bytes,
                len: octets.len(),
            }
        }
        None => Verdict::Leave,
    }
}

impl OptionPolicy for SmcPolicy {
    fn syn_out(nonce: u32, options: &[u8]) -> Verdict {
        translate(tcpopt::decide_syn_out(options, Nonce::new(nonce)))
    }

    fn synack_out(syn_options: &[u8], options: &[u8]) -> Verdict {
        translate(tcpopt::decide_synack_out(syn_options, options))
    }

    fn synack_in(nonce: u32, options: &[u8]) -> Answer {
        match tcpopt::judge_synack(options, Nonce::new(nonce)) {
            Ok(()) => Answer::Agreed,
            Err(Reason::Local(Local::OptionEchoed)) => Answer::Echo,
            Err(_) => Answer::Silent,
        }
    }

    fn syn_agrees(syn_options: &[u8]) -> bool {
        tcpopt::syn_allows_smc(syn_options)
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The policy behind the TCP option hooks: the decisions are in `proto::tcpopt`.
//!
//! Source: RFC 7609 section 3.1, appendix A.1 (`SMCR-TCP-01..23`).

use crate::{
    kapi::net::option::{
        HookVerdict,
        OptionPolicy,
        SynAckAnswer, //
    },
    proto::{
        smc::tcpopt::{
            self,
            Nonce, //
        },
        stream::reason::{
            LocalReason,
            Reason, //
        },
    },
};

/// The policy of SMC-R.
pub(crate) struct SmcPolicy;

fn translate(verdict: tcpopt::OptionVerdict) -> HookVerdict {
    let Some(octets) = verdict.octets() else {
        return HookVerdict::Leave;
    };
    let octets = octets.as_slice();
    let mut bytes = [0; 16];
    match bytes.get_mut(..octets.len()) {
        Some(place) => {
            place.copy_from_slice(octets);
            HookVerdict::Add {
                bytes,
                len: octets.len(),
            }
        }
        None => HookVerdict::Leave,
    }
}

impl OptionPolicy for SmcPolicy {
    fn syn_out(nonce: u32, options: &[u8]) -> HookVerdict {
        translate(tcpopt::decide_syn_out(options, Nonce::new(nonce)))
    }

    fn synack_out(syn_options: &[u8], options: &[u8]) -> HookVerdict {
        translate(tcpopt::decide_synack_out(syn_options, options))
    }

    fn synack_in(nonce: u32, options: &[u8]) -> SynAckAnswer {
        match tcpopt::judge_synack(options, Nonce::new(nonce)) {
            Ok(()) => SynAckAnswer::Agreed,
            Err(Reason::Local(LocalReason::OptionEchoed)) => SynAckAnswer::Echo,
            Err(_) => SynAckAnswer::Silent,
        }
    }

    fn syn_agrees(syn_options: &[u8]) -> bool {
        tcpopt::syn_allows_smc(syn_options)
    }
}

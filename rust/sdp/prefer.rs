// SPDX-License-Identifier: GPL-2.0

//! Whether a socket that may use SDP or another protocol connects by SDP.

use super::{
    engine::engine,
    mail::Mailbox,
    opening::target_of,
    reach::Known, //
};
use crate::{
    kapi::net::{
        msg::Name,
        sock::Sock, //
    },
    proto::{
        sdp::admission::{
            PreferPolicy,
            Preference, //
        },
        stream::rules::Carrier,
    },
};

/// Whether a socket connects to `given` by SDP. `None` if nothing says so. Its values are too large to lie on
/// the stack of a caller that goes on. Context: may sleep.
#[inline(never)]
pub(super) fn is_preferred(sk: &Sock, given: &Name) -> Option<bool> {
    let engine = engine()?;
    let values = engine.sysctls.of(sk.net_cookie()).ok()?.values();
    if values.prefer == PreferPolicy::Never || !engine.fabric.devices.serve(sk.net_cookie()) {
        return None;
    }
    let name = given.to_owned().ok()?;
    let target = target_of(sk, &name)?;
    let reach = engine.nets.state(&sk.net()).ok()?.reach.clone();
    let known = reach.known(&target).map(|known| known != Known::Tcp);
    match values.prefer.decide(values.probe, known) {
        // What a rule keeps from SDP may use the other protocol.
        Preference::Sdp => {
            let ruled = engine.rules.judge_call(sk, Carrier::Sdp, given);
            Some(ruled.is_none())
        }
        Preference::Other => Some(false),
        Preference::OtherAndAsk => {
            // The table keeps the answer; this connection does not wait for it.
            let mailbox = Mailbox::new().ok()?;
            let _ = reach.ask(&target, &sk.local_addr(), &mailbox);
            Some(false)
        }
    }
}

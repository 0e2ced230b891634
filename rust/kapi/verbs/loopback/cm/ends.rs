// SPDX-License-Identifier: GPL-2.0

//! Tests of the end of ids and listeners of `ib_cm`: in each state, and while handlers run.

use super::{
    exit,
    ready,
    reply,
    with_cm,
    CmBench,
    CmPick,
    CmSide,
    TestDecision,
    BACKLOG, //
};
use crate::kapi::verbs::{
    cm::{
        CmEvent,
        CmMessage,
        CmRequestParams,
        RejectReason, //
    },
    loopback::unless_skipped, //
};
use kernel::{
    prelude::*,
    sync::Arc,
    time::{
        delay::fsleep,
        Delta,
        Instant,
        Monotonic, //
    },
    workqueue, //
};

/// How far a connection has come when its sides are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    /// An id without a request.
    Idle,
    /// A request that the listener ignores.
    Ignored,
    Requested,
    Delayed,
    Replied,
    Established,
    DisconnectSent,
    DisconnectAnswered,
    Timewait,
    Over,
}

const ALL: [Reached; 10] = [
    Reached::Idle,
    Reached::Ignored,
    Reached::Requested,
    Reached::Delayed,
    Reached::Replied,
    Reached::Established,
    Reached::DisconnectSent,
    Reached::DisconnectAnswered,
    Reached::Timewait,
    Reached::Over,
];

/// Brings a new connection that far. There is one side before the listener takes it.
fn reach(
    cm: &CmBench<'_>,
    host: &CmSide,
    reached: Reached,
) -> Result<(Arc<CmSide>, Option<Arc<CmSide>>)> {
    if reached == Reached::Idle {
        return Ok((cm.idle()?, None));
    }
    let (requests, children) = host.note(|state| {
        state.decision = match reached {
            Reached::Ignored => TestDecision::Ignore,
            _ => TestDecision::Take,
        };
        (state.requests.len(), state.children.len())
    });
    let active = cm.request(None, &[])?;
    if reached == Reached::Ignored {
        host.wait(|state| (state.requests.len() > requests).then_some(()))?;
        return Ok((active, None));
    }
    let passive = host.wait(|state| state.children.get(children).cloned())?;
    let both = (active.clone(), Some(passive.clone()));
    if reached == Reached::Requested {
        return Ok(both);
    }
    if reached == Reached::Delayed {
        passive.with(|handle| handle.delay())?;
        return Ok(both);
    }
    cm.reply(&passive, None, &[])?;
    active.event(reply)?;
    if reached == Reached::Replied {
        return Ok(both);
    }
    active.with(|handle| handle.ready_to_use(&[]))?;
    passive.event(ready)?;
    if reached == Reached::Established {
        return Ok(both);
    }
    active.with(|handle| handle.disconnect(&[]))?;
    passive.event(|event| matches!(event, CmEvent::DisconnectRequest(_)).then_some(()))?;
    if reached == Reached::DisconnectSent {
        return Ok(both);
    }
    passive.with(|handle| handle.confirm_disconnect(&[]))?;
    if reached == Reached::DisconnectAnswered {
        return Ok(both);
    }
    active.event(|event| matches!(event, CmEvent::DisconnectReply(_)).then_some(()))?;
    if reached == Reached::Over {
        active.event(exit)?;
        passive.event(exit)?;
    }
    Ok(both)
}

#[kernel::macros::kunit_tests(rdma_sock_kapi_verbs_cm_ends)]
mod tests {
    use super::*;

    #[test]
    fn sides_dropped_in_each_state_give_their_contexts_back() -> Result {
        let outcome = unless_skipped!(with_cm(|cm| {
            let host = cm.listen(TestDecision::Take, BACKLOG)?;
            let mut sides = 0;
            for reached in ALL {
                for active_first in [false, true] {
                    let (active, passive) = reach(cm, &host, reached)?;
                    if active_first {
                        active.drop_handle();
                    }
                    if let Some(passive) = passive {
                        passive.drop_handle();
                        sides += 1;
                    }
                    active.drop_handle();
                    sides += 1;
                }
            }
            Ok((sides, host.half_open()))
        }));
        assert_eq!(outcome, (2 * (10 + 8), 0));
        Ok(())
    }

    #[test]
    fn no_event_comes_after_the_drop() -> Result {
        let events = unless_skipped!(with_cm(|cm| {
            let host = cm.listen(TestDecision::Take, BACKLOG)?;
            let (active, passive) = cm.pair(&host)?;
            let before = active.note(|state| state.events.len());
            active.drop_handle();
            // The drop has sent DREQ, which the peer answers.
            passive.event(|event| matches!(event, CmEvent::DisconnectRequest(_)).then_some(()))?;
            passive.with(|handle| handle.confirm_disconnect(&[]))?;
            passive.event(exit)?;
            Ok((before, active.note(|state| state.events.len())))
        }));
        assert_eq!(events.0, events.1);
        Ok(())
    }

    #[test]
    fn pending_connection_outlives_its_listener() -> Result {
        let (reason, taken) = unless_skipped!(with_cm(|cm| {
            let host = cm.listen(TestDecision::Take, BACKLOG)?;
            let active = cm.request(None, &[])?;
            let passive = host.child()?;
            drop(host.note(|state| state.listener.take()));
            let late = cm.request(None, &[])?;
            let (reason, _) = late.rejection()?;
            cm.reply(&passive, None, &super::super::pattern::<196>(2))?;
            let (_, data) = active.event(reply)?;
            Ok((reason, data == super::super::pattern::<196>(2)))
        }));
        assert_eq!(reason, RejectReason::INVALID_SERVICE_ID);
        assert!(taken);
        Ok(())
    }

    #[test]
    fn drop_of_a_listener_waits_for_its_handler() -> Result {
        let outcome = unless_skipped!(with_cm(|cm| {
            let host = cm.listen(TestDecision::Reject(RejectReason::NO_RESOURCES), BACKLOG)?;
            host.note(|state| state.holds = true);
            let active = cm.request(None, &[])?;
            host.wait(|state| state.inside.then_some(()))?;
            let listener = host.note(|state| state.listener.take());
            let other = host.clone();
            workqueue::system_unbound().try_spawn(GFP_KERNEL, move || {
                fsleep(Delta::from_millis(50));
                other.note(|state| state.holds = false);
            })?;
            drop(listener);
            let inside = host.note(|state| state.inside);
            Ok((inside, active.rejection()?.0))
        }));
        assert_eq!(outcome, (false, RejectReason::NO_RESOURCES));
        Ok(())
    }

    #[test]
    fn drop_of_a_connection_waits_for_its_handler() -> Result {
        let outcome = unless_skipped!(with_cm(|cm| {
            let active = cm.idle()?;
            active.note(|state| state.holds = true);
            let params = cm.params(None, &[]);
            active.with(|handle| handle.request(&cm.path(None)?, &params))?;
            // The rejection, as there is no listener.
            active.wait(|state| state.inside.then_some(()))?;
            let other = active.clone();
            workqueue::system_unbound().try_spawn(GFP_KERNEL, move || {
                fsleep(Delta::from_millis(50));
                other.note(|state| state.holds = false);
            })?;
            active.drop_handle();
            Ok(active.note(|state| (state.inside, state.events.len())))
        }));
        assert_eq!(outcome, (false, 1));
        Ok(())
    }

    #[test]
    fn handler_of_a_request_may_drop_what_it_takes() -> Result {
        let outcome = unless_skipped!(with_cm(|cm| {
            let host = cm.listen(TestDecision::TakeAndDrop, BACKLOG)?;
            let rejection = cm.request(None, &[])?.rejection()?;
            Ok((rejection, host.half_open()))
        }));
        assert_eq!(outcome, ((RejectReason::CONSUMER_DEFINED, [0; 148]), 0));
        Ok(())
    }

    #[test]
    fn handler_may_drop_its_own_listener() -> Result {
        let outcome = unless_skipped!(with_cm(|cm| {
            let host = cm.listen(TestDecision::DropListener, BACKLOG)?;
            let active = cm.request(None, &[])?;
            let passive = host.child()?;
            cm.reply(&passive, None, &[])?;
            active.event(reply)?;
            let (reason, _) = cm.request(None, &[])?.rejection()?;
            let requests = host.note(|state| state.requests.len());
            Ok((reason, requests))
        }));
        // The listener is destroyed by then, or is about to be.
        assert!([
            RejectReason::INVALID_SERVICE_ID,
            RejectReason::CONSUMER_DEFINED
        ]
        .contains(&outcome.0));
        assert_eq!(outcome.1, 1);
        Ok(())
    }

    #[test]
    fn handler_may_drop_its_own_connection() -> Result {
        let last = unless_skipped!(with_cm(|cm| {
            let host = cm.listen(TestDecision::Take, BACKLOG)?;
            // At the reply, which rejects that; at RTU, which sends DREQ.
            let drops: [(bool, CmPick); 2] = [
                (true, |event| matches!(event, CmEvent::Reply(_))),
                (false, |event| matches!(event, CmEvent::ReadyToUse(_))),
            ];
            let mut last = 0;
            for (is_active, drops_at) in drops {
                let active = cm.request(None, &[])?;
                let passive = host.wait(|state| state.children.pop())?;
                let (dropper, other) = if is_active {
                    (active.clone(), passive.clone())
                } else {
                    (passive.clone(), active.clone())
                };
                dropper.note(|state| state.drops_at = Some(drops_at));
                cm.reply(&passive, None, &[])?;
                if !is_active {
                    active.event(reply)?;
                    active.with(|handle| handle.ready_to_use(&[]))?;
                }
                other.event(|event| {
                    matches!(
                        event,
                        CmEvent::Rejected { .. } | CmEvent::DisconnectRequest(_)
                    )
                    .then_some(())
                })?;
                dropper.wait(|state| (!state.inside).then_some(()))?;
                let gone = dropper.note(|state| state.handle.is_none());
                passive.drop_handle();
                last += usize::from(gone);
            }
            Ok(last)
        }));
        assert_eq!(last, 2);
        Ok(())
    }

    #[test]
    fn unanswered_request_ends_with_an_event() -> Result {
        let outcome = unless_skipped!(with_cm(|cm| {
            let mut path = cm.path(Some(0xfe))?;
            path.set_life_time(8)?;
            // 18 ms in all.
            let params = CmRequestParams {
                remote_response_timeout: 10,
                ..cm.params(None, &[])
            };
            let unanswered = |event: &CmEvent| match event {
                CmEvent::Unanswered(message) => Some(*message),
                _ => None,
            };
            let active = cm.idle()?;
            active.with(|handle| handle.request(&path, &params))?;
            let message = active.event(unanswered)?;
            // The same, and the handler drops the id.
            let dropper = cm.idle()?;
            dropper.note(|state| {
                state.drops_at = Some(|event| matches!(event, CmEvent::Unanswered(_)));
            });
            let params = CmRequestParams {
                qpn: params.qpn + 0x1000,
                ..params
            };
            dropper.with(|handle| handle.request(&path, &params))?;
            dropper.event(unanswered)?;
            dropper.wait(|state| (!state.inside).then_some(()))?;
            Ok((message, dropper.note(|state| state.handle.is_none())))
        }));
        assert_eq!(outcome, (CmMessage::Request, true));
        Ok(())
    }

    #[test]
    fn unanswered_requests_dropped_at_any_time_give_their_contexts_back() -> Result {
        let events = unless_skipped!(with_cm(|cm| {
            let mut path = cm.path(Some(0xfe))?;
            path.set_life_time(8)?;
            let mut events = (0, 0);
            // The first waits for the event, the others until around its time.
            let mut patience = None;
            for step in 0..30 {
                let begun = Instant::<Monotonic>::now();
                let active = cm.idle()?;
                let params = CmRequestParams {
                    remote_response_timeout: 10,
                    ..cm.params(None, &[])
                };
                active.with(|handle| handle.request(&path, &params))?;
                match patience {
                    None => {
                        active
                            .event(|event| matches!(event, CmEvent::Unanswered(_)).then_some(()))?;
                        patience = Some(begun.elapsed().as_micros_ceil());
                    }
                    Some(patience) => fsleep(Delta::from_micros(patience * step / 20)),
                }
                active.drop_handle();
                match active.note(|state| state.events.len()) {
                    0 => events.0 += 1,
                    _ => events.1 += 1,
                }
            }
            Ok(events)
        }));
        // Before the event, and after it.
        assert!(events.0 > 0);
        assert!(events.1 > 0);
        Ok(())
    }
}

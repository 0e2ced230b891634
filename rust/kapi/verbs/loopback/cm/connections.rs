// SPDX-License-Identifier: GPL-2.0

//! Tests of requests, replies and rejections of `ib_cm`, octet by octet.

use super::{
    carry,
    exit,
    pattern,
    ready,
    reply,
    with_cm,
    CmSide,
    TestDecision,
    BACKLOG,
    SERVICE, //
};
use crate::kapi::{
    compat::errno::EALREADY,
    verbs::{
        cm::{
            CmEvent,
            CmListener,
            CmPath,
            CmReplyParams,
            CmRequestParams,
            RejectReason,
            RoceTarget, //
        },
        loopback::{
            unless_skipped,
            PSN, //
        },
    },
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
};

#[kernel::macros::kunit_tests(rdma_sock_kapi_verbs_cm)]
mod tests {
    use super::*;

    #[test]
    fn connection_carries_private_data_and_messages() -> Result {
        let outcome = unless_skipped!(with_cm(|cm| {
            let host = cm.listen(TestDecision::Take, BACKLOG)?;
            let (near, near_probe) = cm.channel()?;
            let (far, far_probe) = cm.channel()?;
            let active = cm.request(Some(&near), &pattern::<92>(1))?;
            let passive = host.child()?;
            let info = host
                .note(|state| state.requests.first().copied())
                .ok_or(ENODATA)?;
            let half_open = host.half_open();
            cm.reply(&passive, Some(&far), &pattern::<196>(2))?;
            let (qpn, reply_data) = active.event(reply)?;
            let depths = active.event(|event| match event {
                CmEvent::Reply(reply) => Some((reply.initiator_depth, reply.responder_resources)),
                _ => None,
            })?;
            active.with(|handle| {
                handle.to_rtr(&near, PSN)?;
                handle.to_rts(&near)?;
                handle.ready_to_use(&pattern::<224>(3))
            })?;
            let ready_data = passive.event(ready)?;
            let carried = (
                carry(&near, &far_probe, 0x5a)?,
                carry(&far, &near_probe, 0xa5)?,
            );
            let same_ops = active.with(|handle| Ok(Arc::ptr_eq(handle.ops(), &active)))?;
            let own = (cm.bench.port, near.qpn(), far.qpn(), cm.gid);
            let netdev = cm.bench.device.netdev(cm.bench.port);
            let backlog = (half_open, host.half_open());
            let got = (qpn, reply_data, depths, ready_data);
            Ok((info, netdev, own, got, backlog, same_ops, carried))
        }));
        let (info, netdev, (port, near, far, gid), got, backlog, same_ops, carried) = outcome;
        assert_eq!(info.data.as_bytes(), &pattern::<92>(1)[..]);
        assert_eq!(
            (info.service_id, info.port, info.qpn),
            (SERVICE, port, near)
        );
        assert_eq!((info.local_gid, info.remote_gid), (gid.gid, gid.gid));
        assert_eq!((info.initiator_depth, info.responder_resources), (1, 1));
        assert_eq!((info.mtu_code, info.netdev), (gid.mtu_code, netdev));
        assert_eq!(got, (far, pattern::<196>(2), (1, 1), pattern::<224>(3)));
        assert_eq!(backlog, (1, 0));
        assert!(same_ops);
        assert_eq!(carried, (true, true));
        Ok(())
    }

    #[test]
    fn shorter_private_data_arrives_with_zeros_behind() -> Result {
        let data = unless_skipped!(with_cm(|cm| {
            let host = cm.listen(TestDecision::Take, BACKLOG)?;
            cm.request(None, &pattern::<5>(1))?;
            host.child()?;
            host.note(|state| state.requests.first().map(|info| info.data))
                .ok_or(ENODATA)
        }));
        let (head, tail) = data.as_bytes().split_at(5);
        assert_eq!(head, &pattern::<5>(1)[..]);
        assert_eq!(tail, &[0; 87][..]);
        Ok(())
    }

    #[test]
    fn disconnect_carries_private_data_both_ways_and_ends_in_timewait() -> Result {
        let outcome = unless_skipped!(with_cm(|cm| {
            let host = cm.listen(TestDecision::Take, BACKLOG)?;
            let (active, passive) = cm.pair(&host)?;
            active.with(|handle| handle.disconnect(&pattern::<220>(4)))?;
            let request: [u8; 220] = passive.event(|event| match event {
                CmEvent::DisconnectRequest(data) => data.as_bytes().try_into().ok(),
                _ => None,
            })?;
            passive.with(|handle| handle.confirm_disconnect(&pattern::<224>(5)))?;
            let reply: [u8; 224] = active.event(|event| match event {
                CmEvent::DisconnectReply(data) => data.as_bytes().try_into().ok(),
                _ => None,
            })?;
            active.event(exit)?;
            passive.event(exit)?;
            let again = active.with(|handle| Ok(handle.disconnect(&[])))?;
            Ok((request, reply, again))
        }));
        assert_eq!(outcome.0, pattern::<220>(4));
        assert_eq!(outcome.1, pattern::<224>(5));
        assert_eq!(outcome.2, Err(EINVAL));
        Ok(())
    }

    #[test]
    fn request_for_unknown_service_id_is_rejected_with_its_reason() -> Result {
        let (reason, data) = unless_skipped!(with_cm(|cm| cm.request(None, &[])?.rejection()));
        assert_eq!(reason, RejectReason::INVALID_SERVICE_ID);
        assert_eq!(data, [0; 148]);
        Ok(())
    }

    #[test]
    fn rejection_carries_reason_and_private_data() -> Result {
        let outcome = unless_skipped!(with_cm(|cm| {
            let host = cm.listen(TestDecision::Reject(RejectReason::NO_RESOURCES), BACKLOG)?;
            let at_once = cm.request(None, &[])?.rejection()?;
            // Taken first, and rejected later.
            host.note(|state| state.decision = TestDecision::Take);
            let active = cm.request(None, &[])?;
            let passive = host.child()?;
            passive
                .with(|handle| handle.reject(RejectReason::CONSUMER_DEFINED, &pattern::<148>(7)))?;
            let later = active.rejection()?;
            // Neither taken nor rejected by the handler.
            host.note(|state| state.decision = TestDecision::Leave);
            let left = cm.request(None, &[])?.rejection()?;
            Ok((at_once, later, left, host.half_open()))
        }));
        let (at_once, later, left, half_open) = outcome;
        assert_eq!(at_once, (RejectReason::NO_RESOURCES, pattern::<148>(3)));
        assert_eq!(later, (RejectReason::CONSUMER_DEFINED, pattern::<148>(7)));
        assert_eq!(left, (RejectReason::CONSUMER_DEFINED, [0; 148]));
        // The connection that was rejected later has its place until its end.
        assert_eq!(half_open, 1);
        Ok(())
    }

    #[test]
    fn rejection_of_a_reply_reaches_its_sender() -> Result {
        let rejection = unless_skipped!(with_cm(|cm| {
            let host = cm.listen(TestDecision::Take, BACKLOG)?;
            let active = cm.request(None, &[])?;
            let passive = host.child()?;
            cm.reply(&passive, None, &[])?;
            active.event(reply)?;
            active
                .with(|handle| handle.reject(RejectReason::CONSUMER_DEFINED, &pattern::<148>(9)))?;
            let rejection = passive.rejection()?;
            Ok((rejection, host.half_open()))
        }));
        let wanted = (RejectReason::CONSUMER_DEFINED, pattern::<148>(9));
        assert_eq!(rejection, (wanted, 0));
        Ok(())
    }

    #[test]
    fn side_that_waits_for_the_peer_does_not_reject() -> Result {
        let outcome = unless_skipped!(with_cm(|cm| {
            let host = cm.listen(TestDecision::Take, BACKLOG)?;
            let active = cm.request(None, &[])?;
            let passive = host.child()?;
            let reject = |side: &CmSide| {
                side.with(|handle| Ok(handle.reject(RejectReason::CONSUMER_DEFINED, &[])))
            };
            let asked = reject(&active)?;
            cm.reply(&passive, None, &[])?;
            Ok((asked, reject(&passive)?))
        }));
        assert_eq!(outcome, (Err(EINVAL), Err(EINVAL)));
        Ok(())
    }

    #[test]
    fn requester_that_gives_up_rejects_its_request() -> Result {
        let reason = unless_skipped!(with_cm(|cm| {
            let host = cm.listen(TestDecision::Take, BACKLOG)?;
            let active = cm.request(None, &[])?;
            let passive = host.child()?;
            active.drop_handle();
            Ok(passive.rejection()?.0)
        }));
        assert_eq!(reason, RejectReason::TIMEOUT);
        Ok(())
    }

    #[test]
    fn queue_pair_of_another_connection_is_rejected_as_stale() -> Result {
        let reason = unless_skipped!(with_cm(|cm| {
            let host = cm.listen(TestDecision::Take, BACKLOG)?;
            let params = cm.params(None, &[]);
            let (first, second) = (cm.idle()?, cm.idle()?);
            first.with(|handle| handle.request(&cm.path(None)?, &params))?;
            host.child()?;
            second.with(|handle| handle.request(&cm.path(None)?, &params))?;
            Ok(second.rejection()?.0)
        }));
        assert_eq!(reason, RejectReason::STALE_CONN);
        Ok(())
    }

    #[test]
    fn ignored_request_comes_again() -> Result {
        let taken = unless_skipped!(with_cm(|cm| {
            let host = cm.listen(TestDecision::Ignore, BACKLOG)?;
            let active = cm.request(None, &pattern::<92>(1))?;
            host.wait(|state| (state.requests.len() == 1).then_some(()))?;
            host.note(|state| state.decision = TestDecision::Take);
            let passive = host.child()?;
            cm.reply(&passive, None, &[])?;
            active.event(reply)?;
            let requests = host.note(|state| state.requests.len());
            let same = host.note(|state| {
                let mut requests = state.requests.iter();
                requests.all(|info| info.data.as_bytes() == &pattern::<92>(1)[..])
            });
            Ok((requests, same))
        }));
        assert_eq!(taken, (2, true));
        Ok(())
    }

    #[test]
    fn full_backlog_drops_requests_until_a_place_is_free() -> Result {
        let outcome = unless_skipped!(with_cm(|cm| {
            let host = cm.listen(TestDecision::Take, 1)?;
            let first = cm.request(None, &[])?;
            let child = host.child()?;
            let second = cm.request(None, &[])?;
            fsleep(Delta::from_millis(100));
            let dropped = host.note(|state| state.requests.len());
            let quiet = second.note(|state| state.events.is_empty());
            // Rejects the first.
            child.drop_handle();
            let rejected = first.rejection()?;
            let passive = host.wait(|state| state.children.get(1).cloned())?;
            cm.reply(&passive, None, &[])?;
            second.event(reply)?;
            Ok((dropped, quiet, rejected.0))
        }));
        assert_eq!(outcome, (1, true, RejectReason::CONSUMER_DEFINED));
        Ok(())
    }

    #[test]
    fn delayed_request_is_reported_and_can_be_answered() -> Result {
        let timeout = unless_skipped!(with_cm(|cm| {
            let host = cm.listen(TestDecision::Take, BACKLOG)?;
            let active = cm.idle()?;
            let mut path = cm.path(None)?;
            path.set_life_time(8)?;
            // The first duplicate follows after 66 ms.
            let params = CmRequestParams {
                remote_response_timeout: 14,
                max_retries: 15,
                ..cm.params(None, &[])
            };
            active.with(|handle| handle.request(&path, &params))?;
            let passive = host.child()?;
            passive.with(|handle| handle.delay())?;
            let timeout = active.event(|event| match event {
                CmEvent::Delayed { service_timeout } => Some(*service_timeout),
                _ => None,
            })?;
            cm.reply(&passive, None, &[])?;
            active.event(reply)?;
            Ok(timeout)
        }));
        assert!((1..=31).contains(&timeout));
        Ok(())
    }

    /// The peer has the reply, has not sent RTU, and gets REJ.
    #[test]
    fn connection_without_ready_to_use_ends_at_once() -> Result {
        let (took, half_open) = unless_skipped!(with_cm(|cm| {
            let host = cm.listen(TestDecision::Take, BACKLOG)?;
            let active = cm.request(None, &[])?;
            let passive = host.child()?;
            cm.reply(&passive, None, &[])?;
            active.event(reply)?;
            let begin = Instant::<Monotonic>::now();
            passive.drop_handle();
            let took = begin.elapsed();
            active.event(|event| matches!(event, CmEvent::Rejected { .. }).then_some(()))?;
            Ok((took, host.half_open()))
        }));
        assert!(took.as_millis() < 1000);
        assert_eq!(half_open, 0);
        Ok(())
    }

    #[test]
    fn request_that_is_wrong_is_refused() -> Result {
        let outcome = unless_skipped!(with_cm(|cm| {
            let active = cm.idle()?;
            let path = cm.path(None)?;
            let long = [0; 93];
            let good = cm.params(None, &[]);
            let bad = [
                CmRequestParams {
                    qpn: 0x0100_0000,
                    ..good
                },
                CmRequestParams {
                    psn: 0x0100_0000,
                    ..good
                },
                CmRequestParams { retries: 8, ..good },
                CmRequestParams {
                    rnr_retries: 8,
                    ..good
                },
                CmRequestParams {
                    remote_response_timeout: 32,
                    ..good
                },
                CmRequestParams {
                    local_response_timeout: 32,
                    ..good
                },
                CmRequestParams {
                    max_retries: 0,
                    ..good
                },
                CmRequestParams {
                    max_retries: 16,
                    ..good
                },
                CmRequestParams {
                    data: &long,
                    ..good
                },
            ];
            active.with(|handle| {
                let refused = bad
                    .iter()
                    .filter(|params| {
                        let wanted = if params.data.len() == 93 {
                            EMSGSIZE
                        } else {
                            EINVAL
                        };
                        handle.request(&path, params) == Err(wanted)
                    })
                    .count();
                let first = handle.request(&path, &good);
                let second = handle.request(&path, &good);
                Ok((refused, bad.len(), first, second))
            })
        }));
        assert_eq!(outcome, (9, 9, Ok(()), Err(EALREADY)));
        Ok(())
    }

    #[test]
    fn data_that_does_not_fit_is_refused() -> Result {
        let refused = unless_skipped!(with_cm(|cm| {
            let host = cm.listen(TestDecision::Take, BACKLOG)?;
            let (active, passive) = cm.pair(&host)?;
            let (long, longest) = ([0; 225], [0; 256]);
            let reply = CmReplyParams {
                qpn: 1,
                psn: 0,
                responder_resources: 0,
                initiator_depth: 0,
                rnr_retries: 0,
                data: &long[..197],
            };
            let results = [
                passive.with(|handle| Ok(handle.reply(&reply)))?,
                active.with(|handle| Ok(handle.ready_to_use(&long)))?,
                active.with(|handle| Ok(handle.disconnect(&long[..221])))?,
                passive.with(|handle| Ok(handle.confirm_disconnect(&long)))?,
                passive.with(|handle| Ok(handle.confirm_disconnect(&longest)))?,
                active.with(|handle| {
                    Ok(handle.reject(RejectReason::CONSUMER_DEFINED, &long[..149]))
                })?,
            ];
            Ok(results
                .iter()
                .filter(|result| **result == Err(EMSGSIZE))
                .count())
        }));
        assert_eq!(refused, 6);
        Ok(())
    }

    #[test]
    fn service_id_has_one_listener() -> Result {
        let outcome = unless_skipped!(with_cm(|cm| {
            let host = cm.listen(TestDecision::Take, BACKLOG)?;
            let other = cm.side(TestDecision::Take)?;
            let device = &cm.bench.device;
            let second = CmListener::new(device, SERVICE, BACKLOG, other.clone()).err();
            let beside = CmListener::new(device, SERVICE + 1, BACKLOG, other.clone()).err();
            host.finish();
            let after = CmListener::new(device, SERVICE, BACKLOG, other).err();
            Ok((second, beside, after))
        }));
        assert_eq!(outcome, (Some(EBUSY), None, None));
        Ok(())
    }

    #[test]
    fn path_of_an_address_that_is_not_there_is_refused() -> Result {
        let outcome = unless_skipped!(with_cm(|cm| {
            let target = RoceTarget {
                gid: cm.gid.gid,
                mac: cm.gid.mac,
                hop_limit: 64,
                traffic_class: 0,
            };
            let mut gid = cm.gid;
            gid.gid = pattern(1);
            let (device, port) = (&cm.bench.device, cm.bench.port);
            let gone = CmPath::roce(device, port, &gid, &target).err();
            let no_port = CmPath::roce(device, port + 77, &cm.gid, &target).err();
            let mut path = cm.path(None)?;
            let long = path.set_life_time(32);
            let own = (path.local_gid(), path.remote_gid(), path.mac(), path.port());
            let right = own == (cm.gid.gid, cm.gid.gid, Some(cm.gid.mac), port);
            Ok((gone, no_port, long, right))
        }));
        assert_eq!(outcome, (Some(ENOENT), Some(EINVAL), Err(EINVAL), true));
        Ok(())
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Why requests fail: the reason of each failure, next to its status (RNIC-ERR-04).

use super::*;

/// Lets the first request fail in a way of its own.
type Failing = fn(&mut SendBench);

impl SendBench {
    /// The results of all completions.
    fn results(&mut self) -> Vec<Result<(), Reason>> {
        std::iter::from_fn(|| self.core.poll_complete())
            .map(|done| done.result)
            .collect()
    }
}

/// Sends all packets, and repeats them until the requester gives up.
fn give_up(bench: &mut SendBench, mut again: impl FnMut(&mut SendBench) -> AnswerEffect) {
    for _ in 0..100 {
        bench.sent();
        if again(bench) == AnswerEffect::Failure {
            return;
        }
    }
    panic!("no end of retries");
}

/// RNIC-ERR-04.
#[test]
fn request_that_is_impossible_says_why() {
    let uc = RequesterConfig {
        service: Service::Uc,
        ..CONFIG
    };
    let ud = RequesterConfig {
        service: Service::Ud,
        ..CONFIG
    };
    let no_reads = RequesterConfig {
        max_rd_atomic: 0,
        ..CONFIG
    };
    for (config, kind, len, reason) in [
        (CONFIG, Malformed, 0, Reason::Malformed),
        (ud, Malformed, 0, Reason::Malformed),
        (uc, Read, 8, Reason::OtherService),
        (ud, Write, 8, Reason::OtherService),
        (no_reads, Read, 8, Reason::NoReads),
        (no_reads, FetchAdd, 8, Reason::NoReads),
        (CONFIG, Send, (1 << 31) + 1, Reason::TooLong),
        (ud, Send, FULL + 1, Reason::TooLong),
        (CONFIG, FetchAdd, 4, Reason::NoWord),
        (CONFIG, AtomicWrite, 16, Reason::NoWord),
    ] {
        let mut bench = SendBench::new(config);
        bench.post(kind, len);
        bench.post(Send, 1);
        assert_eq!(bench.sent(), []);
        assert_eq!(bench.results(), [Err(reason), Err(Reason::Flushed)]);
        bench.post(Send, 1);
        assert_eq!(bench.results(), [Err(Reason::Flushed)]);
    }
}

/// RNIC-ERR-04.
#[test]
fn answer_of_the_peer_says_why() {
    let cases: [(WorkKind, u32, Failing, Reason); 12] = [
        (
            Send,
            8,
            |bench| {
                bench.nak(0, NakCode::InvalidRequest);
            },
            Reason::PeerInvalid,
        ),
        (
            Write,
            8,
            |bench| {
                bench.nak(0, NakCode::RemoteAccess);
            },
            Reason::PeerAccess,
        ),
        (
            Read,
            8,
            |bench| {
                bench.nak(0, NakCode::RemoteOperational);
            },
            Reason::PeerOperation,
        ),
        (
            Send,
            8,
            |bench| {
                bench.answer(0, None);
            },
            Reason::BadSyndrome,
        ),
        (
            Send,
            8,
            |bench| {
                bench.read_response(0, Position::Only, 8).unwrap_err();
            },
            Reason::OtherResponse,
        ),
        (
            FetchAdd,
            8,
            |bench| {
                bench.read_response(0, Position::Only, 8).unwrap_err();
            },
            Reason::OtherResponse,
        ),
        (
            Read,
            8,
            |bench| {
                bench.atomic_ack(0).unwrap_err();
            },
            Reason::OtherResponse,
        ),
        (
            Read,
            8,
            |bench| {
                bench.read_response(0, Position::Only, 7).unwrap_err();
            },
            Reason::BadResponse,
        ),
        (
            Read,
            FULL + 1,
            |bench| {
                bench.read_response(0, Position::Only, 256).unwrap_err();
            },
            Reason::BadResponse,
        ),
        (
            Send,
            8,
            |bench| {
                give_up(bench, |bench| {
                    let effect = bench.rnr(0);
                    if effect == AnswerEffect::Wait {
                        bench.expire();
                    }
                    effect
                });
            },
            Reason::PeerNotReady,
        ),
        (
            Send,
            8,
            |bench| give_up(bench, SendBench::expire),
            Reason::NoAnswer,
        ),
        (
            // A sequence NAK for the same packet counts once: the timer repeats in between.
            Send,
            8,
            |bench| {
                for _ in 0..2 {
                    bench.expire();
                    bench.sent();
                }
                assert_eq!(bench.nak(0, NakCode::Sequence), AnswerEffect::Nothing);
                give_up(bench, SendBench::expire);
            },
            Reason::NoAnswer,
        ),
    ];
    for (kind, len, fail, reason) in cases {
        let mut bench = SendBench::new(CONFIG);
        bench.post(kind, len);
        bench.post(Send, 1);
        bench.sent();
        fail(&mut bench);
        assert_eq!(bench.results(), [Err(reason), Err(Reason::Flushed)]);
    }
}

/// RNIC-ERR-04, RNIC-TMO-04: each packet of a message is lost once, without a silent peer.
#[test]
fn losses_without_an_end_are_no_silence() {
    let mut bench = SendBench::new(RequesterConfig {
        retry: RetryLimits {
            retries: 0,
            ..CONFIG.retry
        },
        ..CONFIG
    });
    bench.post(Send, 8 * FULL);
    bench.sent();
    assert_eq!(bench.nak(3, NakCode::Sequence), AnswerEffect::Failure);
    assert_eq!(bench.results(), [Err(Reason::Losses)]);
}

/// RNIC-ERR-04: the device says why it cannot read, write or execute.
#[test]
fn failure_of_this_side_keeps_its_reason() {
    let reasons = [Reason::SourceDenied, Reason::OtherDomain, Reason::TooLong];
    for reason in reasons {
        let mut bench = SendBench::new(CONFIG);
        let good = bench.post(Send, 1);
        let bad = bench.post(Send, 1);
        bench.sent();
        bench.core.fail(bad, reason);
        bench.ack(0);
        assert_eq!(good.0, 0);
        assert_eq!(bench.results(), [Ok(()), Err(reason)]);
    }
    for (kind, reason) in [
        (RegMr, Reason::NotRegistered),
        (LocalInv, Reason::NotInvalidated),
        (BindMw, Reason::NotBound),
    ] {
        let mut bench = SendBench::new(CONFIG);
        bench.post(kind, 0);
        let msg = bench.local().unwrap();
        bench.core.local_done(msg, Err(reason));
        assert_eq!(bench.results(), [Err(reason)]);
    }
}

/// RNIC-ERR-04: a program ends the queue pair.
#[test]
fn flush_is_the_reason_of_all_requests() {
    let mut bench = SendBench::new(CONFIG);
    bench.post(Send, 1);
    bench.post(Read, 1);
    bench.sent();
    bench.core.flush();
    assert_eq!(bench.results(), [Err(Reason::Flushed); 2]);
}

// SPDX-License-Identifier: GPL-2.0

//! Why receive requests fail: the reason of each refusal (RNIC-ERR-04).

use super::*;

/// The result of the receive request that a ruling completes.
fn result_of(ruling: Ruling) -> Result<(), Reason> {
    match ruling {
        Ruling::Done(settled) => settled.receive.unwrap().result,
        other => panic!("{other:?}"),
    }
}

/// A responder that has received the first packet of a message into a buffer of `room` octets.
fn receiving(room: u32) -> ReceiveBench {
    let mut bench = ReceiveBench::new(CONFIG);
    bench.request(header(Opcode::RcSendFirst, 0, FULL));
    bench.core.grant_receive(room);
    bench.core.executed(Ok(()));
    bench
}

/// RNIC-ERR-04.
#[test]
fn refused_packet_of_a_message_says_why() {
    let mut bench = receiving(1_000);
    let ruling = bench.request(header(Opcode::RcWriteMiddle, 1, FULL));
    assert_eq!(result_of(ruling), Err(Reason::OutOfOrder));

    let mut bench = receiving(1_000);
    let ruling = bench.request(header(Opcode::RcSendMiddle, 1, FULL - 1));
    assert_eq!(result_of(ruling), Err(Reason::BadLength));

    let mut bench = receiving(1_000);
    let ruling = bench.core.handle_unknown(CONFIG.first_psn.after(1));
    assert_eq!(result_of(ruling), Err(Reason::UnknownOpcode));

    let mut bench = receiving(FULL);
    let ruling = bench.request(header(Opcode::RcSendLast, 1, 1));
    assert_eq!(result_of(ruling), Err(Reason::ReceiveTooShort));

    let mut bench = ReceiveBench::new(CONFIG);
    let write = ranged(Opcode::RcWriteOnlyImm, 0, 4, 0, 4);
    bench.request(write);
    bench.core.grant_receive(0);
    assert_eq!(result_of(bench.core.refuse_key()), Err(Reason::KeyRefused));

    // Requests without a receive buffer: an event reports them.
    let mut bench = ReceiveBench::new(CONFIG);
    bench.core.permit(RemoteAccess::default(), CONFIG.rnr_timer);
    assert_eq!(bench.core.objection(&write), Some(Reason::NotPermitted));
    let mut bench = ReceiveBench::new(CONFIG);
    for number in 0..2 {
        bench.accept(read(number, 0, 4));
    }
    assert_eq!(
        bench.core.objection(&read(2, 0, 4)),
        Some(Reason::TooManyReads)
    );
}

/// RNIC-ERR-04.
#[test]
fn failed_execution_says_why() {
    for (error, reason) in [
        (ExecuteError::ReceiveFault, Reason::ReceiveDenied),
        (ExecuteError::NotInvalidated, Reason::KeyKept),
        (ExecuteError::KeyGone, Reason::KeyGone),
    ] {
        let mut bench = ReceiveBench::new(CONFIG);
        bench.request(header(Opcode::RcSendOnly, 0, 4));
        bench.core.grant_receive(9);
        assert_eq!(result_of(bench.core.executed(Err(error))), Err(reason));
    }
    let mut bench = ReceiveBench::new(CONFIG);
    bench.request(header(Opcode::RcSendOnly, 0, 4));
    bench.core.grant_receive(9);
    assert_eq!(result_of(bench.core.executed(Ok(()))), Ok(()));
}

/// RNIC-ERR-04, RNIC-RSP-21: the buffer is one of another message.
#[test]
fn buffer_behind_a_failed_response_is_flushed() {
    let mut bench = ReceiveBench::new(CONFIG);
    bench.accept(read(0, 0x1000, 3 * FULL));
    bench.accept(header(Opcode::RcSendFirst, 3, FULL));
    let Some(ReplyPacket::Read(burst)) = bench.core.poll_reply(9) else {
        panic!("no response");
    };
    let settled = bench.core.read_failed(&burst, burst.psn.after(1));
    assert_eq!(
        settled.receive.map(|receive| receive.result),
        Some(Err(Reason::Flushed))
    );
}

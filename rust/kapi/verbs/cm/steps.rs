// SPDX-License-Identifier: GPL-2.0

//! Moves the queue pair of a channel on, with the attributes that a connection manager knows.

use crate::{
    bindings,
    kapi::verbs::{
        channel::{
            Channel,
            ChannelConfig,
            ChannelOps, //
        },
        qp::Qp, //
    },
};
use kernel::{
    error::to_result,
    ffi::c_int,
    prelude::*, //
};

/// To INIT with the port and the partition of the connection, then to RTR: messages are received, from
/// the packet with the number `psn` on, if it is given. Context: may sleep.
///
/// `fill` is given attributes with the wanted state, and fills them in and the mask.
pub(super) fn to_rtr<T: ChannelOps>(
    channel: &Channel<T>,
    psn: Option<u32>,
    mut fill: impl FnMut(*mut bindings::ib_qp_attr, *mut c_int) -> c_int,
) -> Result {
    channel.with_qp(|qp| {
        step(
            qp,
            channel.config(),
            bindings::ib_qp_state_IB_QPS_INIT,
            None,
            &mut fill,
        )?;
        step(
            qp,
            channel.config(),
            bindings::ib_qp_state_IB_QPS_RTR,
            psn,
            &mut fill,
        )
    })
}

/// To RTS: messages can be sent. Context: may sleep.
pub(super) fn to_rts<T: ChannelOps>(
    channel: &Channel<T>,
    mut fill: impl FnMut(*mut bindings::ib_qp_attr, *mut c_int) -> c_int,
) -> Result {
    channel.with_qp(|qp| {
        step(
            qp,
            channel.config(),
            bindings::ib_qp_state_IB_QPS_RTS,
            None,
            &mut fill,
        )
    })
}

/// One transition. What the configuration of the channel says goes before what the connection manager
/// chooses; of what the peer chooses it is the limit.
fn step(
    qp: &Qp,
    config: &ChannelConfig,
    state: bindings::ib_qp_state,
    psn: Option<u32>,
    fill: &mut impl FnMut(*mut bindings::ib_qp_attr, *mut c_int) -> c_int,
) -> Result {
    let mut attr = bindings::ib_qp_attr {
        qp_state: state,
        ..Default::default()
    };
    let mut mask = 0;
    to_result(fill(&mut attr, &mut mask))?;
    let connection = &config.connection;
    match state {
        bindings::ib_qp_state_IB_QPS_INIT => {
            let mut access = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE
                | bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE;
            if config.peer_reads {
                access |= bindings::ib_access_flags_IB_ACCESS_REMOTE_READ;
            }
            attr.qp_access_flags = c_int::try_from(access)?;
        }
        bindings::ib_qp_state_IB_QPS_RTR => {
            // That of the connection manager is 0, which stands for 655 ms.
            attr.min_rnr_timer = connection.min_rnr_timer;
            // `ib_cm` knows that of a reply only when it is sent, and the queue pair must be ready before.
            if let Some(psn) = psn {
                attr.rq_psn = psn;
            }
            attr.max_dest_rd_atomic = attr.max_dest_rd_atomic.min(connection.max_dest_rd_atomic);
        }
        _ => {
            attr.timeout = connection.ack_timeout;
            attr.retry_cnt = attr.retry_cnt.min(connection.retries);
            attr.max_rd_atomic = attr.max_rd_atomic.min(connection.max_rd_atomic);
        }
    }
    qp.modify(&mut attr, bindings::ib_qp_attr_mask::try_from(mask)?)
}

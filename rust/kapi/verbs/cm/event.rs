// SPDX-License-Identifier: GPL-2.0

//! Events of a connection of `ib_cm`.

use super::data::PrivateData;
use crate::bindings;
use kernel::ffi::c_void;

/// Why a message was rejected: a code of the InfiniBand specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RejectReason(u32);

impl RejectReason {
    /// The listener has no resources for another connection.
    pub(crate) const NO_RESOURCES: Self = Self(bindings::ib_cm_rej_reason_IB_CM_REJ_NO_RESOURCES);
    /// The peer has no queue pair for the connection.
    pub(crate) const NO_QP: Self = Self(bindings::ib_cm_rej_reason_IB_CM_REJ_NO_QP);
    /// The peer gave up waiting.
    pub(crate) const TIMEOUT: Self = Self(bindings::ib_cm_rej_reason_IB_CM_REJ_TIMEOUT);
    /// No listener has this service id.
    pub(crate) const INVALID_SERVICE_ID: Self =
        Self(bindings::ib_cm_rej_reason_IB_CM_REJ_INVALID_SERVICE_ID);
    /// The peer knows an older connection with this queue pair.
    pub(crate) const STALE_CONN: Self = Self(bindings::ib_cm_rej_reason_IB_CM_REJ_STALE_CONN);
    /// The peer knows another connection with this id of the connection manager.
    pub(crate) const DUPLICATE_ID: Self =
        Self(bindings::ib_cm_rej_reason_IB_CM_REJ_DUPLICATE_LOCAL_COMM_ID);
    /// For a reason of the engine's own, which the private data may give.
    pub(crate) const CONSUMER_DEFINED: Self =
        Self(bindings::ib_cm_rej_reason_IB_CM_REJ_CONSUMER_DEFINED);

    /// The code.
    pub(crate) fn code(self) -> u32 {
        self.0
    }
}

/// A message of `ib_cm` that the peer has to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CmMessage {
    /// REQ: the request for a connection.
    Request,
    /// REP: the reply to a request.
    Reply,
    /// DREQ: the request for the end.
    Disconnect,
}

/// A reply (REP) of the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CmReply {
    /// Number of the peer's queue pair.
    pub(crate) qpn: u32,
    /// RDMA reads of this side that the peer serves at once.
    pub(crate) initiator_depth: u8,
    /// RDMA reads that the peer has in flight at most.
    pub(crate) responder_resources: u8,
    /// Private data, 196 octets.
    pub(crate) data: PrivateData,
}

/// Something that happened to a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CmEvent {
    /// REP: the peer accepts. Connect the queue pair, then send RTU.
    Reply(CmReply),
    /// RTU: the peer is ready; private data of 224 octets.
    ReadyToUse(PrivateData),
    /// REJ: the peer does not accept, or does not know the connection.
    Rejected {
        /// Why.
        reason: RejectReason,
        /// Private data, 148 octets.
        data: PrivateData,
    },
    /// MRA: the peer needs longer to answer. Informs only.
    Delayed {
        /// Code of the time that the peer needs: 4.096 µs times two to this power.
        service_timeout: u8,
    },
    /// DREQ: the peer ends the connection; private data of 220 octets. Send DREP.
    DisconnectRequest(PrivateData),
    /// DREP: the peer has answered the DREQ of this side; private data of 224 octets.
    DisconnectReply(PrivateData),
    /// Packets of the connection are no longer in flight: another one may use its queue pair number.
    TimewaitExit,
    /// All attempts to send a message have failed, or the peer has not answered them.
    Unanswered(CmMessage),
}

impl CmEvent {
    /// Copies an event of a connection; none if it is one that engines do not use.
    ///
    /// # Safety
    ///
    /// `ib_cm` reports this event.
    pub(super) unsafe fn from_raw(raw: &bindings::ib_cm_event) -> Option<Self> {
        let data = |size: bindings::ib_cm_data_size| {
            let from: *const c_void = raw.private_data;
            // SAFETY: The event is of a message, and the data is the last field of the received
            // message, of the size that the caller gives, which fits an octet.
            unsafe { PrivateData::copy(from, u8::try_from(size).unwrap_or(0)) }
        };
        Some(match raw.event {
            bindings::ib_cm_event_type_IB_CM_REP_RECEIVED => {
                // SAFETY: This event has these parameters.
                let rep = unsafe { &*raw.param.rep_rcvd };
                Self::Reply(CmReply {
                    qpn: rep.remote_qpn,
                    initiator_depth: rep.initiator_depth,
                    responder_resources: rep.responder_resources,
                    data: data(bindings::ib_cm_data_size_IB_CM_REP_PRIVATE_DATA_SIZE),
                })
            }
            bindings::ib_cm_event_type_IB_CM_RTU_RECEIVED => {
                Self::ReadyToUse(data(bindings::ib_cm_data_size_IB_CM_RTU_PRIVATE_DATA_SIZE))
            }
            bindings::ib_cm_event_type_IB_CM_REJ_RECEIVED => Self::Rejected {
                // SAFETY: This event has these parameters.
                reason: RejectReason(unsafe { raw.param.rej_rcvd.reason }),
                data: data(bindings::ib_cm_data_size_IB_CM_REJ_PRIVATE_DATA_SIZE),
            },
            bindings::ib_cm_event_type_IB_CM_MRA_RECEIVED => Self::Delayed {
                // SAFETY: This event has these parameters.
                service_timeout: unsafe { raw.param.mra_rcvd.service_timeout },
            },
            bindings::ib_cm_event_type_IB_CM_DREQ_RECEIVED => Self::DisconnectRequest(data(
                bindings::ib_cm_data_size_IB_CM_DREQ_PRIVATE_DATA_SIZE,
            )),
            bindings::ib_cm_event_type_IB_CM_DREP_RECEIVED => {
                Self::DisconnectReply(data(bindings::ib_cm_data_size_IB_CM_DREP_PRIVATE_DATA_SIZE))
            }
            bindings::ib_cm_event_type_IB_CM_TIMEWAIT_EXIT => Self::TimewaitExit,
            bindings::ib_cm_event_type_IB_CM_REQ_ERROR => Self::Unanswered(CmMessage::Request),
            bindings::ib_cm_event_type_IB_CM_REP_ERROR => Self::Unanswered(CmMessage::Reply),
            bindings::ib_cm_event_type_IB_CM_DREQ_ERROR => Self::Unanswered(CmMessage::Disconnect),
            // Alternate paths and datagrams: left unanswered.
            _ => return None,
        })
    }

    /// Whether the connection is no longer between request and establishment.
    pub(super) fn settles(&self) -> bool {
        !matches!(self, Self::Delayed { .. } | Self::Reply(_))
    }
}

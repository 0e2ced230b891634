// SPDX-License-Identifier: GPL-2.0

//! Events of an id of `rdma_cm`.

use super::data::{
    parts,
    PrivateData, //
};
use crate::bindings;
use kernel::prelude::*;

/// What one side says of a connection: to the peer, or as the peer said it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RdmaConnParams<'a> {
    /// Number of the queue pair of this side.
    pub(crate) qpn: u32,
    /// RDMA reads of the peer that this side serves at once.
    pub(crate) responder_resources: u8,
    /// RDMA reads that this side has in flight at most.
    pub(crate) initiator_depth: u8,
    /// Attempts of the queue pair after a timeout, up to 7. Not used by an acceptor.
    pub(crate) retries: u8,
    /// Attempts of the peer's queue pair while no buffer is ready, up to 7; 7 is without end.
    pub(crate) rnr_retries: u8,
    /// Private data. A connector has 56 octets on InfiniBand and RoCE, an acceptor 196.
    pub(crate) data: &'a [u8],
}

/// What the peer says of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RdmaConnData {
    /// Number of the peer's queue pair; 0 on iWARP.
    pub(crate) qpn: u32,
    /// RDMA reads of the peer that this side serves at once.
    pub(crate) responder_resources: u8,
    /// RDMA reads that this side has in flight at most.
    pub(crate) initiator_depth: u8,
    /// Private data, with zeros up to the size of the message on InfiniBand and RoCE.
    pub(crate) data: PrivateData,
}

/// Something that happened to an id. An error has the code of the connection manager.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RdmaIdEvent {
    /// The address is resolved: the id has a device. Resolve the route.
    AddrResolved,
    /// The address could not be resolved.
    AddrFailed(Error),
    /// The route is resolved.
    RouteResolved,
    /// The route could not be resolved.
    RouteFailed(Error),
    /// The peer accepts. Connect the queue pair, then confirm. Not on iWARP.
    Response(RdmaConnData),
    /// The connection is established.
    Established(RdmaConnData),
    /// The peer does not accept, or is not there.
    Rejected {
        /// Code of the transport: of InfiniBand, see `RejectReason`; a negative error on iWARP.
        status: i32,
        /// Private data.
        data: PrivateData,
    },
    /// The peer does not answer, or its address is no longer known.
    Unreachable(Error),
    /// Connecting has failed on this side.
    Failed(Error),
    /// The connection has ended.
    Disconnected,
    /// The device goes away, and waits for the drop of the handle.
    DeviceRemoval,
    /// The network device moved to another RDMA device.
    AddrChange,
    /// Packets of the connection are no longer in flight.
    TimewaitExit,
}

impl RdmaConnParams<'_> {
    /// The parameters for C, valid as long as the data.
    pub(super) fn raw(&self) -> Result<bindings::rdma_conn_param> {
        let (private_data, private_data_len) = parts(
            self.data,
            bindings::ib_cm_data_size_IB_CM_REP_PRIVATE_DATA_SIZE,
        )?;
        Ok(bindings::rdma_conn_param {
            private_data,
            private_data_len,
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            flow_control: 1,
            retry_count: self.retries,
            rnr_retry_count: self.rnr_retries,
            qp_num: self.qpn,
            ..Default::default()
        })
    }
}

impl RdmaConnData {
    /// # Safety
    ///
    /// `rdma_cm` reports this event, of a connected id.
    pub(super) unsafe fn from_raw(event: &bindings::rdma_cm_event) -> Self {
        // SAFETY: Events of connected ids have these parameters, or zeros.
        let conn = unsafe { &*event.param.conn };
        Self {
            qpn: conn.qp_num,
            responder_resources: conn.responder_resources,
            initiator_depth: conn.initiator_depth,
            // SAFETY: The pointer is null or valid for the length that is given with it.
            data: unsafe { PrivateData::copy(conn.private_data, conn.private_data_len) },
        }
    }
}

impl RdmaIdEvent {
    /// Copies an event; none if it is one that engines do not use, or a request.
    ///
    /// # Safety
    ///
    /// `rdma_cm` reports this event, of a connected id.
    pub(super) unsafe fn from_raw(event: &bindings::rdma_cm_event) -> Option<Self> {
        let error = || match event.status {
            status @ ..=-1 => Error::from_errno(status),
            _ => EIO,
        };
        // SAFETY: By this function's contract.
        let conn = || unsafe { RdmaConnData::from_raw(event) };
        Some(match event.event {
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_RESOLVED => Self::AddrResolved,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_ERROR => Self::AddrFailed(error()),
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_RESOLVED => Self::RouteResolved,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_ERROR => Self::RouteFailed(error()),
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_RESPONSE => Self::Response(conn()),
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_ERROR => Self::Failed(error()),
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_UNREACHABLE => Self::Unreachable(error()),
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_REJECTED => Self::Rejected {
                status: event.status,
                data: conn().data,
            },
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_ESTABLISHED => Self::Established(conn()),
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_DISCONNECTED => Self::Disconnected,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL => Self::DeviceRemoval,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_CHANGE => Self::AddrChange,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_TIMEWAIT_EXIT => Self::TimewaitExit,
            _ => return None,
        })
    }

    /// The error of an event that reports one.
    pub(crate) fn error(&self) -> Option<Error> {
        match self {
            Self::AddrFailed(err)
            | Self::RouteFailed(err)
            | Self::Unreachable(err)
            | Self::Failed(err) => Some(*err),
            _ => None,
        }
    }
}

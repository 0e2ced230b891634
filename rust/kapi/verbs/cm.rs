// SPDX-License-Identifier: GPL-2.0

//! Connection managers: how two queue pairs agree on a connection.
//!
//! | C object         | Rust type        | what for                                                    |
//! |------------------|------------------|-------------------------------------------------------------|
//! | `ib_cm_id`       | [`CmHandle`]     | one connection under a service id of the engine's own       |
//! | `ib_cm_id`       | [`CmListener`]   | requests for one service id of one device                   |
//! | `sa_path_rec`    | [`CmPath`]       | the way to the peer, which a request names                  |
//! | `rdma_cm_id`     | [`RdmaIdHandle`] | resolves addresses; connections by address (iWARP)          |
//!
//! # Handlers
//!
//! An id owns a reference to its context, and events of the id go to that. Handlers run in process
//! context, one at a time for an id. They may sleep, but must not wait for another event of a
//! connection manager: all ids share its work queue.
//!
//! Dropping the handle of an id ends it: the drop waits for the handler that runs, and no handler
//! begins after it. A handler may drop the handle of its own id; the connection manager then destroys
//! the id when the handler has returned. Context and handle may refer to each other, as the engine
//! takes the handle out of the context when the connection ends.
//!
//! C headers: [`include/rdma/ib_cm.h`](srctree/include/rdma/ib_cm.h),
//! [`include/rdma/rdma_cm.h`](srctree/include/rdma/rdma_cm.h)

mod conn;
mod data;
mod event;
mod gate;
mod ids;
mod listen;
mod path;
mod rdma_event;
mod rdma_handle;
mod rdma_id;
mod steps;

pub(crate) use self::{
    conn::{
        CmHandle,
        CmId,
        CmOps,
        CmReplyParams,
        CmRequestParams, //
    },
    event::{
        CmEvent,
        CmMessage,
        CmReply,
        RejectReason, //
    },
    listen::{
        CmListenOps,
        CmListener,
        CmRequest,
        CmRequestInfo, //
    },
    path::{
        CmPath,
        RoceTarget, //
    },
    rdma_event::{
        RdmaConnData,
        RdmaConnParams,
        RdmaIdEvent, //
    },
    rdma_handle::{
        PortSpace,
        RdmaIdHandle,
        RdmaIdOps,
        RdmaIdRequest, //
    },
    rdma_id::RdmaId,
};

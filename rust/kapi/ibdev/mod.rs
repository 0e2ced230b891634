// SPDX-License-Identifier: GPL-2.0

//! Drivers of RDMA devices: the provider's side of the verbs core.
//!
//! A driver implements [`IbDeviceOps`] for its device and registers it with [`IbDevice::register`].
//! The verbs core allocates the C structures of the device and of its objects; each carries a pointer
//! to an `Arc` of the driver's own.
//!
//! | Object                           | Reference held by             | Teardown waits for              |
//! |----------------------------------|-------------------------------|---------------------------------|
//! | `ib_device`, its memory          | [`IbDevice`]                  | nothing                         |
//! | driver's device `Arc`            | `ib_device`, until released   | all clients and objects         |
//! | driver's object `Arc`            | C object, until destroyed     | handlers of the program         |
//! | link type                        | [`LinkRegistration`]          | calls that create links         |
//! | ring shared with user space      | driver's object, verbs core's entry | nothing                   |
//! | device for DMA                   | [`DmaDevice`]                 | nothing                         |
//! | pages of a ring                  | the ring, mappings of user space | nothing                      |
//! | pinned pages of user space       | [`MrMap`]                     | copies under way                |

mod attr;
mod completion;
mod device;
mod dma;
mod handles;
mod link;
mod memory;
mod ops;
mod qp;
mod regions;
mod sgid;
mod shell;
mod srq;
mod stats;
mod table;
#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
mod test_cq;
mod user;
mod windows;
mod wr;

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
pub(crate) use self::test_cq::{
    handle_of_test,
    poll_one,
    CqObserver, //
};

pub(crate) use self::{
    attr::{
        DeviceAttr,
        PortAttr,
        RoceVersions, //
    },
    completion::{
        CompletedOp,
        Completion,
        CompletionStatus,
        CqHandle,
        DatagramProtocol,
        PolledCompletions, //
    },
    device::{
        IbDevice,
        IbDeviceCall,
        IbDeviceSetup, //
    },
    dma::DmaDevice,
    link::{
        LinkOps,
        LinkRegistration, //
    },
    memory::{
        MrKind,
        MrMap,
        WordChange,
        WrSge,
        LOCAL_DMA_KEY, //
    },
    ops::{
        IbAhOps,
        IbCqOps,
        IbDeviceOps,
        IbMrOps,
        IbMwOps,
        IbQpOps,
        MwKind,
        UserCqSizes,
        UserQpSizes, //
    },
    qp::{
        IbQpState,
        IbQpType,
        MrAccess,
        QpAsyncEvent,
        QpCaps,
        QpChange,
        QpHandle,
        QpInit,
        QpRecord,
        QpReport,
        QpRings,
        QpToken, //
    },
    sgid::{
        AddressVector,
        GidProtocol, //
    },
    srq::{
        IbSrqOps,
        SrqAttr,
        SrqChange,
        SrqHandle,
        UserSrqSizes, //
    },
    stats::{
        StatName,
        StatValues, //
    },
    user::{
        NewRing,
        UserRing, //
    },
    wr::{
        FlushScope,
        RecvWr,
        RemoteAddr,
        SendOp,
        SendWr,
        UdDest,
        WindowAccess,
        WindowBinding,
        WrData,
        MAX_WR_INLINE, //
    },
};

// SPDX-License-Identifier: GPL-2.0

//! Being told of RDMA devices as they come and go.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::device::Device;
use crate::bindings;
use core::{
    marker::PhantomData,
    ptr::{
        null_mut,
        NonNull, //
    },
    sync::atomic::{
        AtomicPtr,
        Ordering, //
    },
};
use kernel::{
    container_of,
    error::to_result,
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

/// Something that happened to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortEvent {
    /// A port became usable.
    PortActive(u32),
    /// A port is not usable any more.
    PortError(u32),
    /// The GID table of a port changed.
    GidChange(u32),
    /// The device does not work any more.
    DeviceFatal,
}

/// What is done with devices.
pub(crate) trait ClientOps: 'static {
    /// What is kept for a device.
    type Data: Send + Sync + 'static;

    /// Returns the slot of this implementation, a static of its own: the kernel tells callbacks which
    /// device is meant, but not which client.
    fn slot() -> &'static ClientSlot;

    /// A device is there. Sleeps. On error the device is not used.
    fn add(dev: &Arc<Device>) -> Result<Arc<Self::Data>>;

    /// The device goes away, and nothing new can be made on it. Sleeps.
    ///
    /// On return there should be no protection domain, channel, registration or send buffer of the
    /// device left: its removal waits for them.
    fn remove(data: Arc<Self::Data>);

    /// Something happened to the device. Never after `remove` began.
    ///
    /// In process context, but the verbs core holds locks that are taken below the routing netlink
    /// lock and others, which whoever asks a device anything may take: only notes what to do.
    fn event(data: &Arc<Self::Data>, event: PortEvent);
}

/// Where the client of a [`ClientOps`] is found.
///
/// # Invariants
///
/// Null, or the `ib_client` of the one registration that exists.
pub(crate) struct ClientSlot(AtomicPtr<bindings::ib_client>);

impl ClientSlot {
    /// An empty slot.
    pub(crate) const fn new() -> Self {
        // INVARIANT: Null.
        Self(AtomicPtr::new(null_mut()))
    }
}

/// A registered client. Dropping it removes all devices from it and sleeps.
///
/// # Invariants
///
/// `client` is registered, and `T::slot()` points to it.
pub(crate) struct ClientRegistration<T: ClientOps> {
    client: KBox<Opaque<bindings::ib_client>>,
    _ops: PhantomData<fn(T)>,
}

// SAFETY: A client may be unregistered from any thread.
unsafe impl<T: ClientOps> Send for ClientRegistration<T> {}
// SAFETY: There is nothing that can be done with a shared reference.
unsafe impl<T: ClientOps> Sync for ClientRegistration<T> {}

impl<T: ClientOps> ClientRegistration<T> {
    /// Registers the client; [`ClientOps::add`] is called for each device that is there. Sleeps.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it is registered already.
    pub(crate) fn new(name: &'static CStr) -> Result<Self> {
        let client = KBox::new(Opaque::zeroed(), GFP_KERNEL)?;
        let raw: *mut bindings::ib_client = client.get();
        // SAFETY: `raw` is valid for writes and known to nobody else. Zero is valid for all fields.
        unsafe {
            (*raw).name = name.as_char_ptr();
            (*raw).add = Some(add_raw::<T>);
            (*raw).remove = Some(remove_raw::<T>);
            (*raw).rename = Some(rename_raw::<T>);
        }
        T::slot()
            .0
            .compare_exchange(null_mut(), raw, Ordering::AcqRel, Ordering::Relaxed)
            .map_err(|_| EBUSY)?;
        // INVARIANT: The slot was set above and is only cleared by `Drop`.
        let this = Self {
            client,
            _ops: PhantomData,
        };
        // SAFETY: The client is complete, does not move, and is unregistered before it is freed.
        let result = to_result(unsafe { bindings::ib_register_client(raw) });
        if let Err(err) = result {
            // The registration undid itself; there is only the slot to clear.
            T::slot().0.store(null_mut(), Ordering::Release);
            let mut this = core::mem::ManuallyDrop::new(this);
            // SAFETY: `this` is not used again, so the box is dropped exactly once.
            unsafe { core::ptr::drop_in_place(&mut this.client) };
            return Err(err);
        }
        Ok(this)
    }
}

impl<T: ClientOps> Drop for ClientRegistration<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the client is registered. On return no callback runs or
        // will run.
        unsafe { bindings::ib_unregister_client(self.client.get()) };
        T::slot().0.store(null_mut(), Ordering::Release);
    }
}

/// A device and its data, as the kernel keeps it for a client.
struct ClientDevice<T: ClientOps> {
    handler: Opaque<bindings::ib_event_handler>,
    device: Arc<Device>,
    data: Arc<T::Data>,
}

/// `ib_client::add`.
///
/// # Safety
///
/// Called by the core for a client of `T`, with a device whose driver stays until the client's
/// `remove` returned.
unsafe extern "C" fn add_raw<T: ClientOps>(raw: *mut bindings::ib_device) -> c_int {
    let Some(device) = NonNull::new(raw) else {
        return EINVAL.to_errno();
    };
    // SAFETY: The kernel hands us a valid device, and its driver stays until `remove_raw` returned,
    // or until we fail here: then `retire` is called.
    let device = match unsafe { Device::new(device) } {
        Ok(device) => device,
        Err(err) => return err.to_errno(),
    };
    let context = T::add(&device).and_then(|data| {
        let context = KBox::<ClientDevice<T>>::new_uninit(GFP_KERNEL);
        match context {
            Ok(context) => Ok(context.write(ClientDevice {
                handler: Opaque::zeroed(),
                device: device.clone(),
                data,
            })),
            Err(err) => {
                T::remove(data);
                Err(err.into())
            }
        }
    });
    match context {
        Ok(context) => {
            // Never moved again: the event handler is in a list.
            let context = KBox::into_raw(context);
            // SAFETY: `context` is valid; only here before the handler is registered.
            let handler = unsafe { (*context).handler.get() };
            // SAFETY: `handler` is valid for writes; zero is valid for its other fields.
            unsafe {
                (*handler).device = raw;
                (*handler).handler = Some(event_raw::<T>);
                bindings::INIT_LIST_HEAD(&mut (*handler).list);
            }
            // SAFETY: The device is valid, and the client is the one that is being added: `T::slot`
            // was set before it was registered.
            unsafe {
                bindings::ib_set_client_data(
                    raw,
                    T::slot().0.load(Ordering::Acquire),
                    context.cast::<c_void>(),
                )
            };
            // SAFETY: The handler stays until `remove_raw` unregistered it.
            unsafe { bindings::ib_register_event_handler(handler) };
            0
        }
        Err(err) => {
            device.refuse();
            device.retire();
            err.to_errno()
        }
    }
}

/// `ib_client::remove`.
///
/// # Safety
///
/// Called by the core for a client of `T`, once for what [`add_raw`] set.
unsafe extern "C" fn remove_raw<T: ClientOps>(
    _raw: *mut bindings::ib_device,
    client_data: *mut c_void,
) {
    let context = client_data.cast::<ClientDevice<T>>();
    if context.is_null() {
        return;
    }
    // SAFETY: `client_data` is what `add_raw` set, and this is called once for it.
    let context = unsafe { KBox::from_raw(context) };
    // SAFETY: The handler was registered by `add_raw`. On return it does not run any more.
    unsafe { bindings::ib_unregister_event_handler(context.handler.get()) };
    let ClientDevice { device, data, .. } = KBox::into_inner(context);
    device.refuse();
    T::remove(data);
    device.retire();
}

/// `ib_client::rename`.
///
/// # Safety
///
/// Called by the core for a client of `T`, between [`add_raw`] and [`remove_raw`].
unsafe extern "C" fn rename_raw<T: ClientOps>(
    _raw: *mut bindings::ib_device,
    client_data: *mut c_void,
) {
    let context = client_data.cast::<ClientDevice<T>>();
    if !context.is_null() {
        // SAFETY: `client_data` is what `add_raw` set, and `remove_raw` does not run meanwhile. The
        // kernel serialises renaming.
        unsafe { (*context).device.renamed() };
    }
}

/// `ib_event_handler::handler`.
///
/// # Safety
///
/// Called by the core for a handler that [`add_raw`] registered, with a valid event.
unsafe extern "C" fn event_raw<T: ClientOps>(
    handler: *mut bindings::ib_event_handler,
    event: *mut bindings::ib_event,
) {
    // SAFETY: The kernel hands us a valid event.
    let kind = unsafe { (*event).event };
    // SAFETY: As above; only used for events of ports, which have a port number.
    let port = || unsafe { *(*event).element.port_num };
    let event = match kind {
        bindings::ib_event_type_IB_EVENT_PORT_ACTIVE => PortEvent::PortActive(port()),
        bindings::ib_event_type_IB_EVENT_PORT_ERR => PortEvent::PortError(port()),
        bindings::ib_event_type_IB_EVENT_GID_CHANGE => PortEvent::GidChange(port()),
        bindings::ib_event_type_IB_EVENT_DEVICE_FATAL => PortEvent::DeviceFatal,
        _ => return,
    };
    // SAFETY: The handler is the field of a `ClientDevice<T>`, because only `add_raw` installs this
    // function. It is valid until `ib_unregister_event_handler` returned, which waits for us.
    let context = unsafe {
        &*container_of!(
            Opaque::cast_from(handler).cast_mut(),
            ClientDevice<T>,
            handler
        )
    };
    T::event(&context.data, event);
}

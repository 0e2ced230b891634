// SPDX-License-Identifier: GPL-2.0

//! A gate in front of the handlers of an id: one handler at a time, and none after its end.
//!
//! The connection managers serialise most handlers of an id, and their destroy functions wait for most
//! of them, but not for all: `ib_cm` calls the handler for a message that was not answered without a
//! reference to the id. So an id has a gate of its own.

use kernel::{
    new_condvar, new_mutex,
    prelude::*,
    sync::{
        CondVar,
        Mutex, //
    },
};

/// A task, by the address of its C object.
fn this_task() -> usize {
    kernel::current!().as_ptr().addr()
}

/// What is known of the handlers of an id.
struct GateState {
    /// The task that runs the handler.
    inside: Option<usize>,
    /// No handler may enter.
    closed: bool,
    /// The handler has given up its own id.
    abandoned: bool,
}

/// How a handler's visit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visit {
    /// The gate was closed, and the handler did not run.
    Refused,
    /// The handler ran.
    Done,
    /// The handler ran, and gave up its own id.
    Abandoned,
}

/// How a gate was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// No handler runs.
    Quiet,
    /// The caller is the handler that runs.
    Inside,
}

/// Serialises the handlers of an id until it is closed.
#[pin_data]
pub(super) struct HandlerGate {
    #[pin]
    state: Mutex<GateState>,
    #[pin]
    left: CondVar,
}

impl HandlerGate {
    /// An open gate.
    pub(super) fn new() -> impl PinInit<Self> {
        Self::with(None)
    }

    /// An open gate with the caller's task inside, which calls [`Self::leave`] later.
    pub(super) fn new_inside() -> impl PinInit<Self> {
        Self::with(Some(this_task()))
    }

    fn with(inside: Option<usize>) -> impl PinInit<Self> {
        let state = GateState {
            inside,
            closed: false,
            abandoned: false,
        };
        pin_init!(Self {
            state <- new_mutex!(state, "rdma_sock_cm_gate"),
            left <- new_condvar!("rdma_sock_cm_gate_left"),
        })
    }

    /// Runs a handler when no other one is inside, unless the gate is closed. Context: may sleep.
    pub(super) fn visit(&self, handler: impl FnOnce()) -> Visit {
        {
            let mut state = self.state.lock();
            while state.inside.is_some() && !state.closed {
                self.left.wait(&mut state);
            }
            if state.closed {
                return Visit::Refused;
            }
            state.inside = Some(this_task());
        }
        handler();
        self.leave()
    }

    /// The handler has ended. Context: may sleep.
    pub(super) fn leave(&self) -> Visit {
        let mut state = self.state.lock();
        state.inside = None;
        self.left.notify_all();
        if state.abandoned {
            Visit::Abandoned
        } else {
            Visit::Done
        }
    }

    /// Whether the caller is the handler that is inside. Context: may sleep.
    pub(super) fn is_inside(&self) -> bool {
        self.state.lock().inside == Some(this_task())
    }

    /// Keeps all handlers out from now on, and waits for the end of the one inside, unless it is the
    /// caller. Context: may sleep.
    pub(super) fn close(&self) -> Closed {
        let mut state = self.state.lock();
        state.closed = true;
        // Handlers that wait find the gate closed.
        self.left.notify_all();
        while let Some(task) = state.inside {
            if task == this_task() {
                return Closed::Inside;
            }
            self.left.wait(&mut state);
        }
        Closed::Quiet
    }

    /// Notes that the handler gives up its own id, for the function that called it. Context: may sleep.
    pub(super) fn abandon(&self) {
        self.state.lock().abandoned = true;
    }
}

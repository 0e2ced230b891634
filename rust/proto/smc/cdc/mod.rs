// SPDX-License-Identifier: GPL-2.0

//! The data path of a connection and the CDC messages that steer it, RFC 7609, section 4, A.4.
//!
//! Both sides own a ring buffer, an element of a remote memory buffer, that the other side writes
//! to by RDMA. A CDC message behind the writes says where they end (producer cursor), how far its
//! sender has read its own element (consumer cursor), and how the connection stands (flags).
//!
//! ```text
//!   application          send ring            element of the peer          application
//!   send_segments() ---> [ accepted ] --WRITE--> [ produced ] ---> recv_segments()
//!   write()                ^   poll_transmit()      ^    handle_cdc()   read()
//!                          |   CDC(produced)  ------+         |
//!        handle_sent() ----+   <------------------ CDC(consumed)
//! ```
//!
//! | What                                        | File         |
//! |---------------------------------------------|--------------|
//! | Octets of the message                       | [`msg`]      |
//! | Positions, window and corking when sending  | [`send`]     |
//! | Positions and updates when receiving        | [`recv`]     |
//! | The connection: both directions and its end | [`conn`]     |
//! | Its events for the engine                   | [`events`]   |
//! | The first message after a move              | `validation` |
//! | The RFC's examples as tests                 | `traces`     |
//!
//! Urgent data (4.7.5, 4.7.6) has the semantics of TCP on Linux: only the last mark counts.

pub(crate) mod conn;
#[cfg(test)]
mod end_of_stream;
mod events;
pub(crate) mod msg;
mod recv;
#[cfg(test)]
mod report;
#[cfg(test)]
mod scaled;
mod send;
#[cfg(test)]
mod testing;
mod validation;

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
mod traces;

pub(crate) use self::{
    conn::{
        Conn,
        ConnConfig,
        Ending,
        Report,
        TcpFound,
        Transmit, //
    },
    events::{
        SendError,
        Violation, //
    },
    msg::Msg,
    send::{
        Token,
        MAX_WRITES, //
    },
};
pub(crate) use super::close::{
    CloseError,
    CloseTimers,
    Tcp, //
};
pub(crate) use crate::proto::stream::positions::Segment;

// For tests, which inspect values that the engine only passes on.
#[cfg(any(test, fuzzing))]
pub(crate) use self::send::WriteSeg;
#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
pub(crate) use super::close::CloseState;
#[cfg(any(test, fuzzing))]
pub(crate) use crate::proto::stream::events::StreamEvents;
#[cfg(any(test, fuzzing, CONFIG_RDMA_SOCK_KUNIT_TEST))]
pub(crate) use crate::proto::stream::events::{
    Fetch,
    Receive, //
};

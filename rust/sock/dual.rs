// SPDX-License-Identifier: GPL-2.0

//! Sockets of two protocols: one whose offer TCP carries, and one beside TCP.
//!
//! Such a listener is one of the first protocol, with a service of the second (`listen`): clients of
//! both, and of TCP, come into its queue. A client uses the first protocol, or the second if that has
//! reason to believe that the host speaks it. So a socket has the context of one protocol from its
//! first use on, a child from its birth, and that context decides which operations serve a call.

use super::{
    connect::context_or_new,
    connection::{
        Connection,
        Protocol, //
    },
    listen,
    ops::StreamOps,
    stats::Side, //
};
use crate::kapi::net::{
    family::FamilyRegistration,
    msg::{
        AcceptArg,
        ConnectFlags,
        Name,
        NameBuf,
        RecvMsg,
        SendMsg, //
    },
    ops::{
        SocketOps,
        Splice, //
    },
    poll::{
        Events,
        PollTable, //
    },
    socket::{
        Accepted,
        Closing,
        NewSocket,
        Socket, //
    },
    sockopt::{
        GetOpt,
        SetOpt, //
    },
    uapi::AF_UNSPEC,
};
use core::marker::PhantomData;
use kernel::prelude::*;

/// Protocol number of the sockets in the Internet families.
const IPPROTO_DUAL: u16 = 258;

/// The socket operations of two protocols, of which `B` is the one beside TCP.
pub(crate) struct DualOps<A, B>(PhantomData<fn(A, B)>);

/// The sockets of two protocols, registered. Dropping it ends the creation of sockets; none may exist
/// then.
pub(crate) struct Dual<A: Protocol, B: Protocol> {
    _family: FamilyRegistration<DualOps<A, B>>,
}

impl<A: Protocol, B: Protocol> Dual<A, B> {
    /// Registers the protocol number. Context: may sleep.
    ///
    /// # Errors
    ///
    /// Those of the kernel.
    pub(crate) fn new() -> Result<Self> {
        const {
            assert!(!A::BESIDE_TCP && B::BESIDE_TCP);
        }
        let family = FamilyRegistration::new(&[], IPPROTO_DUAL)?;
        Ok(Self { _family: family })
    }
}

/// Calls an operation of the protocol that serves a socket: `A` unless it has a context of `B`.
macro_rules! serve {
    ($sock:expr, $op:ident($($arg:expr),*)) => {
        if is_of::<B>($sock) {
            StreamOps::<B>::$op($($arg),*)
        } else {
            StreamOps::<A>::$op($($arg),*)
        }
    };
}

/// Whether a socket has the context of this protocol. Context: any.
fn is_of<P: Protocol>(sock: &Socket) -> bool {
    sock.context::<Connection<P>>().is_some()
}

/// Whether a socket has its first use yet to come, and would rather connect to `name` by this protocol.
fn would_rather<A: Protocol, B: Protocol>(sock: &Socket, name: &Name) -> bool {
    let is_unused = !is_of::<A>(sock) && !is_of::<B>(sock);
    is_unused && name.family() != Some(AF_UNSPEC) && B::is_preferred(sock.sk(), name)
}

impl<A: Protocol, B: Protocol> SocketOps for DualOps<A, B> {
    fn release(sock: Closing<'_>) -> Result {
        serve!(&sock, release(sock))
    }

    fn bind(sock: &Socket, name: &Name) -> Result {
        serve!(sock, bind(sock, name))
    }

    fn connect(sock: &Socket, name: &Name, flags: ConnectFlags) -> Result {
        if would_rather::<A, B>(sock, name) {
            // Without memory, or if another call was quicker, it is one of the first.
            let _ = context_or_new::<B>(sock, Side::Client);
        }
        serve!(sock, connect(sock, name, flags))
    }

    fn accept<'a>(
        sock: &Socket,
        newsock: NewSocket<'a>,
        arg: &mut AcceptArg,
    ) -> Result<Accepted<'a>> {
        serve!(sock, accept(sock, newsock, arg))
    }

    fn getname(sock: &Socket, buf: &mut NameBuf, peer: i32) -> Result<usize> {
        serve!(sock, getname(sock, buf, peer))
    }

    fn poll(sock: &Socket, table: &PollTable) -> Events {
        serve!(sock, poll(sock, table))
    }

    fn ioctl(sock: &Socket, cmd: u32, arg: usize) -> Result<i32> {
        serve!(sock, ioctl(sock, cmd, arg))
    }

    #[cfg(CONFIG_COMPAT)]
    fn compat_ioctl(sock: &Socket, cmd: u32, arg: usize) -> Result<i32> {
        serve!(sock, compat_ioctl(sock, cmd, arg))
    }

    fn listen(sock: &Socket, backlog: i32) -> Result {
        serve!(sock, listen(sock, backlog))?;
        // A socket that failed to connect by the second protocol serves that one and TCP.
        if let Some(listener) = sock.context::<Connection<A>>() {
            listen::serve::<B, A>(&listener.into());
        }
        Ok(())
    }

    fn shutdown(sock: &Socket, how: i32) -> Result {
        serve!(sock, shutdown(sock, how))
    }

    fn setsockopt(sock: &Socket, opt: &mut SetOpt) -> Result {
        serve!(sock, setsockopt(sock, opt))
    }

    fn getsockopt(sock: &Socket, opt: &mut GetOpt) -> Result {
        serve!(sock, getsockopt(sock, opt))
    }

    fn sendmsg(sock: &Socket, msg: &mut SendMsg<'_>) -> Result<usize> {
        serve!(sock, sendmsg(sock, msg))
    }

    fn recvmsg(sock: &Socket, msg: &mut RecvMsg<'_>) -> Result<usize> {
        serve!(sock, recvmsg(sock, msg))
    }

    fn splice_read(sock: &Socket, splice: &mut Splice) -> Result<usize> {
        serve!(sock, splice_read(sock, splice))
    }

    fn splice_eof(sock: &Socket) {
        serve!(sock, splice_eof(sock))
    }

    fn peek_len(sock: &Socket) -> Result<usize> {
        serve!(sock, peek_len(sock))
    }

    fn allows_read_sock(sock: &Socket) -> bool {
        serve!(sock, allows_read_sock(sock))
    }

    fn allows_mmap(sock: &Socket) -> bool {
        serve!(sock, allows_mmap(sock))
    }
}

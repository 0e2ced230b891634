// SPDX-License-Identifier: GPL-2.0

//! The operations of a socket family that is TCP unless its engine says otherwise.
//!
//! C header: [`include/linux/net.h`](srctree/include/linux/net.h)

use super::{
    msg::{
        AcceptArg,
        ConnectFlags,
        Name,
        NameBuf,
        RecvMsg,
        SendMsg, //
    },
    poll::{
        Events,
        PollTable, //
    },
    sock::Family,
    socket::{
        Accepted,
        Closing,
        NewSocket,
        Socket, //
    },
    sockopt::{
        GetOpt,
        SetOpt,
        SOL_TCP, //
    },
};
use crate::{
    bindings,
    kapi::compat::errno::EOPNOTSUPP, //
};
use core::marker::PhantomData;
use kernel::{
    bindings as kb,
    error::from_result,
    ffi,
    prelude::*, //
};

/// `TCP_ULP`.
const TCP_ULP: i32 = 31;
/// `TCP_SAVE_SYN`.
const TCP_SAVE_SYN: i32 = 27;
/// `SOL_IPV6`.
const SOL_IPV6: i32 = 41;
/// `IPV6_ADDRFORM`.
const IPV6_ADDRFORM: i32 = 1;

/// What a program does with a socket.
///
/// Every function has the behaviour of a TCP socket until it is implemented. All may sleep, and are
/// called without the lock of the sock.
pub(crate) trait SocketOps: Sized + Send + Sync + 'static {
    /// Address families that stand for others in the addresses of `bind` and `connect`.
    const ALIASES: &'static [(u16, u16)] = &[];

    /// The last close(). No other call is running.
    fn release(sock: Closing<'_>) -> Result {
        sock.inet_release()
    }

    /// bind().
    fn bind(sock: &Socket, name: &Name) -> Result {
        sock.inet_bind(name)
    }

    /// connect().
    fn connect(sock: &Socket, name: &Name, flags: ConnectFlags) -> Result {
        sock.inet_connect(name, flags.raw())
    }

    /// accept().
    fn accept<'a>(
        sock: &Socket,
        newsock: NewSocket<'a>,
        arg: &mut AcceptArg,
    ) -> Result<Accepted<'a>> {
        sock.inet_accept(newsock, arg)
    }

    /// getsockname() (`peer` 0), getpeername() (1, or 2 in any state); returns the length.
    fn getname(sock: &Socket, buf: &mut NameBuf, peer: i32) -> Result<usize> {
        sock.inet_getname(buf, peer)
    }

    /// poll(), select(), epoll.
    fn poll(sock: &Socket, table: &PollTable) -> Events {
        sock.inet_poll(table)
    }

    /// ioctl().
    fn ioctl(sock: &Socket, cmd: u32, arg: usize) -> Result<i32> {
        sock.inet_ioctl(cmd, arg)
    }

    /// ioctl() of a 32-bit program.
    #[cfg(CONFIG_COMPAT)]
    fn compat_ioctl(sock: &Socket, cmd: u32, arg: usize) -> Result<i32> {
        sock.inet_compat_ioctl(cmd, arg)
    }

    /// listen().
    fn listen(sock: &Socket, backlog: i32) -> Result {
        sock.inet_listen(backlog)
    }

    /// shutdown(); `how` is 0 for reading, 1 for writing, 2 for both.
    fn shutdown(sock: &Socket, how: i32) -> Result {
        sock.inet_shutdown(how)
    }

    /// setsockopt(). Of a socket without a context the kernel handles the level `SOL_SOCKET`.
    fn setsockopt(sock: &Socket, opt: &mut SetOpt) -> Result {
        sock.inet_setsockopt(opt)
    }

    /// getsockopt(), except the level `SOL_SOCKET`, which the kernel handles.
    fn getsockopt(sock: &Socket, opt: &mut GetOpt) -> Result {
        sock.inet_getsockopt(opt)
    }

    /// send(), sendmsg(), write(), splice and sendfile to the socket.
    fn sendmsg(sock: &Socket, msg: &mut SendMsg<'_>) -> Result<usize> {
        sock.inet_sendmsg(msg)
    }

    /// recv(), recvmsg(), read().
    fn recvmsg(sock: &Socket, msg: &mut RecvMsg<'_>) -> Result<usize> {
        sock.inet_recvmsg(msg)
    }

    /// splice() and sendfile() from the socket.
    fn splice_read(sock: &Socket, splice: &mut Splice) -> Result<usize> {
        sock.inet_splice_read(splice)
    }

    /// The end of a splice to the socket.
    fn splice_eof(sock: &Socket) {
        sock.inet_splice_eof()
    }

    /// How many octets can be read at once; for users in the kernel.
    fn peek_len(sock: &Socket) -> Result<usize> {
        sock.inet_peek_len()
    }

    /// Whether users in the kernel may read from TCP's queue directly (`read_sock`). The sock is
    /// locked.
    fn allows_read_sock(_sock: &Socket) -> bool {
        true
    }

    /// Whether mmap() may prepare for pages of TCP's queue (`TCP_ZEROCOPY_RECEIVE`).
    fn allows_mmap(_sock: &Socket) -> bool {
        true
    }
}

/// One splice from a socket to a pipe.
///
/// # Invariants
///
/// The pointers are the arguments of a running `splice_read` operation of `sock`.
pub(crate) struct Splice {
    sock: *mut kb::socket,
    pos: *mut kb::loff_t,
    pipe: *mut kb::pipe_inode_info,
    len: usize,
    flags: u32,
}

impl Splice {
    /// Copies through the `recvmsg` operation of the socket.
    pub(crate) fn copy(&mut self) -> Result<usize> {
        // SAFETY: By the type invariants; a socket that is spliced from has a file.
        let ret = unsafe {
            kb::copy_splice_read((*self.sock).file, self.pos, self.pipe, self.len, self.flags)
        };
        size_result(ret)
    }
}

fn size_result(ret: isize) -> Result<usize> {
    usize::try_from(ret).map_err(|_| {
        let errno = i32::try_from(ret).unwrap_or(EINVAL.to_errno());
        Error::from_errno(errno)
    })
}

impl Socket {
    /// accept() of TCP.
    pub(crate) fn inet_accept<'a>(
        &self,
        newsock: NewSocket<'a>,
        arg: &mut AcceptArg,
    ) -> Result<Accepted<'a>> {
        newsock.inet_accept(self, arg.raw)
    }

    /// poll() of TCP.
    pub(crate) fn inet_poll(&self, table: &PollTable) -> Events {
        match self.inet().poll {
            // SAFETY: The socket is valid, the table by its invariants.
            Some(op) => Events::from_bits(unsafe { op(table.file, self.as_raw(), table.table) }),
            None => Events::NONE,
        }
    }

    /// splice() of TCP.
    pub(crate) fn inet_splice_read(&self, splice: &mut Splice) -> Result<usize> {
        let op = self.inet().splice_read.ok_or(EOPNOTSUPP)?;
        // SAFETY: The socket is valid, the rest by the invariants of `Splice`.
        size_result(unsafe {
            op(
                self.as_raw(),
                splice.pos,
                splice.pipe,
                splice.len,
                splice.flags,
            )
        })
    }

    /// The end of a splice, for TCP.
    pub(crate) fn inet_splice_eof(&self) {
        if let Some(op) = self.inet().splice_eof {
            // SAFETY: The socket is valid.
            unsafe { op(self.as_raw()) }
        }
    }

    /// What TCP has to read.
    pub(crate) fn inet_peek_len(&self) -> Result<usize> {
        let op = self.inet().peek_len.ok_or(EOPNOTSUPP)?;
        // SAFETY: The socket is valid.
        size_result(unsafe { op(self.as_raw()) } as isize)
    }
}

/// The table of operations of the engine `T`.
pub(super) struct OpsVTable<T: SocketOps>(PhantomData<T>);

impl<T: SocketOps> OpsVTable<T> {
    /// The operations for a family: `base` (those of TCP) with the engine's in place.
    pub(super) fn table(base: &kb::proto_ops, family: u16) -> kb::proto_ops {
        kb::proto_ops {
            // The engine's.
            release: Some(Self::release),
            bind: Some(Self::bind),
            connect: Some(Self::connect),
            accept: Some(Self::accept),
            getname: Some(Self::getname),
            poll: Some(Self::poll),
            ioctl: Some(Self::ioctl),
            #[cfg(CONFIG_COMPAT)]
            compat_ioctl: Some(Self::compat_ioctl),
            listen: Some(Self::listen),
            shutdown: Some(Self::shutdown),
            setsockopt: Some(Self::setsockopt),
            getsockopt: Some(Self::getsockopt),
            sendmsg: Some(Self::sendmsg),
            recvmsg: Some(Self::recvmsg),
            splice_read: Some(Self::splice_read),
            splice_eof: Some(Self::splice_eof),
            peek_len: Some(Self::peek_len),
            read_sock: Some(Self::read_sock),
            mmap: Some(Self::mmap),
            // The kernel would take it in place of `getsockopt`.
            getsockopt_iter: None,
            // TCP's. Every member is named, so that a new one of the kernel is decided on here.
            family: i32::from(family),
            socketpair: base.socketpair,
            gettstamp: base.gettstamp,
            show_fdinfo: base.show_fdinfo,
            set_peek_off: base.set_peek_off,
            read_skb: base.read_skb,
            sendmsg_locked: base.sendmsg_locked,
            set_rcvlowat: base.set_rcvlowat,
            set_rcvbuf: base.set_rcvbuf,
            // SAFETY: Always safe to call.
            owner: unsafe { bindings::rdma_sock_helper_this_module() }.cast(),
        }
    }

    // The C functions. For all of them: they are called by the kernel with a socket whose
    // operations these are, and which stays, with its sock, for the time of the call.

    /// # Safety
    ///
    /// Called by the kernel, see above.
    unsafe extern "C" fn release(sock: *mut kb::socket) -> ffi::c_int {
        // SAFETY: The socket is valid.
        if unsafe { (*sock).sk }.is_null() {
            return 0;
        }
        // SAFETY: See above; this is the release, and the sock is there.
        let closing = unsafe { Closing::new(Socket::from_raw(sock)) };
        from_result(|| T::release(closing).map(|()| 0))
    }

    /// # Safety
    ///
    /// Called by the kernel, see above.
    unsafe extern "C" fn bind(
        sock: *mut kb::socket,
        addr: *mut kb::sockaddr_unsized,
        len: ffi::c_int,
    ) -> ffi::c_int {
        // SAFETY: See above.
        let socket = unsafe { Socket::from_raw(sock) };
        // INVARIANT: The kernel copied the address of that length.
        let mut name = Name { raw: addr, len };
        name.replace_family(T::ALIASES);
        from_result(|| T::bind(socket, &name).map(|()| 0))
    }

    /// # Safety
    ///
    /// Called by the kernel, see above.
    unsafe extern "C" fn connect(
        sock: *mut kb::socket,
        addr: *mut kb::sockaddr_unsized,
        len: ffi::c_int,
        flags: ffi::c_int,
    ) -> ffi::c_int {
        // SAFETY: See above.
        let socket = unsafe { Socket::from_raw(sock) };
        socket.settle();
        // INVARIANT: The kernel copied the address of that length.
        let mut name = Name { raw: addr, len };
        name.replace_family(T::ALIASES);
        from_result(|| T::connect(socket, &name, ConnectFlags(flags)).map(|()| 0))
    }

    /// # Safety
    ///
    /// Called by the kernel, see above.
    unsafe extern "C" fn accept(
        sock: *mut kb::socket,
        newsock: *mut kb::socket,
        arg: *mut kb::proto_accept_arg,
    ) -> ffi::c_int {
        // SAFETY: See above.
        let socket = unsafe { Socket::from_raw(sock) };
        // SAFETY: This is the second argument of this operation.
        let newsock = unsafe { NewSocket::from_raw(newsock) };
        // INVARIANT: This is the argument of this operation.
        let mut arg = AcceptArg { raw: arg };
        from_result(|| T::accept(socket, newsock, &mut arg).map(|Accepted { .. }| 0))
    }

    /// # Safety
    ///
    /// Called by the kernel, see above.
    unsafe extern "C" fn getname(
        sock: *mut kb::socket,
        addr: *mut kb::sockaddr,
        peer: ffi::c_int,
    ) -> ffi::c_int {
        // SAFETY: See above.
        let socket = unsafe { Socket::from_raw(sock) };
        // INVARIANT: The kernel gives room for the largest address.
        let mut buf = NameBuf { raw: addr };
        from_result(|| T::getname(socket, &mut buf, peer).and_then(|len| Ok(i32::try_from(len)?)))
    }

    /// # Safety
    ///
    /// Called by the kernel, see above.
    unsafe extern "C" fn poll(
        file: *mut kb::file,
        sock: *mut kb::socket,
        table: *mut kb::poll_table_struct,
    ) -> kb::__poll_t {
        // SAFETY: See above.
        let socket = unsafe { Socket::from_raw(sock) };
        // INVARIANT: These are the arguments of this operation.
        T::poll(socket, &PollTable { file, table }).bits()
    }

    /// # Safety
    ///
    /// Called by the kernel, see above.
    unsafe extern "C" fn ioctl(
        sock: *mut kb::socket,
        cmd: ffi::c_uint,
        arg: ffi::c_ulong,
    ) -> ffi::c_int {
        // SAFETY: See above.
        let socket = unsafe { Socket::from_raw(sock) };
        from_result(|| T::ioctl(socket, cmd, arg))
    }

    /// # Safety
    ///
    /// Called by the kernel, see above.
    #[cfg(CONFIG_COMPAT)]
    unsafe extern "C" fn compat_ioctl(
        sock: *mut kb::socket,
        cmd: ffi::c_uint,
        arg: ffi::c_ulong,
    ) -> ffi::c_int {
        // SAFETY: See above.
        let socket = unsafe { Socket::from_raw(sock) };
        from_result(|| T::compat_ioctl(socket, cmd, arg))
    }

    /// # Safety
    ///
    /// Called by the kernel, see above.
    unsafe extern "C" fn listen(sock: *mut kb::socket, backlog: ffi::c_int) -> ffi::c_int {
        // SAFETY: See above.
        let socket = unsafe { Socket::from_raw(sock) };
        socket.settle();
        from_result(|| T::listen(socket, backlog).map(|()| 0))
    }

    /// # Safety
    ///
    /// Called by the kernel, see above.
    unsafe extern "C" fn shutdown(sock: *mut kb::socket, how: ffi::c_int) -> ffi::c_int {
        // SAFETY: See above.
        let socket = unsafe { Socket::from_raw(sock) };
        from_result(|| T::shutdown(socket, how).map(|()| 0))
    }

    /// # Safety
    ///
    /// Called by the kernel, see above.
    unsafe extern "C" fn setsockopt(
        sock: *mut kb::socket,
        level: ffi::c_int,
        name: ffi::c_int,
        value: kb::sockptr_t,
        len: ffi::c_uint,
    ) -> ffi::c_int {
        if level == SOL_TCP && name == TCP_ULP {
            // Upper layers (kTLS) take the operations of the socket over, and do not give them
            // back.
            return EOPNOTSUPP.to_errno();
        }
        // SAFETY: See above.
        let socket = unsafe { Socket::from_raw(sock) };
        socket.settle();
        if level == SOL_IPV6 && name == IPV6_ADDRFORM && socket.sk().family() == Family::V6 {
            // TCP would put its own operations on the socket, for calls that run meanwhile, too.
            return EOPNOTSUPP.to_errno();
        }
        // INVARIANT: The value is the caller's.
        let mut opt = SetOpt {
            level,
            name,
            value,
            len,
        };
        let ret = from_result(|| T::setsockopt(socket, &mut opt).map(|()| 0));
        if level == SOL_TCP && name == TCP_SAVE_SYN {
            socket.keep_saving_syn();
        }
        ret
    }

    /// # Safety
    ///
    /// Called by the kernel, see above.
    unsafe extern "C" fn getsockopt(
        sock: *mut kb::socket,
        level: ffi::c_int,
        name: ffi::c_int,
        value: *mut ffi::c_char,
        len: *mut ffi::c_int,
    ) -> ffi::c_int {
        // SAFETY: See above.
        let socket = unsafe { Socket::from_raw(sock) };
        // INVARIANT: The addresses are the caller's.
        let mut opt = GetOpt {
            level,
            name,
            value,
            len,
        };
        if level == SOL_TCP && name == TCP_SAVE_SYN && socket.saves_syn_for_us() {
            return from_result(|| opt.write_int(0).map(|()| 0));
        }
        from_result(|| T::getsockopt(socket, &mut opt).map(|()| 0))
    }

    /// # Safety
    ///
    /// Called by the kernel, see above.
    unsafe extern "C" fn sendmsg(
        sock: *mut kb::socket,
        msg: *mut kb::msghdr,
        len: usize,
    ) -> ffi::c_int {
        // SAFETY: See above.
        let socket = unsafe { Socket::from_raw(sock) };
        socket.settle();
        // SAFETY: These are the arguments of this operation.
        let mut msg = unsafe { SendMsg::new(msg, len) };
        from_result(|| T::sendmsg(socket, &mut msg).and_then(|n| Ok(i32::try_from(n)?)))
    }

    /// # Safety
    ///
    /// Called by the kernel, see above.
    unsafe extern "C" fn recvmsg(
        sock: *mut kb::socket,
        msg: *mut kb::msghdr,
        len: usize,
        flags: ffi::c_int,
    ) -> ffi::c_int {
        // SAFETY: See above.
        let socket = unsafe { Socket::from_raw(sock) };
        // SAFETY: These are the arguments of this operation.
        let mut msg = unsafe { RecvMsg::new(msg, len, flags) };
        from_result(|| T::recvmsg(socket, &mut msg).and_then(|n| Ok(i32::try_from(n)?)))
    }

    /// # Safety
    ///
    /// Called by the kernel, see above.
    unsafe extern "C" fn splice_read(
        sock: *mut kb::socket,
        pos: *mut kb::loff_t,
        pipe: *mut kb::pipe_inode_info,
        len: usize,
        flags: ffi::c_uint,
    ) -> isize {
        // SAFETY: See above.
        let socket = unsafe { Socket::from_raw(sock) };
        // INVARIANT: These are the arguments of this operation.
        let mut splice = Splice {
            sock,
            pos,
            pipe,
            len,
            flags,
        };
        match T::splice_read(socket, &mut splice) {
            Ok(len) => isize::try_from(len).unwrap_or(isize::MAX),
            Err(err) => err.to_errno() as isize,
        }
    }

    /// # Safety
    ///
    /// Called by the kernel, see above.
    unsafe extern "C" fn splice_eof(sock: *mut kb::socket) {
        // SAFETY: See above.
        T::splice_eof(unsafe { Socket::from_raw(sock) })
    }

    /// # Safety
    ///
    /// Called by the kernel, see above.
    unsafe extern "C" fn peek_len(sock: *mut kb::socket) -> ffi::c_int {
        // SAFETY: See above.
        let socket = unsafe { Socket::from_raw(sock) };
        from_result(|| T::peek_len(socket).and_then(|n| Ok(i32::try_from(n)?)))
    }

    /// # Safety
    ///
    /// Called by the kernel, see above.
    unsafe extern "C" fn mmap(
        file: *mut kb::file,
        sock: *mut kb::socket,
        vma: *mut kb::vm_area_struct,
    ) -> ffi::c_int {
        // SAFETY: See above.
        let socket = unsafe { Socket::from_raw(sock) };
        match socket.inet().mmap {
            // SAFETY: The arguments are the caller's.
            Some(op) if T::allows_mmap(socket) => unsafe { op(file, sock, vma) },
            _ => ENODEV.to_errno(),
        }
    }

    /// # Safety
    ///
    /// Called by the kernel, see above.
    unsafe extern "C" fn read_sock(
        sk: *mut kb::sock,
        desc: *mut kb::read_descriptor_t,
        actor: kb::sk_read_actor_t,
    ) -> ffi::c_int {
        // SAFETY: The sock is locked by the caller, which got here by its socket.
        let sock = unsafe { bindings::rdma_sock_helper_sk_socket(sk.cast()) };
        if sock.is_null() {
            return EINVAL.to_errno();
        }
        // SAFETY: As above.
        let socket = unsafe { Socket::from_raw(sock.cast()) };
        if !T::allows_read_sock(socket) {
            return EOPNOTSUPP.to_errno();
        }
        match socket.inet().read_sock {
            // SAFETY: The arguments are the caller's.
            Some(op) => unsafe { op(sk, desc, actor) },
            None => EOPNOTSUPP.to_errno(),
        }
    }
}

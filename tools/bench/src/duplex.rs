// SPDX-License-Identifier: GPL-2.0

//! Data both ways at once on one connection, by one thread: it reads when there is something, and
//! writes when there is room.

use crate::server::READ;
use anyhow::Result;
use rustix::event::{
    poll,
    PollFd,
    PollFlags, //
};
use std::{
    io::{
        ErrorKind,
        Read,
        Write, //
    },
    net::{
        Shutdown,
        TcpStream, //
    },
};

/// Writes pieces of `size` octets until `enough` says so, which is asked before each and told whether
/// the peer has ended, and reads to the end. Returns the octets that were written and read.
pub fn run(
    mut stream: &TcpStream,
    size: u32,
    mut enough: impl FnMut(bool) -> bool,
) -> Result<(u64, u64)> {
    let data = vec![0x5a; size as usize];
    let mut buffer = vec![0; READ];
    let (mut sent, mut received) = (0u64, 0u64);
    // How much of a piece is out; `None` when there are no more.
    let mut out = Some(0usize);
    let mut over = false;
    stream.set_nonblocking(true)?;
    while out.is_some() || !over {
        let mut want = PollFlags::empty();
        want.set(PollFlags::IN, !over);
        want.set(PollFlags::OUT, out.is_some());
        let mut fds = [PollFd::new(&stream, want)];
        poll(&mut fds, None)?;
        if !over {
            match stream.read(&mut buffer) {
                Ok(0) => over = true,
                Ok(count) => received += count as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(at) = out {
            if at == 0 && enough(over) {
                stream.shutdown(Shutdown::Write)?;
                out = None;
                continue;
            }
            match stream.write(&data[at..]) {
                Ok(count) => {
                    sent += count as u64;
                    out = Some((at + count) % data.len());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok((sent, received))
}

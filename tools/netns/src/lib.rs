// SPDX-License-Identifier: GPL-2.0

//! Cookies of network namespaces.
//!
//! The number of a namespace's inode is used again at once after its end. Its cookie never is, until the
//! next boot. The unsafe code of reading it is that of the library's macro.

use nix::{
    errno::Errno,
    getsockopt_impl, libc,
    sched::{
        setns,
        CloneFlags, //
    },
    sockopt_impl,
    sys::socket::{
        getsockopt,
        socket,
        AddressFamily,
        SockFlag,
        SockType, //
    },
};
use std::{
    fs::File,
    io,
    thread, //
};

/// The option that reads the cookie.
const SO_NETNS_COOKIE: libc::c_int = 71;

sockopt_impl!(
    /// The cookie of the network namespace that a socket belongs to.
    NetnsCookie,
    GetOnly,
    libc::SOL_SOCKET,
    SO_NETNS_COOKIE,
    u64
);

/// The cookie of the namespace whose file this is. Needs the privilege to enter it.
///
/// # Errors
///
/// `EINVAL` if the file is not that of a network namespace, and errors of the system calls.
pub fn cookie(file: File) -> io::Result<u64> {
    // The namespace is that of a thread, and the other threads keep theirs.
    let read = thread::spawn(move || {
        setns(&file, CloneFlags::CLONE_NEWNET)?;
        own_cookie()
    });
    let result = read.join();
    Ok(result.map_err(|_| io::Error::other("a thread has panicked"))??)
}

/// The cookie of the namespace of this thread.
fn own_cookie() -> Result<u64, Errno> {
    let any = socket(
        AddressFamily::Unix,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    getsockopt(&any, NetnsCookie)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookie_of_a_namespace_stays_and_is_not_zero() {
        let cookie = own_cookie().unwrap();
        assert_ne!(cookie, 0);
        assert_eq!(own_cookie().unwrap(), cookie);
    }

    #[test]
    fn file_that_is_no_namespace_is_refused() {
        let file = File::open("/proc/self/stat").unwrap();
        let error = cookie(file).unwrap_err();
        // Without the privilege to enter any namespace it is the same.
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }
}

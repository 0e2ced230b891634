// SPDX-License-Identifier: GPL-2.0

//! A library to preload into a program that should use SMC or SDP instead of TCP.
//!
//! It wraps `socket(2)`: a request for a TCP stream socket becomes one for `IPPROTO_SMC`, `IPPROTO_SDP`,
//! or both of them. If the kernel cannot make that socket, the program gets the TCP socket it asked for, so a program runs
//! on machines without the module as if the library were not there. Nothing else needs wrapping:
//! sockets from `accept(2)` are of the kind of the listening socket.
//!
//! `RDMA_SOCK_PROTO` in the environment names the protocol: `smc`, which is the default, `sdp`, or
//! `auto` for both: then listeners serve the clients of both. A kernel that lacks that may have SMC.
//!
//! `SMC_RCVBUF` and `SMC_SNDBUF` in the environment are the sizes that the buffers of these sockets get
//! at first: octets, or KiB or MiB with a `K` or `M` behind the number.
//!
//! Programs that do not create sockets through the C library (statically linked ones, Go's runtime)
//! and programs that the loader does not preload into (set-user-ID) are not reached.

use libc::c_int;
use std::{
    ffi::CStr,
    mem, ptr, str,
    sync::atomic::{
        AtomicBool,
        AtomicPtr,
        AtomicU32,
        Ordering, //
    },
};

/// Protocol numbers in the internet families; that of SMC is from `linux/in.h`.
const IPPROTO_SMC: c_int = 256;
const IPPROTO_SDP: c_int = 257;
/// Of sockets that take part in both.
const IPPROTO_DUAL: c_int = 258;

/// What the environment calls the protocol.
const PROTOCOL: &CStr = c"RDMA_SOCK_PROTO";

/// The bits of the type argument that are the type; the others are flags.
const SOCK_TYPE_MASK: c_int = 0xf;

/// How long a kernel without the protocol is left alone. Each try there makes the kernel look for
/// a module to load, which takes milliseconds.
const RETRY_SECONDS: u32 = 10;

type SocketFn = unsafe extern "C" fn(c_int, c_int, c_int) -> c_int;

/// What the environment calls the sizes of buffers, and the socket options that set them.
const SIZES: [(&CStr, c_int); 2] = [
    (c"SMC_RCVBUF", libc::SO_RCVBUF),
    (c"SMC_SNDBUF", libc::SO_SNDBUF),
];

/// The sizes that were asked for at the start of the program, in the order of [`SIZES`]; 0 none.
static BUFFERS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

/// The C library's `socket`, or null until it has been looked up.
static NEXT_SOCKET: AtomicPtr<libc::c_void> = AtomicPtr::new(ptr::null_mut());

/// A protocol that may take the place of TCP.
struct Candidate {
    /// Its number.
    protocol: c_int,
    /// Whether the program shall use it.
    is_wanted: AtomicBool,
    /// Second of the monotonic clock, plus one, at which the kernel last lacked it; 0 never.
    lacked_at: AtomicU32,
}

impl Candidate {
    const fn new(protocol: c_int, is_wanted: bool) -> Self {
        Self {
            protocol,
            is_wanted: AtomicBool::new(is_wanted),
            lacked_at: AtomicU32::new(0),
        }
    }

    /// Is it worth a try now?
    fn is_worth_a_try(&self) -> bool {
        // Hints among threads, nothing is published with them.
        self.is_wanted.load(Ordering::Relaxed)
            && !is_too_early(self.lacked_at.load(Ordering::Relaxed), now())
    }
}

/// The protocols in the order in which they are tried.
static CANDIDATES: [Candidate; 3] = [
    Candidate::new(IPPROTO_DUAL, false),
    Candidate::new(IPPROTO_SMC, true),
    Candidate::new(IPPROTO_SDP, false),
];

/// Which of [`CANDIDATES`] a word of the environment means.
fn wanted_by(word: &[u8]) -> [bool; 3] {
    match word {
        b"sdp" => [false, false, true],
        b"auto" => [true, true, false],
        _ => [false, true, false],
    }
}

/// Does a socket with these arguments become a socket of such a protocol?
fn is_tcp(family: c_int, kind: c_int, protocol: c_int) -> bool {
    matches!(family, libc::AF_INET | libc::AF_INET6)
        && kind & SOCK_TYPE_MASK == libc::SOCK_STREAM
        && matches!(protocol, 0 | libc::IPPROTO_TCP)
}

/// Does this error mean that the kernel has no such protocol, and will not have it soon?
fn is_lack_of_protocol(errno: c_int) -> bool {
    matches!(errno, libc::EPROTONOSUPPORT | libc::ESOCKTNOSUPPORT)
}

/// Is it too early to try again, `lacked_at` being that of a [`Candidate`]?
fn is_too_early(lacked_at: u32, now: u32) -> bool {
    lacked_at != 0 && now.wrapping_sub(lacked_at) < RETRY_SECONDS
}

/// Seconds of the monotonic clock, plus one so that they are never 0.
fn now() -> u32 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut time) };
    u32::try_from(time.tv_sec).unwrap_or(0).saturating_add(1)
}

fn errno_location() -> *mut c_int {
    // SAFETY: The function has no preconditions.
    unsafe { libc::__errno_location() }
}

fn errno() -> c_int {
    // SAFETY: The pointer is that of this thread's errno, valid as long as the thread runs.
    unsafe { *errno_location() }
}

fn set_errno(value: c_int) {
    // SAFETY: The pointer is that of this thread's errno, valid as long as the thread runs.
    unsafe { *errno_location() = value };
}

/// Looks up the `socket` that the program would have called without this library.
fn look_up() -> *mut libc::c_void {
    const NAME: &CStr = c"socket";
    // SAFETY: `NAME` is a C string, and RTLD_NEXT a handle that dlsym takes.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, NAME.as_ptr()) };
    // Every thread finds the same, so the order of stores does not matter.
    NEXT_SOCKET.store(found, Ordering::Relaxed);
    found
}

/// Calls the next `socket`; it sets errno.
fn next_socket(family: c_int, kind: c_int, protocol: c_int) -> c_int {
    let mut found = NEXT_SOCKET.load(Ordering::Relaxed);
    if found.is_null() {
        found = look_up();
    }
    if found.is_null() {
        set_errno(libc::ENOSYS);
        return -1;
    }
    // SAFETY: `found` is the address of a function named `socket` in a library that the program
    // has loaded; its signature is fixed by POSIX.
    let socket = unsafe { mem::transmute::<*mut libc::c_void, SocketFn>(found) };
    // SAFETY: `socket` takes any three integers.
    unsafe { socket(family, kind, protocol) }
}

/// The size in a word like `64K`; 0 if it is none, or more than the option takes.
fn size_of(word: &[u8]) -> u32 {
    let (digits, unit) = match word {
        [digits @ .., b'k' | b'K'] => (digits, 1 << 10),
        [digits @ .., b'm' | b'M'] => (digits, 1 << 20),
        digits => (digits, 1),
    };
    str::from_utf8(digits)
        .ok()
        .and_then(|digits| digits.parse::<u32>().ok())
        .and_then(|number| number.checked_mul(unit))
        .filter(|&size| c_int::try_from(size).is_ok())
        .unwrap_or(0)
}

/// A word of the environment, at the start of the program.
fn word_of(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: `name` is a C string.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: `value` is a C string of the environment, which the program does not change before its
    // main function has begun; callers use it until then.
    Some(unsafe { CStr::from_ptr(value) }.to_bytes())
}

/// Reads the protocol and the sizes of buffers from the environment.
fn read_environment() {
    if let Some(word) = word_of(PROTOCOL) {
        for (candidate, is_wanted) in CANDIDATES.iter().zip(wanted_by(word)) {
            candidate.is_wanted.store(is_wanted, Ordering::Relaxed);
        }
    }
    for ((name, _), buffer) in SIZES.iter().zip(&BUFFERS) {
        if let Some(word) = word_of(name) {
            buffer.store(size_of(word), Ordering::Relaxed);
        }
    }
}

/// Gives a fresh socket the sizes of buffers that were asked for. The kernel lowers what is above its
/// limit, as for any program.
fn set_buffers(fd: c_int) {
    for ((_, option), buffer) in SIZES.iter().zip(&BUFFERS) {
        let size = buffer.load(Ordering::Relaxed);
        if size == 0 {
            continue;
        }
        // SAFETY: `size` is four octets, as many as the call is told.
        unsafe {
            libc::setsockopt(
                fd,
                libc::SOL_SOCKET,
                *option,
                ptr::from_ref(&size).cast(),
                size_of_val(&size) as libc::socklen_t,
            );
        }
    }
}

/// `socket(2)`, with SMC or SDP in place of TCP where the kernel has it.
// SAFETY: The symbol takes the place of the C library's on purpose, with the same signature.
#[unsafe(no_mangle)]
pub extern "C" fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int {
    if !is_tcp(family, kind, protocol) {
        return next_socket(family, kind, protocol);
    }

    let errno_before = errno();
    for candidate in CANDIDATES
        .iter()
        .filter(|candidate| candidate.is_worth_a_try())
    {
        let fd = next_socket(family, kind, candidate.protocol);
        if fd >= 0 {
            set_buffers(fd);
            set_errno(errno_before);
            return fd;
        }
        if is_lack_of_protocol(errno()) {
            candidate.lacked_at.store(now(), Ordering::Relaxed);
        }
    }
    // Whatever the reason was: the program asked for TCP, and TCP's answer is the one it knows.
    set_errno(errno_before);
    next_socket(family, kind, protocol)
}

/// Looks up the C library's `socket` at start, as `dlsym` is not for signal handlers, and neither is
/// the environment for threads.
extern "C" fn initialize() {
    look_up();
    read_environment();
}

// SAFETY: The loader calls what this section holds before the program's main function; the function
// takes no notice of the arguments it gets and needs nothing but the loader.
#[unsafe(link_section = ".init_array")]
#[used]
static INITIALIZE: extern "C" fn() = initialize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_streams_of_both_families_are_chosen_whatever_the_flags() {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        for family in [libc::AF_INET, libc::AF_INET6] {
            assert!(is_tcp(family, libc::SOCK_STREAM, 0));
            assert!(is_tcp(family, libc::SOCK_STREAM | flags, libc::IPPROTO_TCP));
        }
    }

    #[test]
    fn other_sockets_are_left_alone() {
        assert!(!is_tcp(libc::AF_UNIX, libc::SOCK_STREAM, 0));
        assert!(!is_tcp(libc::AF_INET, libc::SOCK_DGRAM, 0));
        assert!(!is_tcp(
            libc::AF_INET,
            libc::SOCK_STREAM,
            libc::IPPROTO_SCTP
        ));
        assert!(!is_tcp(libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_TCP));
    }

    #[test]
    fn kernel_that_lacked_the_protocol_is_asked_again_later() {
        assert!(!is_too_early(0, 5));
        assert!(is_too_early(100, 100));
        assert!(is_too_early(100, 100 + RETRY_SECONDS - 1));
        assert!(!is_too_early(100, 100 + RETRY_SECONDS));
    }

    #[test]
    fn environment_names_the_protocols_in_their_order() {
        assert_eq!(wanted_by(b"smc"), [false, true, false]);
        assert_eq!(wanted_by(b"sdp"), [false, false, true]);
        assert_eq!(wanted_by(b"auto"), [true, true, false]);
        assert_eq!(wanted_by(b""), [false, true, false]);
        assert_eq!(CANDIDATES.each_ref().map(|c| c.protocol), [258, 256, 257]);
    }

    #[test]
    fn candidate_is_tried_if_it_is_wanted_and_was_not_lacking_just_now() {
        let candidate = Candidate::new(IPPROTO_SDP, false);
        assert!(!candidate.is_worth_a_try());
        candidate.is_wanted.store(true, Ordering::Relaxed);
        assert!(candidate.is_worth_a_try());
        candidate.lacked_at.store(now(), Ordering::Relaxed);
        assert!(!candidate.is_worth_a_try());
    }

    #[test]
    fn size_has_a_unit_or_none() {
        for (word, size) in [
            ("16384", 16384),
            ("64K", 65536),
            ("64k", 65536),
            ("1M", 1 << 20),
            ("", 0),
            ("K", 0),
            ("-1", 0),
            ("64KB", 0),
            ("2048M", 0),
            ("99999999999", 0),
        ] {
            assert_eq!(size_of(word.as_bytes()), size, "{word}");
        }
    }

    #[test]
    fn fallback_gives_tcp_and_keeps_errno() {
        set_errno(libc::ENOENT);
        let fd = socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        assert!(fd >= 0);
        assert_eq!(errno(), libc::ENOENT);
        // SAFETY: The descriptor is the one just made and is used nowhere else.
        unsafe { libc::close(fd) };
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Addresses and programs of the sockets that events name.
//!
//! An event names a socket by a pointer. `/proc/PID/net/tcp` prints the same pointers beside the
//! addresses, for the network namespace of the process.

use std::{
    collections::{
        HashMap,
        HashSet, //
    },
    fs,
    net::{
        IpAddr,
        Ipv4Addr,
        Ipv6Addr,
        SocketAddr, //
    },
    path::{
        Path,
        PathBuf, //
    },
    time::{
        Duration,
        Instant, //
    },
};

use super::event::pointer;
use crate::snapshot::{
    Owners,
    Process, //
};

/// The tables serve connections that they have for this time, and others for the second one.
const FRESH: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_millis(100);

/// The states of entries that are no sockets of programs: TIME_WAIT, and requests of listeners.
const NO_SOCKETS: [&str; 3] = ["03", "06", "0C"];

/// A TCP socket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Entry {
    /// The sock.
    sock: u64,
    /// Address of this side.
    local: SocketAddr,
    /// Address of the peer.
    peer: SocketAddr,
    /// Inode; 0 without a program.
    inode: u64,
}

/// Reads the lines of `/proc/net/tcp` and `tcp6`; entries without a pointer are left out.
pub(super) fn entries(text: &str) -> impl Iterator<Item = Entry> + '_ {
    text.lines().filter_map(entry)
}

fn entry(line: &str) -> Option<Entry> {
    // Number, both addresses, state, queues, timer, retransmits, uid, timeout, inode, count, sock.
    let mut words = line.split_ascii_whitespace().skip(1);
    let (local, peer) = (address(words.next()?)?, address(words.next()?)?);
    let state = words.next()?;
    let inode = words.nth(5)?.parse().ok()?;
    let sock = pointer(words.nth(1)?)?;
    (!NO_SOCKETS.contains(&state)).then_some(Entry {
        sock,
        local,
        peer,
        inode,
    })
}

/// An address as the kernel prints it: words of 32 bits in the order of the processor.
fn address(text: &str) -> Option<SocketAddr> {
    let (digits, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let digits = digits.get(at.checked_mul(8)?..at.checked_mul(8)?.checked_add(8)?)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip = match digits.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let mut octets = [0; 16];
            for (octet, value) in octets.iter_mut().zip(words.iter().flatten()) {
                *octet = *value;
            }
            IpAddr::V6(Ipv6Addr::from(octets)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// A connection that an event names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Socket {
    /// Address of this side.
    pub(super) local: SocketAddr,
    /// Address of the peer.
    pub(super) peer: SocketAddr,
    /// Programs that have it open.
    pub(super) processes: Vec<Process>,
}

impl Socket {
    /// Whether either side has the port.
    pub(super) fn has_port(&self, port: u16) -> bool {
        self.local.port() == port || self.peer.port() == port
    }
}

/// The sockets of all network namespaces that a process is in.
pub(super) struct Sockets {
    proc: PathBuf,
    known: HashMap<u64, (Socket, Instant)>,
    read: Option<Instant>,
}

impl Sockets {
    /// Makes an empty table. `proc` is `/proc`.
    pub(super) fn new(proc: &Path) -> Self {
        Self {
            proc: proc.into(),
            known: HashMap::new(),
            read: None,
        }
    }

    /// The connection of a sock, as far as the last reading has it.
    pub(super) fn get(&self, sock: u64) -> Option<&Socket> {
        self.known.get(&sock).map(|(socket, _)| socket)
    }

    /// Whether the tables have to be read for an event about a sock. The address of a sock may come to
    /// name another connection, whose first event is a `first` one.
    pub(super) fn wants(&self, sock: u64, first: bool, now: Instant) -> bool {
        let Some(read) = self.read else {
            return true;
        };
        let age = now.saturating_duration_since(read);
        match self.known.get(&sock) {
            _ if first => true,
            Some(_) => age >= FRESH,
            None => age >= RETRY,
        }
    }

    /// Reads the tables. A socket that ended since the last reading is kept until the next one, as
    /// events about it may still come.
    pub(super) fn read(&mut self, now: Instant) {
        let last = self.read.replace(now);
        self.known
            .retain(|_, (_, seen)| last.is_none_or(|last| *seen >= last));
        let found = self.tables();
        let inodes: HashSet<u64> = found.iter().map(|entry| entry.inode).collect();
        let owners = Owners::find(&self.proc, &inodes);
        for entry in found {
            let socket = Socket {
                local: entry.local,
                peer: entry.peer,
                processes: owners.of(entry.inode).to_vec(),
            };
            self.known.insert(entry.sock, (socket, now));
        }
    }

    /// Drops a sock that the last reading did not have.
    pub(super) fn forget_old(&mut self, sock: u64) {
        let read = self.read;
        self.known
            .retain(|key, (_, seen)| *key != sock || Some(*seen) == read);
    }

    fn tables(&self) -> Vec<Entry> {
        let mut namespaces = HashSet::new();
        let mut found = Vec::new();
        let folders = fs::read_dir(&self.proc).into_iter().flatten().flatten();
        for folder in folders.map(|entry| entry.path()) {
            // Other folders have no namespace, and processes may end meanwhile.
            let Ok(namespace) = fs::read_link(folder.join("ns/net")) else {
                continue;
            };
            if !namespaces.insert(namespace) {
                continue;
            }
            for file in ["net/tcp", "net/tcp6"] {
                let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
                found.extend(entries(&text));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::make_process;
    use std::os::unix::fs::symlink;

    const TCP: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0200090A:1B58 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 70 1 \
00000000aaaa0001 100 0 0 10 0
   1: 0100090A:9C40 0200090A:1B58 01 00000000:00000000 02:000000AA 00000000  1000        0 71 2 \
00000000aaaa0002 20 4 30 10 -1
   2: 0100090A:9C41 0200090A:1B58 06 00000000:00000000 03:000000AA 00000000     0        0 0 3 \
00000000aaaa0003
   3: 0100090A:9C42 0200090A:1B58 01 00000000:00000000 02:000000AA 00000000  1000        0 71 2 \
0000000000000000 20 4 30 10 -1
";
    const TCP6: &str = "\
  sl  local_address                         remote_address                        st tx_queue
   0: 000009FD000000000000000001000000:1B58 000009FD000000000000000002000000:9C40 01 \
00000000:00000000 00:00000000 00000000     0        0 72 1 00000000bbbb0001 20 4 30 10 -1
   1: 0000000000000000FFFF00000200090A:1B58 0000000000000000FFFF00000100090A:9C40 08 \
00000000:00000000 00:00000000 00000000     0        0 0 1 00000000bbbb0002 20 4 30 10 -1
";

    /// Makes a process with sockets and a network namespace.
    fn process(proc: &Path, pid: u32, namespace: &str, inodes: &[u64]) {
        make_process(proc, pid, "redis", inodes);
        let folder = proc.join(pid.to_string());
        fs::create_dir_all(folder.join("ns")).unwrap();
        fs::create_dir_all(folder.join("net")).unwrap();
        symlink(format!("net:[{namespace}]"), folder.join("ns/net")).unwrap();
    }

    #[test]
    fn table_has_addresses_and_pointers() {
        let found: Vec<Entry> = entries(TCP).collect();
        let socks: Vec<u64> = found.iter().map(|entry| entry.sock).collect();
        assert_eq!(socks, [0xaaaa_0001, 0xaaaa_0002]);
        assert_eq!(found[1].local, "10.9.0.1:40000".parse().unwrap());
        assert_eq!(found[1].peer, "10.9.0.2:7000".parse().unwrap());
        assert_eq!(found[1].inode, 71);
        let found: Vec<Entry> = entries(TCP6).collect();
        assert_eq!(found[0].local, "[fd09::1]:7000".parse().unwrap());
        assert_eq!(found[1].peer, "10.9.0.1:40000".parse().unwrap());
    }

    #[test]
    fn line_of_another_form_is_left_out() {
        for line in ["", "0:", "  0: 0100:1 0100:1 01 0 0 0 0 0 5 1 aaaa"] {
            assert_eq!(entries(line).count(), 0, "{line}");
        }
    }

    #[test]
    fn socket_of_any_namespace_is_found_with_its_programs() {
        let proc = tempfile::tempdir().unwrap();
        process(proc.path(), 10, "1", &[71]);
        process(proc.path(), 11, "2", &[72]);
        fs::write(proc.path().join("10/net/tcp"), TCP).unwrap();
        fs::write(proc.path().join("11/net/tcp6"), TCP6).unwrap();
        let now = Instant::now();
        let mut sockets = Sockets::new(proc.path());
        assert!(sockets.wants(0xaaaa_0002, false, now));
        sockets.read(now);
        let socket = sockets.get(0xaaaa_0002).unwrap();
        assert_eq!(socket.processes, [Process::new(10, "redis")]);
        assert!(socket.has_port(7000) && socket.has_port(40000) && !socket.has_port(1));
        let socket = sockets.get(0xbbbb_0001).unwrap();
        assert_eq!(socket.processes, [Process::new(11, "redis")]);
    }

    #[test]
    fn socket_that_ended_is_kept_for_one_reading() {
        let proc = tempfile::tempdir().unwrap();
        process(proc.path(), 10, "1", &[71]);
        fs::write(proc.path().join("10/net/tcp"), TCP).unwrap();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut sockets = Sockets::new(proc.path());
        sockets.read(start);
        assert!(!sockets.wants(0xaaaa_0002, false, start));
        assert!(sockets.wants(0xaaaa_0002, true, start), "a new connection");
        assert!(sockets.wants(0xaaaa_0002, false, at(1)));
        fs::write(proc.path().join("10/net/tcp"), "").unwrap();
        sockets.read(at(1));
        assert!(sockets.get(0xaaaa_0002).is_some());
        sockets.forget_old(0xaaaa_0002);
        assert!(sockets.get(0xaaaa_0002).is_none());
        assert!(sockets.get(0xaaaa_0001).is_some());
        sockets.read(at(2));
        assert!(sockets.get(0xaaaa_0001).is_none());
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Which programs have a socket open, from `/proc/PID/fd`.
//!
//! Without privilege, a user sees its own programs only.

use procfs::process::{
    self,
    FDTarget, //
};
use serde::Serialize;
use std::{
    collections::{
        HashMap,
        HashSet, //
    },
    path::Path,
};

/// A program that has a socket open.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Process {
    /// Number of the process.
    pub(crate) pid: u32,
    /// Name of the program, as in /proc/PID/comm.
    pub(crate) name: String,
}

impl Process {
    /// Makes one. A program chooses its name, so control characters are replaced: they would reach
    /// the terminal of another user.
    pub(crate) fn new(pid: u32, name: &str) -> Self {
        Self {
            pid,
            name: name.replace(char::is_control, "?"),
        }
    }
}

/// The programs of each socket, by its inode.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owners(HashMap<u64, Vec<Process>>);

impl Owners {
    /// Looks for the programs that have one of these sockets open. `proc` is `/proc`.
    ///
    /// A process that ends meanwhile, or that this user may not see, is left out.
    pub(crate) fn find(proc: &Path, inodes: &HashSet<u64>) -> Self {
        let mut owners = Self::default();
        if inodes.is_empty() {
            return owners;
        }
        let processes = process::all_processes_with_root(proc);
        for process in processes.into_iter().flatten().flatten() {
            owners.add(&process, inodes);
        }
        for found in owners.0.values_mut() {
            found.sort_by_key(|process| process.pid);
        }
        owners
    }

    fn add(&mut self, process: &process::Process, inodes: &HashSet<u64>) {
        let Ok(fds) = process.fd() else {
            return;
        };
        // A program may have several descriptors of one socket.
        let mut open = HashSet::new();
        for fd in fds.flatten() {
            match fd.target {
                FDTarget::Socket(inode) if inodes.contains(&inode) => {
                    open.insert(inode);
                }
                _ => {}
            }
        }
        let (false, Ok(stat)) = (open.is_empty(), process.stat()) else {
            return;
        };
        let found = Process::new(process.pid().unsigned_abs(), &stat.comm);
        for inode in open {
            self.0.entry(inode).or_default().push(found.clone());
        }
    }

    /// The programs of a socket, by rising PID.
    pub(crate) fn of(&self, inode: u64) -> &[Process] {
        self.0.get(&inode).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::fs::symlink, //
    };

    /// Makes a folder like `/proc/PID`, with sockets of these inodes open.
    pub(crate) fn make_process(proc: &Path, pid: u32, name: &str, inodes: &[u64]) {
        let folder = proc.join(pid.to_string());
        fs::create_dir_all(folder.join("fd")).unwrap();
        symlink("/dev/null", folder.join("fd/0")).unwrap();
        for (fd, inode) in inodes.iter().enumerate() {
            let file = folder.join(format!("fd/{}", fd + 3));
            symlink(format!("socket:[{inode}]"), file).unwrap();
        }
        let zeros = "0 ".repeat(49);
        let stat = format!("{pid} ({name}) S {}\n", zeros.trim_end());
        fs::write(folder.join("stat"), stat).unwrap();
    }

    #[test]
    fn program_is_found_by_the_inode_of_its_socket() {
        let proc = tempfile::tempdir().unwrap();
        make_process(proc.path(), 812, "redis (main)", &[71, 72, 72]);
        make_process(proc.path(), 31, "nginx", &[73]);
        make_process(proc.path(), 32, "nginx", &[73, 99]);
        fs::write(proc.path().join("uptime"), "1 1\n").unwrap();
        let owners = Owners::find(proc.path(), &[71, 72, 73, 74].into());
        let pids = |inode| -> Vec<u32> {
            let processes = owners.of(inode).iter();
            processes.map(|process| process.pid).collect()
        };
        assert_eq!(pids(72), [812]);
        assert_eq!(owners.of(71)[0].name, "redis (main)");
        assert_eq!(pids(73), [31, 32]);
        assert!(pids(74).is_empty());
        assert!(pids(99).is_empty(), "a socket that was not asked for");
    }

    #[test]
    fn control_characters_of_a_name_are_replaced() {
        assert_eq!(Process::new(1, "a\x1b[2Jb\n").name, "a?[2Jb?");
    }

    #[test]
    fn process_that_went_away_is_left_out() {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir(proc.path().join("5")).unwrap();
        assert!(Owners::find(proc.path(), &[1].into()).of(1).is_empty());
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Starting the programs, in the namespaces of the ends, and ending them.

use super::Program;
use crate::{
    counters::process_time,
    lab::{
        self,
        End, //
    },
};
use anyhow::{
    bail,
    Context,
    Result, //
};
use rustix::process::{
    kill_process,
    waitid,
    Pid,
    Signal,
    WaitId,
    WaitIdOptions, //
};
use std::{
    env,
    fs::{
        self,
        File, //
    },
    io::Read,
    net::{
        IpAddr,
        SocketAddr, //
    },
    path::{
        Path,
        PathBuf, //
    },
    process::{
        self,
        Child,
        Command,
        Stdio, //
    },
    sync::mpsc,
    thread,
    time::Duration,
};

const LIBRARY: &str = "librdma_sock_preload.so";

/// How long a client may take.
const LIMIT: Duration = Duration::from_secs(120);

/// How much of what a program complains about is repeated.
const COMPLAINT: usize = 200;

/// The library that makes sockets of a program those of SMC. It lies beside this program.
pub fn preload_library() -> Result<PathBuf> {
    let file = env::current_exe()
        .context("the path of this program")?
        .with_file_name(LIBRARY);
    if !file.exists() {
        bail!("{} is missing: scripts/tools builds it", file.display());
    }
    Ok(file)
}

/// A folder that goes with this value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let path = env::temp_dir().join(format!("bench-programs-{}", process::id()));
        // One that was left behind is none of ours.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It is in the guest's memory, and the next one gets another.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a client has done.
pub struct Ran {
    /// Its standard output.
    pub said: String,
    /// Its processor time.
    pub cpu: f64,
}

/// A server process, ready to be connected to; ends with this value.
pub struct Server {
    program: Program,
    at: SocketAddr,
    preload: Option<PathBuf>,
    child: Child,
    folder: Folder,
}

impl Server {
    /// Starts the server of `program` at `far`, with the preload library if it is given.
    pub fn start(program: Program, far: &End, preload: Option<PathBuf>) -> Result<Self> {
        let folder = Folder::new()?;
        let at = far.at(program.port())?;
        let log = File::create(folder.0.join("server.log"))?;
        let mut command = program.server(at, &folder.0)?;
        preloaded(&mut command, preload.as_deref())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let name = command.get_program().to_string_lossy().into_owned();
        let child = far.within(|| command.spawn().with_context(|| name.clone()))?;
        let mut server = Self {
            program,
            at,
            preload,
            child,
            folder,
        };
        far.within(|| lab::until("a server to listen", || server.listens()))
            .with_context(|| name.clone())?;
        if let Some(mut command) = program.prepare(&server.folder.0) {
            let output = command.output().with_context(|| name.clone())?;
            if !output.status.success() {
                bail!("{name} was not prepared: {}", output.status);
            }
        }
        Ok(server)
    }

    /// Looks for the TCP socket of the listener, which one of SMC has as well. In the namespace of the
    /// server.
    fn listens(&mut self) -> Result<Option<()>> {
        if let Some(status) = self.child.try_wait()? {
            let said = complaint(&self.folder.0.join("server.log"));
            bail!("ended with {status}: {said}");
        }
        let table = fs::read_to_string("/proc/thread-self/net/tcp")?;
        Ok(has_listener(&table, self.at).then_some(()))
    }

    /// What it serves.
    pub fn program(&self) -> Program {
        self.program
    }

    /// Where it listens.
    pub fn at(&self) -> SocketAddr {
        self.at
    }

    /// Its processor time in seconds, with that of its workers.
    pub fn cpu(&self) -> f64 {
        let own = self.child.id().to_string();
        let workers = fs::read_dir("/proc").into_iter().flatten().flatten();
        let workers: f64 = workers
            .filter_map(|entry| {
                let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
                let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?;
                (parent == own).then(|| process_time(&entry.file_name().to_string_lossy()))
            })
            .sum();
        process_time(&own) + workers
    }

    /// Runs a client of it at `near` to its end.
    pub fn run(&self, near: &End, mut command: Command) -> Result<Ran> {
        let name = command.get_program().to_string_lossy().into_owned();
        let errors = self.folder.0.join("client.err");
        preloaded(&mut command, self.preload.as_deref())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&errors)?);
        let mut child = near.within(|| command.spawn().with_context(|| name.clone()))?;
        let pid = Pid::from_child(&child);
        let mut stdout = child.stdout.take().context("a pipe")?;
        let mut said = String::new();
        let late = thread::scope(|scope| -> Result<bool> {
            let (over, is_over) = mpsc::channel::<()>();
            let guard = scope.spawn(move || {
                let late = is_over.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout);
                if late {
                    // It is not waited for before this thread has ended, so it is still there.
                    let _ = kill_process(pid, Signal::KILL);
                }
                late
            });
            let read = stdout.read_to_string(&mut said);
            let waited = waitid(
                WaitId::Pid(pid),
                WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
            );
            drop(over);
            let late = guard
                .join()
                .ok()
                .context("a thread of the driver panicked")?;
            read?;
            waited?;
            Ok(late)
        });
        // Also of one that has ended and was not waited for.
        let cpu = process_time(&child.id().to_string());
        let status = child.wait()?;
        if late? {
            bail!("{name} had not ended after {} s", LIMIT.as_secs());
        }
        if !status.success() {
            bail!("{name}: {status}: {} {}", complaint(&errors), tail(&said));
        }
        Ok(Ran { said, cpu })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // If it has ended already there is nothing to do.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let ended = lab::until("a server to end", || Ok(self.child.try_wait()?));
        if ended.is_err() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn preloaded<'a>(command: &'a mut Command, library: Option<&Path>) -> &'a mut Command {
    match library {
        Some(file) => command.env("LD_PRELOAD", file),
        None => command.env_remove("LD_PRELOAD"),
    }
}

/// The end of a text, on one line.
pub(super) fn tail(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    let skip = line.chars().count().saturating_sub(COMPLAINT);
    line.chars().skip(skip).collect()
}

fn complaint(file: &Path) -> String {
    let text = fs::read(file).unwrap_or_default();
    tail(&String::from_utf8_lossy(&text))
}

/// Whether `/proc/net/tcp` has a listening socket with this address.
fn has_listener(table: &str, at: SocketAddr) -> bool {
    const LISTEN: &str = "0A";
    let IpAddr::V4(ip) = at.ip() else {
        return false;
    };
    let local = format!("{:08X}:{:04X}", u32::from_ne_bytes(ip.octets()), at.port());
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(1) == Some(&local.as_str()) && fields.get(3) == Some(&LISTEN)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_found() {
        let table = "  sl  local_address rem_address   st\n\
            \x20  0: 0200080A:1F90 00000000:0000 0A 00000000:00000000\n\
            \x20  1: 0200080A:1F91 0100080A:8000 01 00000000:00000000\n";
        assert!(has_listener(table, "10.8.0.2:8080".parse().unwrap()));
        assert!(!has_listener(table, "10.8.0.2:8081".parse().unwrap()));
        assert!(!has_listener(table, "10.8.0.1:8080".parse().unwrap()));
    }

    #[test]
    fn complaints_are_one_short_line() {
        assert_eq!(tail("a\n\tb  c\n"), "a b c");
        assert_eq!(tail(&"x".repeat(2 * COMPLAINT)).len(), COMPLAINT);
    }
}

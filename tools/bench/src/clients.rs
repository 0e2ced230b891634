// SPDX-License-Identifier: GPL-2.0

//! Clients that connect, ask once and close, each in a process of its own: threads of one process
//! take turns on the processors of User-Mode Linux, spinning for each other.

use crate::{
    load::{
        micros,
        Client, //
    },
    outcome::Outcome,
    workload::REQUEST, //
};
use anyhow::{
    Context,
    Result, //
};
use std::{
    io::{
        self,
        BufRead,
        BufReader,
        Write, //
    },
    process::{
        Child,
        ChildStdout,
        Command,
        Stdio, //
    },
    time::Instant,
};

/// A client under way; ended when it is dropped.
struct Asker {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Asker {
    fn start(client: &Client) -> Result<Self> {
        let mut child = Command::new("/proc/self/exe")
            .arg("ask")
            .args(["--family", client.family.name()])
            .args(["--peer", &client.peer.to_string()])
            .args(["--seconds", &client.time.as_secs_f64().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("a client")?;
        let said = BufReader::new(child.stdout.take().context("a client's output")?);
        let mut asker = Self { child, said };
        asker.line().context("a client's beginning")?;
        Ok(asker)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        Ok(line)
    }

    fn go(&mut self) -> Result<()> {
        let stdin = self.child.stdin.as_mut().context("a client's input")?;
        stdin.write_all(b"\n").context("a client's input")
    }

    /// Its times, in microseconds, and the processor time it took, in seconds.
    fn times(mut self) -> Result<(Vec<f64>, f64)> {
        let line = self.line()?;
        serde_json::from_str(&line).context("a client's answer")
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// So many clients at once.
pub fn connects(client: &Client, count: u32) -> Result<Outcome> {
    let mut askers = (0..count)
        .map(|_| Asker::start(client))
        .collect::<Result<Vec<_>>>()?;
    let start = Instant::now();
    for asker in &mut askers {
        asker.go()?;
    }
    let mut times = Vec::new();
    let mut cpu = 0.0;
    for asker in askers {
        let (some, spent) = asker.times()?;
        times.extend(some);
        cpu += spent;
    }
    let seconds = start.elapsed().as_secs_f64();
    let count = times.len() as u64;
    let mut outcome = Outcome {
        value: count as f64 / seconds,
        connections: count,
        messages: count,
        sent: count * REQUEST as u64,
        received: count * REQUEST as u64,
        seconds,
        cpu,
        ..Outcome::default()
    };
    outcome.set_times(&mut times);
    Ok(outcome)
}

/// One of them: waits for the word, and prints its times.
pub fn ask(client: &Client) -> Result<()> {
    println!("ready");
    io::stdin().read_line(&mut String::new())?;
    let start = Instant::now();
    let mut times = Vec::new();
    // Each has its turn, however short the time is.
    while times.is_empty() || start.elapsed() < client.time {
        let begin = Instant::now();
        drop(client.ask()?);
        times.push(micros(begin.elapsed()));
    }
    let cpu = crate::counters::process_time("self");
    println!("{}", serde_json::to_string(&(times, cpu))?);
    Ok(())
}

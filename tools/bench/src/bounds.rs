// SPDX-License-Identifier: GPL-2.0

//! What sockets over a device cannot pass: a program that makes the system calls of local sockets, and has
//! raw verbs move what they move.

use crate::{
    counters::Transport,
    drive::Sample,
    stats::Summary,
    table::{
        of_workload,
        ordered,
        values_of,
        Metric, //
    },
    workload::{
        Workload,
        REQUEST, //
    },
};

/// A workload in its place.
pub struct Place<'a> {
    /// All samples of a run.
    pub samples: &'a [Sample],
    /// [`Sample::topology`].
    pub topology: &'a str,
    /// [`Sample::mtu`].
    pub mtu: u32,
    /// What is measured there.
    pub workload: Workload,
}

impl Place<'_> {
    /// The name of the bound, and its ratio to `to`. `several` are the transports whose work the program has.
    pub fn bound(&self, to: Transport, several: &[Transport]) -> Option<(String, f64)> {
        match self.workload {
            workload if workload.moves_data() => self.processor_time(to, several),
            Workload::PingPong(size) => self.round_trip_of_calls(to, size),
            Workload::Requests(1) => self.round_trip_of_sleeps(to),
            _ => None,
        }
    }

    /// The median of a transport by a workload.
    fn median(&self, metric: Metric, workload: Workload, transport: Transport) -> Option<f64> {
        let samples = of_workload(self.samples, self.topology, self.mtu, workload);
        let values = values_of(metric, workload, &samples);
        let of_transport = values.get(transport.name())?;
        Some(Summary::of(&ordered(of_transport))?.median)
    }

    /// The rate of a program that does what all of `several` do, to that of `to` with the same processor time.
    /// Raw verbs move the octets of files as they move others.
    fn processor_time(&self, to: Transport, several: &[Transport]) -> Option<(String, f64)> {
        let time = |transport: &Transport| {
            let workload = match self.workload {
                Workload::File(size) if *transport == Transport::Raw => Workload::Bulk(size),
                workload => workload,
            };
            self.median(Metric::Cpu, workload, *transport)
        };
        let sum: f64 = several.iter().map(time).sum::<Option<f64>>()?;
        let names: Vec<&str> = several.iter().map(|one| one.name()).collect();
        (names.len() > 1).then_some((names.join("+"), time(&to)? / sum))
    }

    /// A round trip of programs that never sleep. Raw verbs that poll make a system call to post a message, and
    /// sockets another to receive it.
    fn round_trip_of_calls(&self, to: Transport, size: u32) -> Option<(String, f64)> {
        let polling = |metric| self.median(metric, Workload::PollPong(size), Transport::Raw);
        let time = polling(Metric::Value)? + 2.0 * polling(Metric::Call)?;
        let ratio = time / self.median(Metric::Value, self.workload, to)?;
        Some(("raw+calls".into(), ratio))
    }

    /// The rate of round trips of programs that sleep and wake as those of local sockets do. Each way they also
    /// wait for what a device needs for a message: raw verbs that poll, less the system call that posts it.
    fn round_trip_of_sleeps(&self, to: Transport) -> Option<(String, f64)> {
        let size = u32::try_from(REQUEST).ok()?;
        let polling = |metric| self.median(metric, Workload::PollPong(size), Transport::Raw);
        let device = polling(Metric::Value)? - 2.0 * polling(Metric::Call)?;
        let time = |transport| {
            let rate = self.median(Metric::Value, self.workload, transport)?;
            (rate > 0.0).then(|| 1e6 / rate)
        };
        let ratio = time(to)? / (time(Transport::Unix)? + device.max(0.0));
        Some(("unix+device".into(), ratio))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;

    fn sample(transport: Transport, workload: &str, value: f64) -> Sample {
        Sample {
            topology: "rsoft".into(),
            mtu: 65535,
            round: 1,
            transport: transport.name().into(),
            workload: workload.into(),
            outcome: Outcome {
                value,
                ..Outcome::default()
            },
            ..Sample::default()
        }
    }

    fn polling(value: f64, call: f64) -> Sample {
        let mut sample = sample(Transport::Raw, "pollpong:64", value);
        sample.outcome.call = Some(call);
        sample
    }

    fn bound(samples: &[Sample], workload: &str) -> Option<(String, f64)> {
        let place = Place {
            samples,
            topology: "rsoft",
            mtu: 65535,
            workload: workload.parse().unwrap(),
        };
        place.bound(Transport::Tcp, &[Transport::Raw, Transport::Unix])
    }

    #[test]
    fn round_trip_adds_calls_to_raw_verbs() {
        let mut samples = vec![
            sample(Transport::Tcp, "pingpong:64", 40.0),
            polling(20.0, 5.0),
        ];
        let expected = Some(("raw+calls".to_string(), 0.75));
        assert_eq!(bound(&samples, "pingpong:64"), expected);
        samples.pop();
        assert_eq!(bound(&samples, "pingpong:64"), None);
    }

    #[test]
    fn device_that_is_quicker_than_its_calls_adds_nothing() {
        let samples = [
            sample(Transport::Tcp, "rr:1", 30_000.0),
            sample(Transport::Unix, "rr:1", 60_000.0),
            polling(5.0, 3.0),
        ];
        assert_eq!(bound(&samples, "rr:1").unwrap().1, 2.0);
    }

    #[test]
    fn rate_of_one_connection_adds_the_device_to_local_sockets() {
        let samples = [
            sample(Transport::Tcp, "rr:1", 25_000.0),
            sample(Transport::Unix, "rr:1", 50_000.0),
            polling(36.0, 3.0),
        ];
        assert_eq!(bound(&samples, "rr:1").unwrap().1, 0.8);
        assert_eq!(bound(&samples, "rr:16"), None);
    }

    #[test]
    fn file_of_raw_verbs_is_bulk() {
        let busy = |transport, workload, busy| {
            let mut sample = sample(transport, workload, 1.0);
            sample.outcome.sent = 1 << 30;
            sample.machine = [("cpu.busy".to_string(), busy)].into();
            sample
        };
        let samples = [
            busy(Transport::Tcp, "file:1048576", 0.6),
            busy(Transport::Unix, "file:1048576", 0.5),
            busy(Transport::Raw, "bulk:1048576", 0.5),
        ];
        let expected = Some(("raw+unix".to_string(), 0.6));
        assert_eq!(bound(&samples, "file:1048576"), expected);
    }
}

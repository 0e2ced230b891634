// SPDX-License-Identifier: GPL-2.0

//! Results, and how they are shown.

use serde::Serialize;
use std::{
    net::SocketAddr,
    time::Duration, //
};

use super::{
    socket::Transport,
    BULK,
    MESSAGE, //
};
use crate::{
    output::{
        paint,
        style,
        Cell,
        Table, //
    },
    snapshot::reason,
};

const SCHEMA_VERSION: u32 = 1;

/// Cells of the longest bar.
const BAR: usize = 50;

/// Times of the rounds of a ping-pong, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Latency {
    /// Number of rounds.
    pub(super) rounds: u64,
    /// The shortest.
    pub(super) min_us: f64,
    /// Half of the rounds are as short.
    pub(super) p50_us: f64,
    /// Nine of ten.
    pub(super) p90_us: f64,
    /// 99 of 100.
    pub(super) p99_us: f64,
    /// 999 of 1000.
    pub(super) p999_us: f64,
    /// The longest.
    pub(super) max_us: f64,
}

impl Latency {
    /// Of some rounds; `None` of none.
    pub(super) fn of(mut rounds: Vec<Duration>) -> Option<Self> {
        rounds.sort_unstable();
        let microseconds = |time: &Duration| time.as_secs_f64() * 1e6;
        let part = |thousandths: usize| {
            // The first round that this part of all rounds is not above.
            let place = rounds.len().saturating_mul(thousandths).div_ceil(1000);
            rounds.get(place.saturating_sub(1)).map(microseconds)
        };
        Some(Self {
            rounds: u64::try_from(rounds.len()).ok()?,
            min_us: rounds.first().map(microseconds)?,
            p50_us: part(500)?,
            p90_us: part(900)?,
            p99_us: part(990)?,
            p999_us: part(999)?,
            max_us: rounds.last().map(microseconds)?,
        })
    }
}

/// Bytes from end to end.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Throughput {
    /// Number of bytes.
    pub(super) bytes: u64,
    /// Time until the server had all of them, in seconds.
    pub(super) seconds: f64,
    /// Gigabits in a second.
    pub(super) gbit_per_second: f64,
}

impl Throughput {
    /// Of bytes in a time.
    pub(super) fn of(bytes: u64, time: Duration) -> Self {
        let seconds = time.as_secs_f64();
        Self {
            bytes,
            seconds,
            gbit_per_second: bytes as f64 * 8.0 / 1e9 / seconds.max(f64::MIN_POSITIVE),
        }
    }
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figures {
    /// RDMA device.
    pub(super) dev: Option<String>,
    /// Ping-pong.
    pub(super) latency: Latency,
    /// One way.
    pub(super) throughput: Throughput,
}

/// How the measurement of a transport ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// With figures, and the path proven.
    Measured(Figures),
    /// It would have been TCP; the code of the reason.
    FellBack(Option<u32>),
    /// With an error.
    Failed(String),
}

/// One transport.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Row {
    /// What the sockets were made for.
    transport: Transport,
    /// What carried the payload: "smc", "sdp" or "tcp"; null after an error.
    mode: Option<&'static str>,
    /// Code of the reason for TCP, like "0x03010000".
    reason: Option<String>,
    /// Name of the reason.
    reason_name: Option<&'static str>,
    /// Why there are no figures.
    error: Option<String>,
    /// RDMA device of this end.
    dev: Option<String>,
    /// Ping-pong; null without figures.
    latency: Option<Latency>,
    /// One way; null without figures.
    throughput: Option<Throughput>,
}

impl Row {
    fn new(transport: Transport, outcome: Outcome) -> Self {
        let row = Self {
            transport,
            mode: None,
            reason: None,
            reason_name: None,
            error: None,
            dev: None,
            latency: None,
            throughput: None,
        };
        match outcome {
            Outcome::Measured(figures) => Self {
                mode: Some(transport.name()),
                dev: figures.dev,
                latency: Some(figures.latency),
                throughput: Some(figures.throughput),
                ..row
            },
            Outcome::FellBack(code) => Self {
                mode: Some(Transport::Tcp.name()),
                reason: code.map(reason::text),
                reason_name: code.map(reason::name),
                error: Some("fell back to TCP".into()),
                ..row
            },
            Outcome::Failed(error) => Self {
                error: Some(error),
                ..row
            },
        }
    }

    /// Why there are no figures, for people.
    fn problem(&self) -> Option<String> {
        let error = self.error.as_ref()?;
        Some(match (&self.reason, self.reason_name) {
            (Some(code), Some(name)) => format!("{error}: {name} ({code})"),
            _ => error.clone(),
        })
    }
}

/// Everything that `bench --json` prints. `Documentation/schema/bench.json` is its schema.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct BenchReport {
    /// Version of this format.
    schema_version: u32,
    /// The server as it was named.
    host: String,
    /// Its address.
    address: String,
    /// Length of each measurement, in seconds.
    seconds: u16,
    /// Size of the messages of the ping-pong, in bytes.
    message_bytes: usize,
    /// Size of the calls of the other measurement, in bytes.
    call_bytes: usize,
    /// The transports.
    results: Vec<Row>,
}

impl BenchReport {
    /// Of the outcomes.
    pub(super) fn new(
        host: &str,
        address: SocketAddr,
        seconds: u16,
        outcomes: Vec<(Transport, Outcome)>,
    ) -> Self {
        let row = |(transport, outcome)| Row::new(transport, outcome);
        Self {
            schema_version: SCHEMA_VERSION,
            host: host.replace(char::is_control, "?"),
            address: address.ip().to_string(),
            seconds,
            message_bytes: MESSAGE,
            call_bytes: BULK,
            results: outcomes.into_iter().map(row).collect(),
        }
    }

    /// Whether anything was measured.
    pub(super) fn has_figures(&self) -> bool {
        self.results.iter().any(|row| row.latency.is_some())
    }

    /// The medians of the ping-pong in microseconds, for bars.
    pub(super) fn latencies(&self) -> Vec<(&'static str, f64)> {
        let value = |row: &Row| Some((row.transport.name(), row.latency.as_ref()?.p50_us));
        self.results.iter().filter_map(value).collect()
    }

    /// The gigabits in a second, for bars.
    pub(super) fn throughputs(&self) -> Vec<(&'static str, f64)> {
        let value = |row: &Row| {
            Some((
                row.transport.name(),
                row.throughput.as_ref()?.gbit_per_second,
            ))
        };
        self.results.iter().filter_map(value).collect()
    }

    /// What was measured, in one line.
    pub(super) fn title(&self) -> String {
        format!(
            "{}: ping-pong of {} B, one way in calls of {} KiB, {} s each",
            self.host,
            self.message_bytes,
            self.call_bytes / 1024,
            self.seconds
        )
    }

    /// A table and bars.
    pub(super) fn text(&self) -> String {
        let mut table = Table::new(&[
            "TRANSPORT",
            "PATH",
            "DEVICE",
            "P50",
            "P90",
            "P99",
            "P99.9",
            "ROUNDS",
            "THROUGHPUT",
        ]);
        let mut problems = String::new();
        for row in &self.results {
            let name = row.transport.name();
            if let Some(problem) = row.problem() {
                let style = row.mode.map_or(style::BAD, |_| style::WARNING);
                problems.push_str(&format!("  {name}: {}\n", paint(style, problem)));
            }
            let path = match row.mode {
                Some("tcp") if row.transport != Transport::Tcp => Cell::new("tcp", style::WARNING),
                Some(mode) => Cell::new(mode, style::GOOD),
                None => "".into(),
            };
            let latency = |part: fn(&Latency) -> f64| {
                let text = row.latency.as_ref().map(|found| microseconds(part(found)));
                Cell::from(text.unwrap_or_default())
            };
            let rounds = row.latency.as_ref().map(|found| found.rounds.to_string());
            let throughput = row.throughput.as_ref();
            let throughput = throughput.map(|found| gigabits(found.gbit_per_second));
            table.row([
                name.into(),
                path,
                row.dev.clone().unwrap_or_default().into(),
                latency(|found| found.p50_us),
                latency(|found| found.p90_us),
                latency(|found| found.p99_us),
                latency(|found| found.p999_us),
                rounds.unwrap_or_default().into(),
                throughput.unwrap_or_default().into(),
            ]);
        }
        let mut text = format!(
            "{}\n{}",
            paint(style::HEADING, self.title()),
            table.render()
        );
        text.push_str(&problems);
        if self.has_figures() {
            let bars = |title: &str, values: &[(&str, f64)], unit: fn(f64) -> String| {
                let title = paint(style::HEADING, title);
                format!("{title}\n{}", bars(values, unit))
            };
            text.push_str(&bars("Latency (P50)", &self.latencies(), microseconds));
            text.push_str(&bars("Throughput", &self.throughputs(), gigabits));
        }
        text
    }
}

/// A time for people.
pub(super) fn microseconds(value: f64) -> String {
    format!("{value:.1} us")
}

/// A rate for people.
pub(super) fn gigabits(value: f64) -> String {
    format!("{value:.3} Gbit/s")
}

/// A bar for each value, the longest for the largest.
fn bars(values: &[(&str, f64)], unit: fn(f64) -> String) -> String {
    let largest = values.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let mut text = String::new();
    for (name, value) in values {
        let part = value / largest.max(f64::MIN_POSITIVE);
        // Eighths of cells.
        let length = (part * (BAR * 8) as f64)
            .round()
            .clamp(1.0, (BAR * 8) as f64) as usize;
        let mut bar = "\u{2588}".repeat(length / 8);
        let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
        bar.push_str(rest.get(length % 8).copied().unwrap_or_default());
        text.push_str(&format!("  {name:<3}  {bar} {}\n", unit(*value)));
    }
    text
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{
        output::plain,
        schema, //
    };

    fn figures(first: u64, dev: Option<&str>) -> Outcome {
        let rounds = (first..first + 1000).map(Duration::from_micros).collect();
        Outcome::Measured(Figures {
            dev: dev.map(str::to_string),
            latency: Latency::of(rounds).unwrap(),
            throughput: Throughput::of(first * 1_000_000_000 / 8, Duration::from_secs(1)),
        })
    }

    pub(crate) fn report() -> BenchReport {
        let outcomes = vec![
            (Transport::Tcp, figures(20, None)),
            (Transport::Smc, figures(10, Some("rxe0"))),
            (Transport::Sdp, Outcome::FellBack(Some(0x7f00_0108))),
        ];
        BenchReport::new("db1", "10.9.0.2:7470".parse().unwrap(), 3, outcomes)
    }

    #[test]
    fn percentiles_are_of_the_sorted_rounds() {
        let rounds = (1..=1000).rev().map(Duration::from_micros).collect();
        let latency = Latency::of(rounds).unwrap();
        let parts = [
            latency.min_us,
            latency.p50_us,
            latency.p90_us,
            latency.p99_us,
            latency.p999_us,
            latency.max_us,
        ];
        let whole: Vec<u64> = parts.iter().map(|part| part.round() as u64).collect();
        assert_eq!(whole, [1, 500, 900, 990, 999, 1000]);
        assert_eq!(
            Latency::of(vec![Duration::from_micros(7)]).unwrap().rounds,
            1
        );
        assert_eq!(Latency::of(Vec::new()), None);
    }

    #[test]
    fn text_of_a_report_is_as_kept() {
        let expected = "\
db1: ping-pong of 64 B, one way in calls of 128 KiB, 3 s each
  TRANSPORT  PATH  DEVICE  P50       P90       P99        P99.9      ROUNDS  THROUGHPUT
  tcp        tcp   -       519.0 us  919.0 us  1009.0 us  1018.0 us  1000    20.000 Gbit/s
  smc        smc   rxe0    509.0 us  909.0 us  999.0 us   1008.0 us  1000    10.000 Gbit/s
  sdp        tcp   -       -         -         -          -          -       -
  sdp: fell back to TCP: peer host has no SDP (0x7f000108)
Latency (P50)
  tcp  ██████████████████████████████████████████████████ 519.0 us
  smc  █████████████████████████████████████████████████ 509.0 us
Throughput
  tcp  ██████████████████████████████████████████████████ 20.000 Gbit/s
  smc  █████████████████████████ 10.000 Gbit/s
";
        assert_eq!(plain(&report().text()), expected);
    }

    #[test]
    fn json_has_the_schema_of_the_documentation() {
        let failed = Outcome::Failed("closed".into());
        let other = BenchReport::new(
            "x\x1b",
            "[::1]:1".parse().unwrap(),
            1,
            vec![(Transport::Tcp, failed)],
        );
        assert!(!other.has_figures() && !plain(&other.text()).contains('\x1b'));
        let values = [report(), other].map(|report| serde_json::to_value(report).unwrap());
        assert_eq!(values[0]["results"][2]["mode"], "tcp");
        assert_eq!(values[0]["results"][1]["latency"]["rounds"], 1000);
        schema::check::<BenchReport>("bench", &values);
    }
}

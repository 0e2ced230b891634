// SPDX-License-Identifier: GPL-2.0

//! Reads what the programs print: redis-benchmark 8.0, wrk 4.1, iperf3 3.18, sockperf 3.7.

use crate::outcome::Outcome;
use anyhow::{
    bail,
    Context,
    Result, //
};
use serde_json::Value;

/// Requests of wrk of which one may fail.
const PER_FAILURE: u64 = 100;

/// The CSV of redis-benchmark, which does not say how many requests there were.
pub fn redis(text: &str, test: &str, requests: u64) -> Result<Outcome> {
    let cells = |line: &str| -> Vec<String> {
        let cells = line.split(',').map(|cell| cell.trim().trim_matches('"'));
        cells.map(String::from).collect()
    };
    let mut rows = text.lines().map(cells);
    let header = rows
        .find(|row| row.first().is_some_and(|cell| cell == "test"))
        .context("redis-benchmark printed no table")?;
    let row = rows
        .find(|row| row.first().is_some_and(|cell| cell == test))
        .with_context(|| format!("redis-benchmark printed nothing for {test}"))?;
    let of = |name: &str| -> Result<f64> {
        let at = header.iter().position(|cell| cell == name);
        let cell = at.and_then(|at| row.get(at));
        let value = cell.and_then(|cell| cell.parse().ok());
        value.with_context(|| format!("redis-benchmark printed no {name}"))
    };
    let rate = of("rps")?;
    if rate <= 0.0 {
        bail!("redis-benchmark got no answers");
    }
    Ok(Outcome {
        value: rate,
        messages: requests,
        seconds: requests as f64 / rate,
        p50: Some(of("p50_latency_ms")? * 1e3),
        p99: Some(of("p99_latency_ms")? * 1e3),
        ..Outcome::default()
    })
}

/// A number with its unit, such as `1.25ms`.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(split);
    let (_, scale) = units.iter().find(|(name, _)| *name == unit)?;
    Some(number.parse::<f64>().ok()? * scale)
}

/// wrk's units of time, in microseconds.
const TIMES: [(&str, f64); 5] = [
    ("us", 1.0),
    ("ms", 1e3),
    ("s", 1e6),
    ("m", 60e6),
    ("h", 3600e6),
];

/// wrk's units of octets.
const OCTETS: [(&str, f64); 5] = [
    ("B", 1.0),
    ("KB", 1024.0),
    ("MB", 1048576.0),
    ("GB", 1073741824.0),
    ("TB", 1099511627776.0),
];

/// wrk's report. It rounds the octets.
pub fn wrk(text: &str) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut failures = 0;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [count, "requests", "in", time, octets, "read"] => {
                outcome.messages = count.parse().context("wrk's requests")?;
                let time = scaled(time.trim_end_matches(','), &TIMES).context("wrk's time")?;
                outcome.seconds = time / 1e6;
                outcome.received = scaled(octets, &OCTETS).context("wrk's octets")? as u64;
            }
            ["Requests/sec:", rate] => outcome.value = rate.parse().context("wrk's rate")?,
            ["50%", time] => outcome.p50 = scaled(time, &TIMES),
            ["99%", time] => outcome.p99 = scaled(time, &TIMES),
            ["Socket", "errors:", ..] => {
                let counts = words
                    .iter()
                    .filter_map(|w| w.trim_end_matches(',').parse::<u64>().ok());
                failures += counts.sum::<u64>();
            }
            ["Non-2xx", "or", "3xx", "responses:", count] => {
                failures += count.parse::<u64>().context("wrk's responses")?;
            }
            _ => {}
        }
    }
    if outcome.messages == 0 || outcome.value <= 0.0 {
        bail!("wrk got no answers");
    }
    if failures * PER_FAILURE > outcome.messages {
        bail!("wrk: {failures} failed, {} did not", outcome.messages);
    }
    Ok(outcome)
}

/// The JSON of iperf3. The value is what the receiver has counted.
pub fn iperf3(text: &str) -> Result<Outcome> {
    let report: Value = serde_json::from_str(text).context("iperf3's report")?;
    if let Some(error) = report["error"].as_str() {
        bail!("iperf3: {error}");
    }
    let of = |path: &str| {
        let value = report.pointer(path).and_then(Value::as_f64);
        value.with_context(|| format!("iperf3 reported no {path}"))
    };
    let sent = of("/end/sum_sent/bytes")?;
    let seconds = of("/end/sum_received/seconds")?;
    if seconds <= 0.0 {
        bail!("iperf3 took no time");
    }
    Ok(Outcome {
        value: of("/end/sum_received/bytes")? / f64::from(1 << 20) / seconds,
        messages: (sent / of("/start/test_start/blksize")?.max(1.0)) as u64,
        sent: sent as u64,
        seconds,
        ..Outcome::default()
    })
}

/// The number behind `name` in `line`.
fn behind(line: &str, name: &str) -> Option<f64> {
    let (_, rest) = line.split_once(name)?;
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

/// sockperf's report. The value is the median, as with our own round trips.
pub fn sockperf(text: &str, size: u32) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for line in text.lines() {
        if line.contains("[Total Run]") {
            let of = |name: &str| behind(line, name).with_context(|| format!("sockperf's {name}"));
            outcome.seconds = of("RunTime=")?;
            outcome.messages = of("SentMessages=")? as u64;
            outcome.sent = outcome.messages * u64::from(size);
            outcome.received = of("ReceivedMessages=")? as u64 * u64::from(size);
        }
        outcome.p50 = outcome.p50.or(behind(line, "percentile 50.000 ="));
        outcome.p99 = outcome.p99.or(behind(line, "percentile 99.000 ="));
    }
    outcome.value = outcome.p50.context("sockperf has no median")?;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redis_has_a_table() {
        let text = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
            \"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
            \"SET\",\"15588.46\",\"2.449\",\"0.096\",\"1.103\",\"7.639\",\"10.031\",\"13.335\"\n";
        let outcome = redis(text, "SET", 20000).unwrap();
        assert_eq!(outcome.value, 15588.46);
        assert_eq!(outcome.messages, 20000);
        assert_eq!(outcome.p50, Some(1103.0));
        assert_eq!(outcome.p99, Some(10031.0));
        assert!((outcome.seconds - 1.283).abs() < 1e-3);
        assert!(redis(text, "GET", 20000).is_err());
        assert!(redis("Could not connect\n", "GET", 1).is_err());
    }

    const WRK: &str = "\
Running 1s test @ http://127.0.0.1:8080/index.html
  1 threads and 20 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.42ms    1.65ms  10.31ms   84.33%
    Req/Sec    19.50k     3.80k   25.36k    70.00%
  Latency Distribution
     50%  465.00us
     75%    2.13ms
     90%    3.83ms
     99%    7.28ms
  19485 requests in 1.01s, 23.47MB read
";
    const WRK_END: &str = "\
Requests/sec:  19323.99
Transfer/sec:     23.28MB
";

    #[test]
    fn wrk_has_a_report() {
        let outcome = wrk(&format!("{WRK}{WRK_END}")).unwrap();
        assert_eq!(outcome.value, 19323.99);
        assert_eq!(outcome.messages, 19485);
        assert_eq!(outcome.seconds, 1.01);
        assert_eq!(outcome.p50, Some(465.0));
        assert_eq!(outcome.p99, Some(7280.0));
        assert_eq!(outcome.received, (23.47 * 1048576.0) as u64);
    }

    #[test]
    fn failures_of_wrk_are_found() {
        let few = "  Socket errors: connect 0, read 3, write 0, timeout 1\n";
        assert!(wrk(&format!("{WRK}{few}{WRK_END}")).is_ok());
        let many = "  Socket errors: connect 0, read 300, write 0, timeout 0\n";
        assert!(wrk(&format!("{WRK}{many}{WRK_END}")).is_err());
        let wrong = "  Non-2xx or 3xx responses: 11417\n";
        assert!(wrk(&format!("{WRK}{wrong}{WRK_END}")).is_err());
        assert!(wrk("unable to connect to 127.0.0.1:8080 Connection refused\n").is_err());
    }

    #[test]
    fn iperf3_has_json() {
        let text = r#"{"start": {"test_start": {"blksize": 131072}}, "end": {
            "sum_sent": {"bytes": 604635136, "seconds": 1.00216},
            "sum_received": {"bytes": 524288000, "seconds": 1.25}}}"#;
        let outcome = iperf3(text).unwrap();
        assert_eq!(outcome.value, 400.0);
        assert_eq!(outcome.sent, 604635136);
        assert_eq!(outcome.messages, 4613);
        let error = iperf3(r#"{"end": {}, "error": "unable to connect"}"#);
        assert!(error.unwrap_err().to_string().contains("unable"));
        assert!(iperf3("{}").is_err());
    }

    #[test]
    fn sockperf_has_percentiles() {
        let text = "\
sockperf: [Total Run] RunTime=1.000 sec; Warm up time=400 msec; SentMessages=30147; ReceivedMessages=30146
sockperf: [Valid Duration] RunTime=0.547 sec; SentMessages=16745; ReceivedMessages=16745
sockperf: \u{1b}[2;35m====> avg-rtt=32.617 (std-dev=221.999)\u{1b}[0m
sockperf: ---> percentile 99.900 = 4636.118
sockperf: ---> percentile 99.000 =   58.205
sockperf: ---> percentile 50.000 =   16.914
";
        let outcome = sockperf(text, 64).unwrap();
        assert_eq!(outcome.value, 16.914);
        assert_eq!(outcome.p99, Some(58.205));
        assert_eq!(outcome.messages, 30147);
        assert_eq!(outcome.received, 30146 * 64);
        assert_eq!(outcome.seconds, 1.0);
        assert!(sockperf("sockperf: No valid observations found.\n", 64).is_err());
    }

    #[test]
    fn units_are_known() {
        assert_eq!(scaled("2.50s", &TIMES), Some(2.5e6));
        assert_eq!(scaled("512.00B", &OCTETS), Some(512.0));
        assert_eq!(scaled("1.0", &TIMES), None);
        assert_eq!(scaled("1.0xs", &TIMES), None);
    }
}

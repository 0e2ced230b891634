// SPDX-License-Identifier: GPL-2.0

//! What one run of a workload gave.

use crate::stats;
use serde::{
    Deserialize,
    Serialize, //
};

/// The figures, as the client has them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// In the workload's unit.
    pub value: f64,
    /// Connections that were made.
    pub connections: u64,
    /// Sends by the client, or requests.
    pub messages: u64,
    /// Octets of payload that the client sent.
    pub sent: u64,
    /// Octets of payload that it received.
    pub received: u64,
    /// How long it took.
    pub seconds: f64,
    /// Processor time of the client.
    pub cpu: f64,
    /// Median time of a round trip, or of a connection, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p50: Option<f64>,
    /// 99 of 100 were not slower, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p99: Option<f64>,
    /// Time of a system call that does nothing, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub call: Option<f64>,
}

impl Outcome {
    /// Takes the times of single round trips, in microseconds.
    pub fn set_times(&mut self, times: &mut [f64]) {
        times.sort_by(f64::total_cmp);
        self.p50 = stats::quantile(times, 0.5);
        self.p99 = stats::quantile(times, 0.99);
    }
}

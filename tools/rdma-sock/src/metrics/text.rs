// SPDX-License-Identifier: GPL-2.0

//! The metrics in the text format of OpenMetrics.

use anyhow::Result;
use prometheus_client::{
    collector::Collector,
    encoding::{
        text,
        DescriptorEncoder,
        MetricEncoder,
        NoLabelSet, //
    },
    metrics::{
        exemplar::Exemplar,
        MetricType, //
    },
    registry::Registry,
};
use std::fmt;

use super::family::{
    self,
    Family,
    Kind, //
};
use crate::snapshot::Snapshot;

/// Hands the families to the library.
#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in &self.0 {
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
            };
            let mut metric = encoder.encode_descriptor(family.name, family.help, None, kind)?;
            for (labels, value) in &family.values {
                match labels.is_empty() {
                    true => encode_value(family.kind, *value, &mut metric)?,
                    false => {
                        let mut labelled = metric.encode_family(labels)?;
                        encode_value(family.kind, *value, &mut labelled)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn encode_value(kind: Kind, value: u64, metric: &mut MetricEncoder<'_>) -> fmt::Result {
    match kind {
        Kind::Counter => metric.encode_counter(&value, None::<&Exemplar<NoLabelSet, u64>>),
        Kind::Gauge => metric.encode_gauge(&value),
    }
}

/// Writes all metrics of a snapshot.
pub(super) fn of(snapshot: &Snapshot) -> Result<String> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(family::of(snapshot))));
    let mut encoded = String::new();
    text::encode(&mut encoded, &registry)?;
    Ok(encoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        schema,
        snapshot::sample, //
    };
    use std::{
        collections::BTreeSet,
        fs,
        path::Path, //
    };

    #[test]
    fn text_has_the_form_of_openmetrics() {
        let text = of(&sample::snapshot()).unwrap();
        for line in [
            "# TYPE rdma_sock_connections gauge",
            "rdma_sock_connections{proto=\"smc\",mode=\"tcp\"} 1",
            "# TYPE rdma_sock_rdma_payload_bytes counter",
            "rdma_sock_rdma_payload_bytes_total{proto=\"smc\",direction=\"sent\"} 67108864",
            "rdma_sock_link_groups 1",
            "rdma_sock_module_loaded{version=\"0.1.0\"} 1",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line}\nin\n{text}"
            );
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn machine_without_the_module_says_so() {
        let text = of(&Snapshot::default()).unwrap();
        assert!(
            text.contains("rdma_sock_module_loaded{version=\"\"} 0"),
            "{text}"
        );
    }

    /// The words of a text that are names of metrics.
    fn names(text: &str) -> BTreeSet<String> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words
            .filter(|word| word.starts_with("rdma_sock_"))
            .map(str::to_string)
            .collect()
    }

    #[test]
    fn alerts_and_dashboard_use_metrics_that_exist() {
        let mut known = BTreeSet::new();
        for family in family::of(&sample::snapshot()) {
            known.insert(match family.kind {
                Kind::Counter => format!("{}_total", family.name),
                Kind::Gauge => family.name.to_string(),
            });
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("monitoring");
        for file in ["alerts.yml", "dashboard.json"] {
            let text = fs::read_to_string(folder.join(file)).unwrap();
            let used = names(&text);
            assert!(!used.is_empty(), "{file}");
            let unknown: Vec<_> = used.difference(&known).collect();
            assert!(unknown.is_empty(), "{file}: {unknown:?}");
        }
        let dashboard = fs::read_to_string(folder.join("dashboard.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&dashboard).unwrap();
    }

    #[test]
    fn document_lists_each_metric() {
        let document = fs::read_to_string(schema::documentation("monitoring.rst")).unwrap();
        for family in family::of(&sample::snapshot()) {
            let name = match family.kind {
                Kind::Counter => format!("``{}_total``", family.name),
                Kind::Gauge => format!("``{}``", family.name),
            };
            assert!(document.contains(&name), "{name}");
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Checks of the sysctls, and of the limits that they set.

use std::fs;

use super::finding::Finding;
use crate::snapshot::{
    Snapshot,
    Sources, //
};

const SUBJECT: &str = "sysctl";

/// Part of a limit from which on it counts as nearly reached.
const NEARLY: f64 = 0.9;

/// All checks of settings.
pub(super) fn check(sources: &Sources, snapshot: &Snapshot) -> Vec<Finding> {
    let read = |name: &str| {
        let file = sources.proc.join("sys").join(name.replace('.', "/"));
        let text = fs::read_to_string(file).ok()?;
        Some(text.trim().to_string())
    };
    let mut findings: Vec<Finding> = SETTINGS
        .iter()
        .filter(|setting| read(setting.name).as_deref() == Some(setting.bad))
        .map(|setting| {
            let (name, bad) = (setting.name, setting.bad);
            let text = format!("{name} is {bad}: {}", setting.effect);
            Finding::warning(SUBJECT, text, format!("sysctl -w {name}={}", setting.good))
        })
        .collect();
    for (name, counter, unit) in LIMITS {
        let limit = read(name).and_then(|text| text.parse::<u64>().ok());
        let used = snapshot.statistics.count(counter) / unit;
        match limit {
            Some(limit) if used as f64 >= limit as f64 * NEARLY => {
                let text =
                    format!("{used} of {limit} are in use ({name}): more connections use TCP");
                let fix = format!("sysctl -w {name}={}", limit.saturating_mul(2));
                findings.push(Finding::warning(SUBJECT, text, fix));
            }
            _ => {}
        }
    }
    if findings.is_empty() {
        findings.push(Finding::good(
            SUBJECT,
            "no setting keeps connections from RDMA",
        ));
    }
    findings
}

/// A value that keeps connections from RDMA.
struct Setting {
    name: &'static str,
    bad: &'static str,
    good: &'static str,
    effect: &'static str,
}

const SETTINGS: &[Setting] = &[
    Setting {
        name: "net.smc.limit_smc_hs",
        bad: "1",
        good: "0",
        effect: "a busy listener takes clients by TCP",
    },
    Setting {
        name: "net.ipv4.tcp_syncookies",
        bad: "2",
        good: "1",
        effect: "SYN cookies for each client lose the TCP option of SMC-R",
    },
    Setting {
        name: "net.rdma_sock.sdp_probe",
        bad: "none",
        good: "pm",
        effect: "clients of SDP use TCP",
    },
    Setting {
        name: "net.rdma_sock.sdp_accept",
        bad: "off",
        good: "subnet",
        effect: "listeners of SDP take clients by TCP",
    },
];

/// Limits, with the counter of what is in use, and its unit in that of the limit.
const LIMITS: [(&str, &str, u64); 3] = [
    ("net.smc.smcr_max_kbytes", "buffer_bytes", 1024),
    ("net.smc.smcr_max_forming_lgrs", "forming_groups", 1),
    ("net.smc.smcr_max_orphans", "orphans", 1),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Level;
    use std::path::Path;

    fn set(root: &Path, name: &str, value: &str) {
        let file = root.join("proc/sys").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, value).unwrap();
    }

    #[test]
    fn value_that_prevents_rdma_is_found_with_its_remedy() {
        let root = tempfile::tempdir().unwrap();
        let sources = Sources::below(root.path());
        let check = || check(&sources, &Snapshot::default());
        assert_eq!(check()[0].level, Level::Good);
        set(root.path(), "net/ipv4/tcp_syncookies", "1\n");
        assert_eq!(check()[0].level, Level::Good);
        set(root.path(), "net/ipv4/tcp_syncookies", "2\n");
        let findings = check();
        assert_eq!(findings.len(), 1);
        let fix = findings[0].fix.as_deref();
        assert_eq!(fix, Some("sysctl -w net.ipv4.tcp_syncookies=1"));
    }

    #[test]
    fn limit_that_is_nearly_reached_is_found() {
        let root = tempfile::tempdir().unwrap();
        let sources = Sources::below(root.path());
        let mut snapshot = Snapshot::default();
        let counters = &mut snapshot.statistics.counters;
        counters.insert("buffer_bytes".into(), (950 * 1024).into());
        set(root.path(), "net/smc/smcr_max_kbytes", "2000\n");
        assert_eq!(check(&sources, &snapshot)[0].level, Level::Good);
        set(root.path(), "net/smc/smcr_max_kbytes", "1000\n");
        let findings = check(&sources, &snapshot);
        assert_eq!(findings[0].level, Level::Warning);
        assert!(findings[0].text.starts_with("950 of 1000"));
    }
}

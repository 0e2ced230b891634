// SPDX-License-Identifier: GPL-2.0

//! Services of systemd: their cgroups, and the drop-ins that select them.
//!
//! A service has no cgroup before it starts, and another one after each start. So each start of a service
//! adds the selector of its cgroup, by a drop-in that systemd's generator makes from the file.

use anyhow::{
    bail,
    Context,
    Result, //
};
use std::{
    fs,
    path::Path,
    process::{
        Command,
        Stdio, //
    },
};

use super::config::{
    Accelerated,
    Target, //
};

const SUFFIX: &str = ".service";
const LONGEST_NAME: usize = 255;
const DROP_IN: &str = "50-rdma-sock.conf";

/// The installed command, which the drop-ins call.
const COMMAND: &str = "/usr/bin/rdma-sock";

/// Is it the full name of a service, and no template?
pub(super) fn is_service(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b":-_.\\@".contains(&byte);
    let Some(stem) = name.strip_suffix(SUFFIX) else {
        return false;
    };
    name.len() <= LONGEST_NAME
        && !stem.is_empty()
        && !stem.starts_with('.')
        && !stem.ends_with('@')
        && stem.bytes().all(plain)
}

/// The cgroup of a service below the mount of the cgroups; none while it does not run.
pub(super) fn cgroup(name: &str) -> Result<Option<String>> {
    let output = Command::new("systemctl")
        .args(["show", "--property=ControlGroup", "--value", "--", name])
        .stdin(Stdio::null())
        .output()
        .context("cannot run systemctl")?;
    if !output.status.success() {
        bail!(
            "systemctl show {name}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let path = String::from_utf8_lossy(&output.stdout);
    let path = path.trim().trim_start_matches('/');
    Ok((!path.is_empty()).then(|| path.to_string()))
}

/// What a service gets.
fn drop_in(entry: &Accelerated) -> String {
    format!(
        "# Written at boot and by \"systemctl daemon-reload\", from /etc/rdma-sock.toml.\n\
         [Service]\n\
         ExecStartPre=+-{COMMAND} accel on --proto {} --cgroup self\n\
         ExecStopPost=+-{COMMAND} accel off --cgroup self\n",
        entry.proto.name()
    )
}

/// Writes the drop-ins of all services of the file below `folder`.
pub(super) fn write_drop_ins(entries: &[Accelerated], folder: &Path) -> Result<()> {
    for entry in entries {
        let Target::Unit(name) = &entry.target else {
            continue;
        };
        let folder = folder.join(format!("{name}.d"));
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let file = folder.join(DROP_IN);
        fs::write(&file, drop_in(entry)).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Proto;

    #[test]
    fn only_full_names_of_services_qualify() {
        for name in [
            "nginx.service",
            "a@b.service",
            "dev-disk\\x2dx.service",
            "a.b.service",
        ] {
            assert!(is_service(name), "{name}");
        }
        let long = format!("{}.service", "a".repeat(250));
        for name in [
            "nginx",
            ".service",
            "a@.service",
            "../x.service",
            "..service",
            "a b.service",
            "a/b.service",
            "a\n.service",
            "user.slice",
            &long,
        ] {
            assert!(!is_service(name), "{name}");
        }
    }

    #[test]
    fn drop_ins_are_written_for_services_only() {
        let root = tempfile::tempdir().unwrap();
        let entry = |target, proto| Accelerated { target, proto };
        let entries = [
            entry(Target::Program("curl".into()), Proto::Smc),
            entry(Target::Unit("redis.service".into()), Proto::Sdp),
        ];
        write_drop_ins(&entries, root.path()).unwrap();
        let names: Vec<_> = fs::read_dir(root.path()).unwrap().flatten().collect();
        assert_eq!(names.len(), 1);
        let text =
            fs::read_to_string(root.path().join("redis.service.d/50-rdma-sock.conf")).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "[Service]",
                "ExecStartPre=+-/usr/bin/rdma-sock accel on --proto sdp --cgroup self",
                "ExecStopPost=+-/usr/bin/rdma-sock accel off --cgroup self",
            ]
        );
    }
}

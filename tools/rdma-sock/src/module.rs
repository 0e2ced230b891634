// SPDX-License-Identifier: GPL-2.0

//! Kernel modules: which are there, and loading them.

use crate::proto::Proto;
use serde::Serialize;
use std::{
    fs,
    path::Path,
    process::{
        Command,
        Stdio, //
    },
};

/// The module this tool belongs to.
pub(crate) const RDMA_SOCK: &str = "rdma_sock";

/// The module of the kernel tree that offers SMC-R as well.
pub(crate) const IN_TREE_SMC: &str = "smc";

const SYS_MODULE: &str = "/sys/module";

/// What is known of the module.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Module {
    /// Whether the module is loaded and has finished its start.
    pub(crate) loaded: bool,
    /// The version that the module states.
    pub(crate) version: Option<String>,
}

impl Module {
    /// Looks up the module of this project.
    pub(crate) fn find() -> Self {
        Self::find_in(Path::new(SYS_MODULE), RDMA_SOCK)
    }

    /// Looks it up below another `/sys`.
    pub(crate) fn find_below(sys: &Path) -> Self {
        Self::find_in(&sys.join("module"), RDMA_SOCK)
    }

    fn find_in(root: &Path, name: &str) -> Self {
        let read = |file| {
            let text = fs::read_to_string(root.join(name).join(file)).ok()?;
            Some(text.trim().to_string())
        };
        Self {
            loaded: read("initstate").as_deref() == Some("live"),
            version: read("version"),
        }
    }
}

/// Is the module `name` there, loaded or (if it has parameters) built in?
pub(crate) fn is_present(name: &str) -> bool {
    Path::new(SYS_MODULE).join(name).exists()
}

/// Does a module that offers the protocol run?
pub(crate) fn offers(proto: Proto) -> bool {
    let has_smc = || Module::find_in(Path::new(SYS_MODULE), IN_TREE_SMC).loaded;
    Module::find().loaded || (proto != Proto::Sdp && has_smc())
}

/// Loads the module `name` with parameters unless it is there; says what went wrong.
pub(crate) fn load(name: &str, parameters: &[&str]) -> Result<(), String> {
    if is_present(name) {
        return Ok(());
    }
    let output = Command::new("modprobe")
        .arg(name)
        .args(parameters)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run modprobe: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim().to_string();
    Err(match text.is_empty() {
        true => format!("modprobe {name}: {}", output.status),
        false => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_that_is_live_is_loaded_and_has_its_version() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("rdma_sock");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("initstate"), "live\n").unwrap();
        fs::write(dir.join("version"), "0.1.0\n").unwrap();
        let module = Module::find_in(root.path(), RDMA_SOCK);
        assert!(module.loaded);
        assert_eq!(module.version.as_deref(), Some("0.1.0"));
    }

    #[test]
    fn module_that_is_absent_or_unloading_is_not_loaded() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Module::find_in(root.path(), RDMA_SOCK), Module::default());
        let dir = root.path().join("rdma_sock");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("initstate"), "going\n").unwrap();
        assert!(!Module::find_in(root.path(), RDMA_SOCK).loaded);
    }
}

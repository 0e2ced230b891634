// SPDX-License-Identifier: GPL-2.0

//! Checks of the kernel and its modules.

use rustix::system::uname;
use std::{
    fs,
    path::Path, //
};

use super::finding::Finding;
use crate::{
    accel,
    module::{
        self,
        Module, //
    },
    snapshot::Sources,
};

/// The oldest kernel that the module is for.
const OLDEST: (u32, u32) = (7, 2);

/// The running kernel.
pub(super) fn kernel(release: &str) -> Finding {
    const SUBJECT: &str = "kernel";
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|word| word.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST => {
            Finding::good(SUBJECT, format!("Linux {release}"))
        }
        (Some(_), Some(_)) => Finding::failure(
            SUBJECT,
            format!("Linux {release} is too old for the module"),
            format!("boot Linux {}.{} or later", OLDEST.0, OLDEST.1),
        ),
        _ => Finding::unknown(SUBJECT, format!("unknown version '{release}'")),
    }
}

/// The name of the running kernel.
pub(super) fn release() -> String {
    uname().release().to_string_lossy().into_owned()
}

/// The module of this project, and its rival in the kernel tree.
pub(super) fn module(sources: &Sources, found: &Module, release: &str) -> Finding {
    const SUBJECT: &str = "module";
    let name = module::RDMA_SOCK;
    if found.loaded {
        let version = found.version.as_ref();
        let version = version.map_or(String::new(), |version| format!(" {version}"));
        return Finding::good(SUBJECT, format!("{name}{version} is loaded"));
    }
    let loaded = |module: &str| sources.sys.join("module").join(module).exists();
    if loaded(module::IN_TREE_SMC) {
        return Finding::failure(
            SUBJECT,
            format!(
                "the kernel's own module smc.ko is loaded, and {name} cannot be loaded beside it"
            ),
            format!("rmmod smc_diag smc; modprobe {name}"),
        );
    }
    let folder = Path::new("/lib/modules").join(release);
    let fix = match is_installed(&folder, name) {
        true => format!("modprobe {name}"),
        false => format!("modprobe rdma_cm; insmod {name}.ko (`make` builds it for this kernel)"),
    };
    Finding::failure(SUBJECT, format!("{name} is not loaded"), fix)
}

/// Whether `modules.dep` in this folder lists the module.
fn is_installed(folder: &Path, name: &str) -> bool {
    let list = fs::read_to_string(folder.join("modules.dep")).unwrap_or_default();
    let file = |line: &str| {
        let path = line.split(':').next().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        name.split('.').next().unwrap_or_default().to_string()
    };
    list.lines().any(|line| file(line) == name)
}

/// What accelerates programs.
pub(super) fn acceleration() -> Finding {
    const SUBJECT: &str = "acceleration";
    match accel::Report::collect() {
        Ok(report) if report.is_on() => Finding::good(SUBJECT, report.summary()),
        Ok(_) => match accel::check_hook() {
            Ok(()) => Finding::warning(
                SUBJECT,
                "off: programs use RDMA only if they ask for it, or run under `rdma-sock run`",
                "rdma-sock accel on --comm NAME, then restart the program",
            ),
            Err(error) => Finding::warning(
                SUBJECT,
                format!("not possible by BPF: {error:#}"),
                "rdma-sock run CMD",
            ),
        },
        Err(error) => Finding::unknown(SUBJECT, format!("{error:#}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Level;

    #[test]
    fn old_kernels_are_told_from_new_ones() {
        for (release, level) in [
            ("7.3.4+deb13-amd64", Level::Good),
            ("7.2", Level::Good),
            ("7.3-amd64", Level::Good),
            ("10.0.1", Level::Good),
            ("7.1.9", Level::Failure),
            ("6.12.0-rc1", Level::Failure),
            ("odd", Level::Unknown),
        ] {
            assert_eq!(kernel(release).level, level, "{release}");
        }
    }

    #[test]
    fn rival_module_is_named() {
        let root = tempfile::tempdir().unwrap();
        let sources = Sources::below(root.path());
        let finding = module(&sources, &Module::default(), "none");
        assert!(finding.text.contains("not loaded"));
        assert!(finding.fix.unwrap().contains("insmod"));
        fs::create_dir_all(sources.sys.join("module/smc")).unwrap();
        let finding = module(&sources, &Module::default(), "none");
        assert!(finding.fix.unwrap().contains("rmmod"));
    }

    #[test]
    fn module_is_installed_if_the_list_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let list = "updates/rdma_sock_other.ko.xz:\nupdates/rdma_sock.ko.xz: kernel/x.ko\n";
        assert!(!is_installed(folder.path(), "rdma_sock"));
        fs::write(folder.path().join("modules.dep"), list).unwrap();
        assert!(is_installed(folder.path(), "rdma_sock"));
        assert!(!is_installed(folder.path(), "rdma"));
    }
}

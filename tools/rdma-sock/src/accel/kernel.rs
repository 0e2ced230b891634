// SPDX-License-Identifier: GPL-2.0

//! What acceleration needs of the kernel: the BPF file system, type information, the hook, and the
//! addresses of the lists of stream protocols.

use anyhow::{
    bail,
    ensure,
    Context,
    Result, //
};
use libbpf_rs::btf::{
    types::Func,
    Btf, //
};
use rustix::{
    fs::{
        flock,
        statfs,
        FlockOperation, //
    },
    process::geteuid,
};
use std::{
    fs::{
        self,
        File, //
    },
    path::Path, //
};

/// The function that the program is attached to.
pub(super) const HOOK: &str = "update_socket_protocol";

pub(super) const BPF_FS: &str = "/sys/fs/bpf";
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;

const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";
const KERNEL_SYMBOLS: &str = "/proc/kallsyms";

/// Number of `SOCK_STREAM` in `inetsw[]`, and the size of a list head there.
const SOCK_STREAM: u64 = 1;
const LIST_HEAD_SIZE: u64 = 2 * size_of::<u64>() as u64;

/// Addresses of the list heads of stream protocols, 0 where the kernel lacks the family.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct ProtocolLists {
    pub(super) inet: u64,
    pub(super) inet6: u64,
}

/// Checks that there is a BPF file system, and that this process may use it.
pub(super) fn check_bpf_fs() -> Result<()> {
    ensure!(
        geteuid().is_root(),
        "acceleration uses BPF, which needs root"
    );
    let fs = statfs(BPF_FS).context(BPF_FS)?;
    // The type of the field differs between architectures.
    #[allow(clippy::unnecessary_cast, reason = "not unnecessary everywhere")]
    let magic = fs.f_type as i64;
    ensure!(
        magic == BPF_FS_MAGIC,
        "no BPF file system at {BPF_FS}: mount it by `mount -t bpf bpf {BPF_FS}`"
    );
    Ok(())
}

/// Holds off other runs of this tool until the result is dropped.
pub(super) fn lock_bpf_fs() -> Result<File> {
    check_bpf_fs()?;
    let dir = File::open(BPF_FS).context(BPF_FS)?;
    flock(&dir, FlockOperation::LockExclusive).with_context(|| format!("cannot lock {BPF_FS}"))?;
    Ok(dir)
}

/// Checks that the kernel calls a function that BPF may take over.
pub(crate) fn check_hook() -> Result<()> {
    ensure!(
        Path::new(KERNEL_TYPES).exists(),
        "this kernel has no type information for BPF ({KERNEL_TYPES}; CONFIG_DEBUG_INFO_BTF): \
         use `rdma-sock run` instead"
    );
    let types = Btf::from_vmlinux().context(KERNEL_TYPES)?;
    ensure!(
        types.type_by_name::<Func<'_>>(HOOK).is_some(),
        "this kernel has no function {HOOK} (Linux 6.6 and later have it): \
         use `rdma-sock run` instead"
    );
    Ok(())
}

/// Finds the lists of stream protocols in the symbol table of the running kernel.
pub(super) fn protocol_lists() -> Result<ProtocolLists> {
    let symbols = fs::read_to_string(KERNEL_SYMBOLS).context(KERNEL_SYMBOLS)?;
    parse_protocol_lists(&symbols)
}

fn parse_protocol_lists(symbols: &str) -> Result<ProtocolLists> {
    let stream_list = |name: &str| -> Result<Option<u64>> {
        let mut found = None;
        for line in symbols.lines() {
            // Address, type, name, and the module for symbols of modules.
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(_), Some(symbol)) = (words.next(), words.next(), words.next())
            else {
                continue;
            };
            if symbol != name {
                continue;
            }
            ensure!(
                found.is_none(),
                "{KERNEL_SYMBOLS} has several symbols {name}"
            );
            let address = u64::from_str_radix(address, 16)
                .with_context(|| format!("{KERNEL_SYMBOLS}: {line}"))?;
            ensure!(
                address != 0,
                "{KERNEL_SYMBOLS} hides addresses from this process (sysctl kernel.kptr_restrict)"
            );
            found = Some(address.wrapping_add(SOCK_STREAM * LIST_HEAD_SIZE));
        }
        Ok(found)
    };
    let Some(inet) = stream_list("inetsw")? else {
        bail!(
            "{KERNEL_SYMBOLS} has no symbol inetsw, the table of protocols (CONFIG_KALLSYMS_ALL)"
        );
    };
    Ok(ProtocolLists {
        inet,
        inet6: stream_list("inetsw6")?.unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &str = "\
ffffffff81000000 T _stext
ffffffff82f0a2c0 d inetsw_array
ffffffff83a01000 b inetsw_lock
ffffffff83a01040 b inetsw
ffffffff83a0c100 b inetsw6
ffffffffc0a01000 t inetsw_probe\t[some_module]
";

    #[test]
    fn stream_lists_are_one_list_head_into_the_tables() {
        let lists = parse_protocol_lists(SYMBOLS).unwrap();
        assert_eq!(lists.inet, 0xffff_ffff_83a0_1050);
        assert_eq!(lists.inet6, 0xffff_ffff_83a0_c110);
    }

    #[test]
    fn kernel_without_ipv6_has_one_list() {
        let symbols = SYMBOLS.replace("inetsw6", "other");
        assert_eq!(parse_protocol_lists(&symbols).unwrap().inet6, 0);
    }

    #[test]
    fn hidden_ambiguous_or_missing_addresses_are_refused() {
        let hidden = "0000000000000000 b inetsw\n";
        assert!(parse_protocol_lists(hidden).is_err());
        let twice = format!("{SYMBOLS}ffffffffc0b00000 b inetsw\t[imitation]\n");
        assert!(parse_protocol_lists(&twice).is_err());
        assert!(parse_protocol_lists("ffffffff81000000 T _stext\n").is_err());
    }
}

// SPDX-License-Identifier: GPL-2.0

//! `rdma-sock run`: starts a program with the preload library.

use anyhow::{
    bail,
    Context,
    Result, //
};
use std::{
    env,
    ffi::{
        OsStr,
        OsString, //
    },
    io::ErrorKind,
    os::unix::{
        ffi::OsStrExt,
        process::CommandExt, //
    },
    path::{
        Path,
        PathBuf, //
    },
    process::{
        Command,
        ExitCode, //
    },
};

use crate::{
    cli::RunArgs,
    output, //
};

const LIBRARY: &str = "librdma_sock_preload.so";
const VARIABLE: &str = "LD_PRELOAD";

/// What tells the library the protocol.
const PROTOCOL: &str = "RDMA_SOCK_PROTO";

/// What tells the library the sizes of buffers; the names are those of smc_run(8).
const RCVBUF: &str = "SMC_RCVBUF";
const SNDBUF: &str = "SMC_SNDBUF";

/// What shells answer when a program cannot be executed, or is not found.
const CANNOT_EXECUTE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Replaces this process by the program; returns only if that fails.
pub(crate) fn exec(args: &RunArgs) -> ExitCode {
    let (error, code) = match prepare(args) {
        Ok(mut command) => {
            let error = command.exec();
            let code = match error.kind() {
                ErrorKind::NotFound => NOT_FOUND,
                _ => CANNOT_EXECUTE,
            };
            let program = command.get_program().to_string_lossy().into_owned();
            (
                anyhow::Error::new(error).context(format!("cannot run {program}")),
                code,
            )
        }
        Err(error) => (error, CANNOT_EXECUTE),
    };
    output::complain(&error);
    ExitCode::from(code)
}

fn prepare(args: &RunArgs) -> Result<Command> {
    let library = match &args.preload {
        Some(file) => file
            .canonicalize()
            .with_context(|| format!("cannot preload {}", file.display()))?,
        None => {
            find_library(&env::current_exe().context("cannot find the file of rdma-sock itself")?)?
        }
    };
    let preload = preload_list(&library, env::var_os(VARIABLE).as_deref())?;
    let (program, arguments) = args.command.split_first().context("no program given")?;
    let mut command = Command::new(program);
    command.args(arguments).env(VARIABLE, preload);
    if let Some(proto) = args.proto {
        command.env(PROTOCOL, proto.name());
    }
    for (name, size) in [(RCVBUF, args.rcvbuf), (SNDBUF, args.sndbuf)] {
        if let Some(size) = size {
            command.env(name, size.to_string());
        }
    }
    Ok(command)
}

/// Parses a size in octets: a number, or one of KiB or MiB with a letter behind it. No more than the
/// socket option takes.
pub(crate) fn parse_size(text: &str) -> Result<u32> {
    let (digits, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        _ => (text, 1),
    };
    let size = digits
        .parse::<u32>()
        .ok()
        .and_then(|number| number.checked_mul(unit));
    match size {
        Some(size @ 1..) if i32::try_from(size).is_ok() => Ok(size),
        _ => bail!("not a size from 1 to 2047M"),
    }
}

/// Looks for the library where it is built or installed, relative to the file of this program.
fn find_library(program: &Path) -> Result<PathBuf> {
    let dir = program.parent().unwrap_or(Path::new("/"));
    let places = [
        dir.to_path_buf(),
        dir.join("../lib/rdma-sock"),
        dir.join("../lib"),
    ];
    for place in &places {
        if let Ok(file) = place.join(LIBRARY).canonicalize() {
            return Ok(file);
        }
    }
    bail!(
        "no {LIBRARY} in {}, or in ../lib/rdma-sock or ../lib from there: give its path by --preload",
        dir.display()
    )
}

/// Puts `library` before what is preloaded already.
fn preload_list(library: &Path, existing: Option<&OsStr>) -> Result<OsString> {
    let name = library.as_os_str();
    // The loader takes both as separators and knows no escape.
    if name
        .as_bytes()
        .iter()
        .any(|&byte| byte == b' ' || byte == b':')
    {
        bail!(
            "{}: the path of a preloaded library must have no space and no colon",
            library.display()
        );
    }
    let mut list = name.to_os_string();
    if let Some(existing) = existing.filter(|existing| !existing.is_empty()) {
        list.push(":");
        list.push(existing);
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn size_is_a_number_with_or_without_a_unit() {
        for (text, size) in [
            ("1", 1),
            ("16384", 16384),
            ("64K", 65536),
            ("64k", 65536),
            ("2m", 2 << 20),
            ("2047M", 2047 << 20),
        ] {
            assert_eq!(parse_size(text).unwrap(), size, "{text}");
        }
        for text in [
            "",
            "0",
            "0K",
            "K",
            "-1",
            "+",
            "1G",
            "1KB",
            "2048M",
            "2147483648",
            "4194304K",
            "1.5M",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn library_is_found_next_to_the_program_or_in_lib() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let bin = root.join("bin");
        let lib = root.join("lib/rdma-sock");
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir_all(&lib).unwrap();
        let program = bin.join("rdma-sock");
        assert!(find_library(&program).is_err());
        fs::write(lib.join(LIBRARY), "").unwrap();
        assert_eq!(find_library(&program).unwrap(), lib.join(LIBRARY));
        fs::write(bin.join(LIBRARY), "").unwrap();
        assert_eq!(find_library(&program).unwrap(), bin.join(LIBRARY));
    }

    #[test]
    fn earlier_preloads_are_kept() {
        let library = Path::new("/lib/x.so");
        assert_eq!(preload_list(library, None).unwrap(), "/lib/x.so");
        assert_eq!(
            preload_list(library, Some(OsStr::new(""))).unwrap(),
            "/lib/x.so"
        );
        assert_eq!(
            preload_list(library, Some(OsStr::new("/lib/y.so"))).unwrap(),
            "/lib/x.so:/lib/y.so"
        );
    }

    #[test]
    fn path_that_the_loader_would_split_is_refused() {
        assert!(preload_list(Path::new("/a b/x.so"), None).is_err());
        assert!(preload_list(Path::new("/a:b/x.so"), None).is_err());
    }
}

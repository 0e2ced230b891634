// SPDX-License-Identifier: GPL-2.0

//! Network namespaces by name, by path and by cookie.
//!
//! A selector has the cookie, which no later namespace gets.

use anyhow::{
    Context,
    Result, //
};
use std::{
    fs::{
        self,
        File, //
    },
    path::{
        Path,
        PathBuf, //
    },
};

/// Where `ip netns` keeps namespaces with names.
const NAMED: &str = "/run/netns";
/// The namespace of this process, on the command line and as a file.
pub(crate) const OWN: &str = "self";
const OWN_FILE: &str = "/proc/self/ns/net";

/// The cookie of the namespace that the user names: by the name of `ip netns`, by a path, or by `self`.
pub(crate) fn cookie(name: &Path) -> Result<u64> {
    let path = file_of(name);
    cookie_of(&path).with_context(|| format!("{}: not a network namespace", path.display()))
}

/// The file of the namespace that the user names.
fn file_of(name: &Path) -> PathBuf {
    if name == Path::new(OWN) {
        return OWN_FILE.into();
    }
    // What has a slash is a path.
    match name.components().count() {
        1 => Path::new(NAMED).join(name),
        _ => name.to_path_buf(),
    }
}

fn cookie_of(path: &Path) -> Result<u64> {
    Ok(rdma_sock_netns::cookie(File::open(path)?)?)
}

/// What a user may call the namespace with this cookie.
pub(crate) fn name_of(cookie: u64) -> Option<String> {
    let is = |path: &Path| cookie_of(path).is_ok_and(|found| found == cookie);
    let entries = fs::read_dir(NAMED).into_iter().flatten().flatten();
    let mut named: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    named.sort_unstable();
    let found = named.into_iter().find(|path| is(path));
    let name = found.as_deref().and_then(Path::file_name);
    match name {
        Some(name) => Some(name.to_string_lossy().into_owned()),
        None => is(Path::new(OWN_FILE)).then(|| OWN.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_that_of_ip_netns_and_a_path_is_a_path() {
        for (name, file) in [
            ("blue", "/run/netns/blue"),
            ("self", "/proc/self/ns/net"),
            ("/proc/7/ns/net", "/proc/7/ns/net"),
            ("./blue", "./blue"),
        ] {
            assert_eq!(file_of(Path::new(name)), Path::new(file));
        }
    }

    #[test]
    fn file_that_is_no_namespace_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = cookie(file.path()).unwrap_err().to_string();
        assert!(error.ends_with("not a network namespace"), "{error}");
        assert!(cookie(Path::new("rs-no-such-namespace")).is_err());
    }
}

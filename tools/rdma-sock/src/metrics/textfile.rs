// SPDX-License-Identifier: GPL-2.0

//! A file of metrics for the textfile collector of the Prometheus node exporter.

use anyhow::{
    ensure,
    Result, //
};
use std::path::Path;

use crate::output;

/// Readable for all, as the exporter runs as another user.
const MODE: u32 = 0o644;

/// The end of the names that the collector reads.
const SUFFIX: &str = "prom";

/// Replaces the file at once, so that a reader sees the old or the new text as a whole.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    ensure!(
        path.extension().is_some_and(|suffix| suffix == SUFFIX),
        "{}: the collector reads files whose names end in .{SUFFIX} only",
        path.display()
    );
    output::replace_file(path, MODE, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::fs::PermissionsExt, //
    };

    #[test]
    fn file_is_replaced_and_no_other_file_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rdma_sock.prom");
        write(&path, "old\n").unwrap();
        write(&path, "new\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new\n");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        // The umask may take permissions away.
        assert_eq!(mode & 0o777 & !MODE, 0);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn mistake_gets_an_error_with_the_path() {
        let error = |path: &str| format!("{:#}", write(Path::new(path), "").unwrap_err());
        assert!(error("/tmp/metrics.txt").contains(".prom"));
        assert!(error("/nowhere/x.prom").contains("/nowhere/x.prom"));
    }
}

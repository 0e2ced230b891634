// SPDX-License-Identifier: GPL-2.0

//! Writing to the terminal: complaints, JSON and tables.

use serde::Serialize;
use std::{
    fmt::Display,
    io::{
        self,
        ErrorKind,
        Write, //
    },
};

/// Writes `text` to standard output. A reader that has gone away is not an error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Writes `value` as JSON for people and programs.
pub(crate) fn print_json<T: Serialize>(value: &T) -> anyhow::Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Tells an error with its causes.
pub(crate) fn complain(error: &anyhow::Error) {
    eprintln!("rdma-sock: {error:#}");
}

/// Tells something that is no error but should be known.
pub(crate) fn note(text: &str) {
    eprintln!("rdma-sock: note: {text}");
}

/// Text in columns that are as wide as their widest cell.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Makes a table with these column headings.
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self {
            rows: vec![headings.iter().map(|heading| heading.to_string()).collect()],
        }
    }

    /// Adds a row; an empty cell is shown as a dash.
    pub(crate) fn row<I: IntoIterator<Item = String>>(&mut self, cells: I) {
        let dash = |cell: String| if cell.is_empty() { "-".into() } else { cell };
        self.rows.push(cells.into_iter().map(dash).collect());
    }

    /// Writes the table, indented.
    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells
                .map(|cell: &String| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str("  ");
                line.push_str(&format!("{cell:width$}"));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Writes a number of things.
pub(crate) fn counted<N: Display + PartialEq + From<u8>>(count: N, thing: &str) -> String {
    let plural = if count == N::from(1) { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

/// Writes a number of bytes with a binary unit.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut unit = "B";
    let mut value = count as f64;
    for next in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    match unit {
        "B" => format!("{count} B"),
        _ => format!("{value:.1} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_empty_cells_marked() {
        let mut table = Table::new(&["NAME", "N"]);
        table.row(["a-long-name".to_string(), "1".to_string()]);
        table.row(["b".to_string(), String::new()]);
        assert_eq!(
            table.render(),
            "  NAME         N\n  a-long-name  1\n  b            -\n"
        );
    }

    #[test]
    fn one_thing_is_no_plural() {
        assert_eq!(counted(1u64, "socket"), "1 socket");
        assert_eq!(counted(0usize, "socket"), "0 sockets");
    }

    #[test]
    fn bytes_get_the_unit_that_fits() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.0 KiB");
        assert_eq!(bytes(64 << 20), "64.0 MiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
    }
}

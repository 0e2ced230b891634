// SPDX-License-Identifier: GPL-2.0

//! Writing to the terminal, or to a file: complaints, JSON, tables and colours.
//!
//! Text has colours while it is made. Where they are not wanted (no terminal, `NO_COLOR`,
//! `--color never`), the stream removes them.

use anstyle::{
    AnsiColor,
    Effects,
    Style, //
};
use anyhow::Context;
use serde::Serialize;
use std::{
    fmt::Display,
    fs::Permissions,
    io::{
        ErrorKind,
        Write, //
    },
    os::unix::fs::PermissionsExt,
    path::Path, //
};

/// Colours by their meaning.
pub(crate) mod style {
    use super::*;

    /// Works, or uses RDMA.
    pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
    /// Works in part, or uses TCP.
    pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default();
    /// Does not work.
    pub(crate) const BAD: Style = AnsiColor::Red.on_default().effects(Effects::BOLD);
    /// Headings.
    pub(crate) const HEADING: Style = Style::new().effects(Effects::BOLD);
    /// Less important.
    pub(crate) const DIM: Style = Style::new().effects(Effects::DIMMED);
    /// As other text.
    pub(crate) const PLAIN: Style = Style::new();
}

/// Writes text in a colour.
pub(crate) fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Writes `text` to standard output. A reader that has gone away is not an error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    print_while_read(text).map(drop)
}

/// Writes `text` to standard output; false if the reader has gone away.
pub(crate) fn print_while_read(text: &str) -> anyhow::Result<bool> {
    let mut stdout = anstream::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Writes `value` as JSON for people and programs.
pub(crate) fn print_json<T: Serialize>(value: &T) -> anyhow::Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Replaces a file at once, so that a reader sees the old or the new text as a whole. The umask may take
/// permissions of `mode` away.
pub(crate) fn replace_file(path: &Path, mode: u32, text: &str) -> anyhow::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let cannot = || format!("cannot write {}", path.display());
    let mut file = tempfile::Builder::new()
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder)
        .with_context(cannot)?;
    file.write_all(text.as_bytes()).with_context(cannot)?;
    file.persist(path).with_context(cannot)?;
    Ok(())
}

/// Tells an error with its causes.
pub(crate) fn complain(error: &anyhow::Error) {
    anstream::eprintln!("{} {error:#}", paint(style::BAD, "rdma-sock:"));
}

/// Tells something that is no error but should be known.
pub(crate) fn note(text: &str) {
    anstream::eprintln!("rdma-sock: {} {text}", paint(style::WARNING, "note:"));
}

/// A cell of a table.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// Makes a cell with a colour.
    pub(crate) fn new(text: impl Into<String>, style: Style) -> Self {
        Self {
            text: text.into(),
            style,
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, style::PLAIN)
    }
}

/// Text in columns that are as wide as their widest cell.
pub(crate) struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Makes a table with these column headings.
    pub(crate) fn new(headings: &[&str]) -> Self {
        let heading = |text: &&str| Cell::new(*text, style::DIM);
        Self {
            rows: vec![headings.iter().map(heading).collect()],
        }
    }

    /// Adds a row; an empty cell is shown as a dash.
    pub(crate) fn row<I>(&mut self, cells: I)
    where
        I: IntoIterator,
        I::Item: Into<Cell>,
    {
        let dash = |cell: I::Item| {
            let cell: Cell = cell.into();
            match cell.text.is_empty() {
                true => Cell::new("-", style::DIM),
                false => cell,
            }
        };
        self.rows.push(cells.into_iter().map(dash).collect());
    }

    /// Writes the table, indented.
    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells
                .map(|cell: &Cell| cell.text.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let last = row.len().saturating_sub(1);
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                text.push_str("  ");
                text.push_str(&paint(cell.style, &cell.text));
                if column != last {
                    let missing = width.saturating_sub(cell.text.chars().count());
                    text.push_str(&" ".repeat(missing));
                }
            }
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

/// Removes the colours of a text.
#[cfg(test)]
pub(crate) fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_empty_cells_marked() {
        let mut table = Table::new(&["NAME", "N"]);
        table.row(["a-long-name", "1"]);
        table.row(["b", ""]);
        assert_eq!(
            plain(&table.render()),
            "  NAME         N\n  a-long-name  1\n  b            -\n"
        );
    }

    #[test]
    fn colours_do_not_change_the_columns() {
        let mut table = Table::new(&["STATE", "N"]);
        table.row([Cell::new("up", style::GOOD), "1".into()]);
        let text = table.render();
        assert_ne!(text, plain(&text));
        assert_eq!(plain(&text), "  STATE  N\n  up     1\n");
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

// SPDX-License-Identifier: GPL-2.0

//! The report again and again.
//!
//! A terminal shows the newest report only. A file or a pipe gets all of them: texts with an empty
//! line between them, or one JSON document a line.

use anyhow::Result;
use std::{
    io::{
        stdout,
        IsTerminal, //
    },
    thread,
};

use super::Report;
use crate::{
    cli::Interval,
    output::{
        self,
        paint,
        style, //
    },
    snapshot::Sources,
};

/// Moves the cursor to the corner; clears what is behind the cursor in the line, and below it.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K\n";
const CLEAR_BELOW: &str = "\x1b[J";

/// Prints reports until the reader has gone away.
pub(super) fn run(sources: &Sources, interval: Interval, json: bool) -> Result<()> {
    let terminal = stdout().is_terminal() && !json;
    let mut separator = "";
    loop {
        let report = Report::collect(sources)?;
        let text = match (json, terminal) {
            (true, _) => serde_json::to_string(&report)? + "\n",
            (false, true) => screen(&report.text(), interval),
            (false, false) => format!("{separator}{}", report.text()),
        };
        separator = "\n";
        if !output::print_while_read(&text)? {
            return Ok(());
        }
        thread::sleep(interval.duration());
    }
}

fn screen(text: &str, interval: Interval) -> String {
    let title = paint(
        style::DIM,
        format_args!("Every {interval} s; Ctrl-C to leave"),
    );
    let lines = text.replace('\n', CLEAR_LINE);
    format!("{HOME}{title}{CLEAR_LINE}{CLEAR_LINE}{lines}{CLEAR_BELOW}")
}

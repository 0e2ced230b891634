// SPDX-License-Identifier: GPL-2.0

//! A frame of the live view as text, and as an SVG picture.

use ratatui::{
    buffer::{
        Buffer,
        Cell, //
    },
    style::{
        Color,
        Modifier, //
    },
};
use std::fmt::Write;

/// Size of a cell of the picture.
const WIDTH: f64 = 8.0;
const HEIGHT: f64 = 17.0;
const FONT: &str = "13px 'DejaVu Sans Mono', 'Liberation Mono', monospace";
const BACKGROUND: &str = "#1c1c22";
const FOREGROUND: &str = "#dcdcdc";

/// The text of a frame, without blanks at the ends of its lines.
pub(super) fn text_of(buffer: &Buffer) -> String {
    let mut text = String::new();
    for row in rows(buffer) {
        let line: String = row.iter().map(Cell::symbol).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The picture of a frame.
pub(super) fn svg_of(buffer: &Buffer) -> String {
    let width = f64::from(buffer.area.width) * WIDTH;
    let height = f64::from(buffer.area.height) * HEIGHT;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         style=\"font: {FONT}; white-space: pre\">\n\
         <!-- SPDX-License-Identifier: GPL-2.0 -->\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"{BACKGROUND}\"/>\n"
    );
    for (y, row) in (1u32..).zip(rows(buffer)) {
        let base = f64::from(y) * HEIGHT - HEIGHT / 4.0;
        let mut x = 0;
        for run in row.chunk_by(|one, other| look(one) == look(other)) {
            let text: String = run.iter().map(Cell::symbol).collect();
            if let (Some(first), false) = (run.first(), text.trim().is_empty()) {
                let length = run.len() as f64 * WIDTH;
                let left = f64::from(x) * WIDTH;
                let _ = writeln!(
                    svg,
                    "<text x=\"{left}\" y=\"{base:.1}\" textLength=\"{length}\" \
                     xml:space=\"preserve\"{}>{}</text>",
                    attributes(first),
                    escape(&text)
                );
            }
            x += u32::try_from(run.len()).unwrap_or_default();
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn rows(buffer: &Buffer) -> impl Iterator<Item = &[Cell]> {
    buffer
        .content()
        .chunks(usize::from(buffer.area.width).max(1))
}

/// What cells of one run have in common.
fn look(cell: &Cell) -> (Color, Modifier) {
    (cell.fg, cell.modifier)
}

fn attributes(cell: &Cell) -> String {
    let colour = match cell.fg {
        Color::Green => "#6fcf6f",
        Color::Yellow => "#e5c04b",
        Color::Red => "#ff6b6b",
        Color::Cyan => "#5fc9d8",
        _ => FOREGROUND,
    };
    let mut text = format!(" fill=\"{colour}\"");
    if cell.modifier.contains(Modifier::BOLD) {
        text.push_str(" font-weight=\"bold\"");
    }
    if cell.modifier.contains(Modifier::DIM) {
        text.push_str(" opacity=\"0.6\"");
    }
    text
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::style::Style;

    #[test]
    fn text_keeps_the_lines_without_trailing_blanks() {
        let buffer = Buffer::with_lines(["one  ", "", " two"]);
        assert_eq!(text_of(&buffer), "one\n\n two\n");
    }

    #[test]
    fn picture_has_a_run_for_each_colour() {
        let mut buffer = Buffer::with_lines(["a<b"]);
        let green = Style::new().fg(Color::Green);
        buffer.set_string(2, 0, "b", green);
        let svg = svg_of(&buffer);
        assert!(svg.contains(">a&lt;</text>"), "{svg}");
        assert!(svg.contains("fill=\"#6fcf6f\">b</text>"), "{svg}");
        assert!(svg.contains("x=\"16\""), "{svg}");
    }
}

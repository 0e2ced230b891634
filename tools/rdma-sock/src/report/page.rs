// SPDX-License-Identifier: GPL-2.0

//! What a page is made of.

/// A part of a section.
pub(super) enum Block {
    /// Text.
    Paragraph(String),
    /// Names with values.
    Facts(Vec<(String, String)>),
    /// Rows under headings.
    Table {
        /// The headings.
        headings: &'static [&'static str],
        /// A row has as many cells as there are headings.
        rows: Vec<Vec<String>>,
    },
    /// An SVG, which has no text of the machine.
    Plot(String),
}

impl Block {
    /// A table; a paragraph if it has no rows.
    pub(super) fn table(headings: &'static [&'static str], rows: Vec<Vec<String>>) -> Self {
        match rows.is_empty() {
            true => Self::Paragraph("none".into()),
            false => Self::Table { headings, rows },
        }
    }
}

/// Blocks under a title.
pub(super) struct Section {
    /// The title.
    pub(super) title: &'static str,
    /// What is below.
    pub(super) blocks: Vec<Block>,
}

/// All of it.
pub(super) struct Page {
    /// The title.
    pub(super) title: &'static str,
    /// The sections in their order.
    pub(super) sections: Vec<Section>,
}

// SPDX-License-Identifier: GPL-2.0

//! A page as HTML that is also well-formed XML, and refers to nothing outside of itself.

use super::{
    page::{
        Block,
        Page,
        Section, //
    },
    redact::Redactor,
};

/// Forbids the browser everything but the styles of the page, whatever a text may have smuggled in.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

const STYLE: &str = "\
body { font: 14px sans-serif; margin: 2em auto; max-width: 110em; padding: 0 1em; color: #222; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; border-bottom: 1px solid #ccc; }
table { border-collapse: collapse; font: 12px monospace; }
th, td { text-align: left; vertical-align: top; padding: 0.2em 0.8em 0.2em 0; }
th { border-bottom: 1px solid #ccc; } tr:nth-child(even) td { background: #f6f6f6; }
td.good { color: #15721c; } td.warning { color: #a05a00; } td.failure { color: #b00020; }
";

/// Cells that get a colour, by their whole text.
const CLASSES: [(&str, &str); 8] = [
    ("good", "good"),
    ("smc", "good"),
    ("sdp", "good"),
    ("active", "good"),
    ("warning", "warning"),
    ("tcp", "warning"),
    ("failure", "failure"),
    ("dead", "failure"),
];

/// Text without what HTML reads as its own, and without characters that XML has not.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

impl Page {
    /// The file.
    pub(super) fn render(&self, redactor: &mut Redactor) -> String {
        let title = escape(self.title);
        let mut text = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"/>\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        );
        for section in &self.sections {
            text.push_str(&section.render(redactor));
        }
        text.push_str("</body>\n</html>\n");
        text
    }
}

impl Section {
    fn render(&self, redactor: &mut Redactor) -> String {
        let mut text = format!("<section>\n<h2>{}</h2>\n", escape(self.title));
        for block in &self.blocks {
            text.push_str(&block.render(redactor));
        }
        text.push_str("</section>\n");
        text
    }
}

impl Block {
    fn render(&self, redactor: &mut Redactor) -> String {
        match self {
            Self::Paragraph(words) => format!("<p>{}</p>\n", escape(&redactor.apply(words))),
            Self::Plot(svg) => format!("<div>\n{svg}</div>\n"),
            Self::Facts(facts) => {
                let rows = facts
                    .iter()
                    .map(|(name, value)| row("th", &[name, value], redactor));
                table(&rows.collect::<String>())
            }
            Self::Table { headings, rows } => {
                let mut text = String::from("<tr>");
                for heading in *headings {
                    text.push_str(&format!("<th>{}</th>", escape(heading)));
                }
                text.push_str("</tr>\n");
                for cells in rows {
                    let cells: Vec<&String> = cells.iter().collect();
                    text.push_str(&row("td", &cells, redactor));
                }
                table(&text)
            }
        }
    }
}

fn table(rows: &str) -> String {
    format!("<table>\n<tbody>\n{rows}</tbody>\n</table>\n")
}

/// A row whose first cell is an element of this name.
fn row(first: &str, cells: &[&String], redactor: &mut Redactor) -> String {
    let mut text = String::from("<tr>");
    let mut element = first;
    for cell in cells {
        let class = CLASSES.iter().find(|(word, _)| word == cell);
        let class = class.map_or(String::new(), |(_, class)| format!(" class=\"{class}\""));
        let words = escape(&redactor.apply(cell));
        text.push_str(&format!("<{element}{class}>{words}</{element}>"));
        element = "td";
    }
    text.push_str("</tr>\n");
    text
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The elements that a text leaves open, or the first that it closes wrongly. Texts have neither
    /// comments nor sections of raw characters.
    pub(crate) fn open_elements(text: &str) -> Vec<String> {
        let mut open: Vec<String> = Vec::new();
        let text = text.strip_prefix("<!DOCTYPE html>").unwrap();
        for part in text.split('<').skip(1) {
            let (tag, words) = part.split_once('>').expect("a tag has an end");
            assert!(!words.contains('>'), "{words}");
            for entity in words.split('&').skip(1) {
                let name = entity.split(';').next().unwrap();
                assert!(["amp", "lt", "gt", "quot", "#39"].contains(&name), "{name}");
            }
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name));
            } else if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().unwrap().into());
            }
        }
        open
    }

    fn page(words: &str) -> String {
        let words = || words.to_string();
        let blocks = vec![
            Block::Paragraph(words()),
            Block::Facts(vec![(words(), words())]),
            Block::table(&["A", "B"], vec![vec![words(), "good".into()]]),
            Block::table(&["A"], Vec::new()),
        ];
        let section = Section {
            title: "a & b",
            blocks,
        };
        let page = Page {
            title: "<title>",
            sections: vec![section],
        };
        page.render(&mut Redactor::new(false))
    }

    #[test]
    fn text_cannot_leave_its_place() {
        let hostile = "</td><script>alert(\"1\")</script>&amp;'\x1b[2J\u{0}\u{ffff}";
        let text = page(hostile);
        assert!(open_elements(&text).is_empty());
        assert!(!text.contains("<script") && !text.contains('\x1b'));
        let escaped = "&lt;/td&gt;&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;amp;&#39;";
        assert_eq!(text.matches(escaped).count(), 4);
        assert!(text.contains("<title>&lt;title&gt;</title>"));
    }

    #[test]
    fn cells_of_a_level_get_its_colour_and_empty_tables_say_so() {
        let text = page("x");
        assert!(text.contains("<td class=\"good\">good</td>"));
        assert!(text.contains("<p>none</p>"));
    }
}

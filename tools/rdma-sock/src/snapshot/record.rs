// SPDX-License-Identifier: GPL-2.0

//! Lines of `key=value` words separated by blanks, as the module's files have them.
//!
//! A later kernel may print words that this tool does not know. They are kept for the JSON.

use serde_json::Value;
use std::collections::BTreeMap;

/// A line of `key=value` words. Taking a key removes it, so the unknown keys are left.
pub(crate) struct Record(BTreeMap<String, String>);

/// The words of a record that this tool does not know. Decimal numbers are numbers.
pub(super) type Other = BTreeMap<String, Value>;

impl Record {
    /// Reads a line. A word without `=` belongs to the value before it, which then has a blank.
    pub(crate) fn parse(line: &str) -> Self {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for word in line.split_ascii_whitespace() {
            match (word.split_once('='), pairs.last_mut()) {
                (Some((key, value)), _) => pairs.push((key.into(), value.into())),
                (None, Some((_, value))) => {
                    value.push(' ');
                    value.push_str(word);
                }
                (None, None) => {}
            }
        }
        Self(pairs.into_iter().collect())
    }

    /// The value of `key`; an empty one counts as absent.
    pub(crate) fn text(&mut self, key: &str) -> Option<String> {
        self.0.remove(key).filter(|value| !value.is_empty())
    }

    /// The value of `key` as a number; one that is not a number stays with the unknown.
    pub(crate) fn number(&mut self, key: &str) -> Option<u64> {
        let number = self.0.get(key)?.parse().ok()?;
        self.0.remove(key);
        Some(number)
    }

    /// The value of `key` as a truth value.
    pub(super) fn flag(&mut self, key: &str) -> Option<bool> {
        self.number(key).map(|number| number != 0)
    }

    /// The words that are left.
    pub(super) fn other(self) -> Other {
        let value = |text: String| match text.parse::<u64>() {
            Ok(number) => Value::from(number),
            Err(_) => Value::from(text),
        };
        self.0
            .into_iter()
            .map(|(key, text)| (key, value(text)))
            .collect()
    }
}

/// The records of a file.
pub(super) fn records(text: &str) -> impl Iterator<Item = Record> + '_ {
    text.lines()
        .map(Record::parse)
        .filter(|record| !record.0.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_may_have_blanks_and_an_equals_sign() {
        let mut record = Record::parse("stray name=no route to peer peer=a=b mode=tcp");
        assert_eq!(record.text("name").as_deref(), Some("no route to peer"));
        assert_eq!(record.text("peer").as_deref(), Some("a=b"));
        assert_eq!(record.text("mode").as_deref(), Some("tcp"));
        assert!(record.other().is_empty());
    }

    #[test]
    fn word_that_is_no_number_stays_with_the_unknown() {
        let mut record = Record::parse("tx_bytes=many rx_bytes=5 cpu=1");
        assert_eq!(record.number("tx_bytes"), None);
        assert_eq!(record.number("rx_bytes"), Some(5));
        let other = record.other();
        assert_eq!(other.get("tx_bytes"), Some(&Value::from("many")));
        assert_eq!(other.get("cpu"), Some(&Value::from(1)));
    }

    #[test]
    fn empty_lines_are_no_records() {
        assert_eq!(records("a=1\n\nb=2\n").count(), 2);
    }
}

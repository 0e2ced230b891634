// SPDX-License-Identifier: GPL-2.0

//! The result of one check.

use serde::Serialize;

use crate::output::{
    paint,
    style, //
};

/// How bad it is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// As it should be.
    Good,
    /// Not checked, for the reason in the text.
    Unknown,
    /// RDMA works for some connections only, or not as well as it could.
    Warning,
    /// No connection can use RDMA.
    Failure,
}

/// The result of one check.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Finding {
    /// What was checked, in one word.
    pub(super) subject: &'static str,
    /// How bad it is.
    pub(super) level: Level,
    /// What was found.
    pub(super) text: String,
    /// What to do about it.
    pub(super) fix: Option<String>,
}

impl Finding {
    fn new(subject: &'static str, level: Level, text: impl Into<String>) -> Self {
        Self {
            subject,
            level,
            text: text.into(),
            fix: None,
        }
    }

    fn with_fix(self, fix: impl Into<String>) -> Self {
        Self {
            fix: Some(fix.into()),
            ..self
        }
    }

    /// It is as it should be.
    pub(super) fn good(subject: &'static str, text: impl Into<String>) -> Self {
        Self::new(subject, Level::Good, text)
    }

    /// It could not be checked.
    pub(super) fn unknown(subject: &'static str, text: impl Into<String>) -> Self {
        Self::new(subject, Level::Unknown, text)
    }

    /// It hinders some connections; `fix` mends it.
    pub(super) fn warning(
        subject: &'static str,
        text: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(subject, Level::Warning, text).with_fix(fix)
    }

    /// It prevents RDMA; `fix` mends it.
    pub(super) fn failure(
        subject: &'static str,
        text: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(subject, Level::Failure, text).with_fix(fix)
    }

    /// The finding for people.
    pub(super) fn text(&self) -> String {
        let (word, style) = match self.level {
            Level::Good => ("ok", style::GOOD),
            Level::Unknown => ("?", style::DIM),
            Level::Warning => ("warning", style::WARNING),
            Level::Failure => ("FAILURE", style::BAD),
        };
        let word = paint(style, format_args!("{word:<7}"));
        let mut text = format!("{word}  {:<12}  {}\n", self.subject, self.text);
        if let Some(fix) = &self.fix {
            text.push_str(&format!("{:23}fix: {fix}\n", ""));
        }
        text
    }
}

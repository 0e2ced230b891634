// SPDX-License-Identifier: GPL-2.0

//! Decisions about a byte stream that are the same for any protocol below.
//!
//! | What                     | File     |
//! |--------------------------|----------|
//! | What poll reports        | [`poll`] |

pub(crate) mod poll;

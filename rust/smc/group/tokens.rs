// SPDX-License-Identifier: GPL-2.0

//! Allocates the table of a link group's connections.

use super::member::Member;
use crate::{
    kapi::base::module::random_u32,
    proto::smc::llc::tokens::{
        self,
        Row,
        MAX_CONNECTIONS, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The connections of a link group.
pub(crate) type GroupTokens = tokens::Tokens<KVec<Row<Arc<dyn Member>>>>;

/// An empty table. Nothing allocates afterwards. Context: may sleep.
pub(crate) fn new_table() -> Result<GroupTokens> {
    let mut rows = KVec::with_capacity(MAX_CONNECTIONS, GFP_KERNEL)?;
    for _ in 0..MAX_CONNECTIONS {
        rows.push(Row::new(random_u32()), GFP_KERNEL)?;
    }
    Ok(GroupTokens::new(rows))
}

// SPDX-License-Identifier: GPL-2.0

//! Protection domains and address handles.

use super::{
    node::Node,
    region::DomainTag, //
};
use crate::kapi::ibdev::AddressVector;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A protection domain: keys of another one give no access (RNIC-MR-04).
pub(super) struct Domain {
    /// Its device.
    pub(super) node: Arc<Node>,
    /// What its memory regions know of it.
    pub(super) tag: Arc<DomainTag>,
}

impl Domain {
    /// Makes a domain of a device. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(node: &Arc<Node>) -> Result<Arc<Self>> {
        let domain = Self {
            node: node.clone(),
            tag: Arc::new(DomainTag, GFP_KERNEL)?,
        };
        Ok(Arc::new(domain, GFP_KERNEL)?)
    }
}

/// An address handle. A work request that names it keeps it (RNIC-UD-06).
pub(crate) struct AddressHandle {
    /// Its protection domain.
    pub(super) domain: Arc<Domain>,
    /// The way to the peer.
    pub(super) to: AddressVector,
}

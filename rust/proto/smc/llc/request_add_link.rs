// SPDX-License-Identifier: GPL-2.0

//! LLC REQUEST ADD LINK of SMC-Rv2: a client asks for another link and names its ports.
//!
//! In version 1 an ADD LINK does that. The server answers by an ADD LINK of its own, or by a reply
//! when it makes no attempt.

use super::msg::{
    Layout,
    LlcHeader,
    LlcParseError,
    MESSAGE_BYTES, //
};
use crate::proto::base::verbs::Gid;

/// Most GIDs that are sent or looked at.
pub(crate) const MAX_GIDS: usize = 8;

/// Where the number of GIDs is.
const COUNT_AT: usize = 24;

/// Octets before the first GID.
const HEAD_BYTES: usize = 28;

/// Octets of a GID.
const GID_BYTES: usize = 16;

/// REQUEST ADD LINK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestAddLink {
    /// Whether this is the reply, which means that there will be no link.
    pub(crate) reply: bool,
    /// How many GIDs there are.
    count: u8,
    /// The first of them.
    gids: [Gid; MAX_GIDS],
}

impl RequestAddLink {
    /// Octet 0 without the version.
    pub(super) const OPCODE: u8 = 5;

    /// A reply.
    pub(super) const REPLY: Self = Self {
        reply: true,
        count: 0,
        gids: [Gid::new([0; GID_BYTES]); MAX_GIDS],
    };

    /// A request that names ports, as many as fit.
    pub(super) fn request(ports: impl Iterator<Item = Gid>) -> Self {
        let mut message = Self {
            reply: false,
            ..Self::REPLY
        };
        for (place, gid) in message.gids.iter_mut().zip(ports) {
            *place = gid;
            message.count = message.count.saturating_add(1);
        }
        message
    }

    /// Reads one.
    ///
    /// # Errors
    ///
    /// `LlcParseError::Count` for more GIDs than there are octets for.
    pub(super) fn parse(octets: &[u8], reply: bool) -> Result<Self, LlcParseError> {
        let count = *octets.get(COUNT_AT).ok_or(LlcParseError::Length)?;
        let behind = octets.get(HEAD_BYTES..).ok_or(LlcParseError::Length)?;
        if reply {
            return Ok(Self::REPLY);
        }
        if behind.len() / GID_BYTES < usize::from(count) {
            return Err(LlcParseError::Count);
        }
        let gids = behind
            .chunks_exact(GID_BYTES)
            .take(usize::from(count))
            .filter_map(|gid| Some(Gid::new(<[u8; GID_BYTES]>::try_from(gid).ok()?)));
        Ok(Self::request(gids))
    }

    /// Writes it. `None` if there is no room.
    pub(super) fn emit(&self, layout: Layout, buf: &mut [u8]) -> Option<usize> {
        let gids = self.gids.iter().take(usize::from(self.count));
        let bytes = usize::from(self.count).checked_mul(GID_BYTES)?;
        let len = bytes.checked_add(HEAD_BYTES)?.max(MESSAGE_BYTES);
        let buf = buf.get_mut(..len)?;
        buf.fill(0);
        LlcHeader::new(Self::OPCODE, self.reply, 0).write_v2(layout, buf)?;
        *buf.get_mut(COUNT_AT)? = self.count;
        let places = buf.get_mut(HEAD_BYTES..)?.chunks_exact_mut(GID_BYTES);
        for (place, gid) in places.zip(gids) {
            place.copy_from_slice(&gid.get());
        }
        Some(len)
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_llc_request_add_link))]
mod tests {
    use super::{
        super::msg::LlcBody,
        *, //
    };

    #[test]
    fn request_names_ports() {
        for count in 0..=10_u8 {
            for layout in [Layout::V2, Layout::V2Little] {
                let gids = (0..count).map(|last| Gid::new([last; 16]));
                let request = RequestAddLink::request(gids);
                let mut buf = [0xff; 28 + 16 * MAX_GIDS];
                let len = request.emit(layout, &mut buf);
                let expected = core::cmp::max(28 + 16 * usize::from(count.min(8)), 44);
                assert_eq!(len, Some(expected));
                let octets = &buf[..expected];
                let parsed = LlcBody::parse(octets, layout);
                assert_eq!(parsed, Ok(LlcBody::RequestAddLink(request)));
                assert_eq!(Layout::V2.shown_by(octets), layout);
                // As a short message only what is whole then.
                let short = LlcBody::RequestAddLink(request).emit(layout);
                assert_eq!(short.is_some(), expected == MESSAGE_BYTES);
            }
        }
        let mut small = [0; 43];
        assert_eq!(RequestAddLink::REPLY.emit(Layout::V2, &mut small), None);
    }

    #[test]
    fn more_ports_than_octets_are_rejected() {
        let mut octets = [0; MESSAGE_BYTES];
        octets[..3].copy_from_slice(&[0x25, 0, 44]);
        for count in 0..=u8::MAX {
            octets[24] = count;
            octets[3] = 0;
            let parsed = LlcBody::parse(&octets, Layout::V2);
            assert_eq!(parsed.is_ok(), count < 2);
            // A reply repeats what it likes.
            octets[3] = 0x80;
            let parsed = LlcBody::parse(&octets, Layout::V2);
            let reply = LlcBody::RequestAddLink(RequestAddLink::REPLY);
            assert_eq!(parsed, Ok(reply));
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! One end of an SMC-R connection, as Accept and Confirm describe it, RFC 7609, appendices A.2.3
//! and A.2.4.

use super::error::ProtocolError;
use crate::proto::{
    base::verbs::{
        Gid,
        Mac,
        Mtu,
        Psn,
        Qpn,
        RKey, //
    },
    smc::wire::{
        AlertToken,
        BufSize,
        RToken,
        RmbeIndex, //
    },
};
use zerocopy::{
    byteorder::network_endian::{
        U32,
        U64, //
    },
    FromBytes,
    IntoBytes, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

/// Octets 16 to 63 of Accept and Confirm (CLC-203 to CLC-214, CLC-302 to CLC-313).
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    /// GID of the RDMA port.
    gid: [u8; 16],
    /// Ethernet address of the RDMA port.
    mac: [u8; 6],
    /// Number of the queue pair.
    qpn: [u8; 3],
    /// Key of the RMB.
    rkey: U32,
    /// Index of the element in the RMB, from 1.
    rmbe_index: u8,
    /// Alert token of the connection.
    alert_token: U32,
    /// Code of the element's size, and of the MTU.
    size_mtu: u8,
    /// Reserved.
    reserved: u8,
    /// Virtual address of the RMB.
    vaddr: U64,
    /// Reserved.
    reserved_too: u8,
    /// First packet sequence number of the queue pair.
    psn: [u8; 3],
}

/// One end of a connection: its queue pair, its buffer and how to address it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// GID of the RDMA port (CLC-203).
    pub(crate) gid: Gid,
    /// Ethernet address of the RDMA port (CLC-204).
    pub(crate) mac: Mac,
    /// Queue pair of the link (CLC-205).
    pub(crate) qpn: Qpn,
    /// Key of the remote memory buffer on the link (CLC-206).
    pub(crate) rkey: RKey,
    /// Element of that buffer (CLC-207).
    pub(crate) rmbe_index: RmbeIndex,
    /// To be echoed in CDC messages for this end (CLC-208).
    pub(crate) alert_token: AlertToken,
    /// Size of each element of the buffer (CLC-209).
    pub(crate) buf_size: BufSize,
    /// Path MTU of the port; `None` for a reserved value, which matters on first contact only
    /// (CLC-210, CLC-221).
    pub(crate) mtu: Option<Mtu>,
    /// Address of the start of the buffer, not of the element (CLC-212).
    pub(crate) vaddr: u64,
    /// Sequence number of the first packet the queue pair sends (CLC-214).
    pub(crate) psn: Psn,
}

impl Endpoint {
    /// Octets on the wire.
    pub(super) const LEN: usize = size_of::<Raw>();

    /// Reads the octets between header and trailer.
    ///
    /// RFC 7609 knows elements of up to 512 KiB. Where Linux goes beyond that, it is followed: a client
    /// that joins a link group takes its Confirm for the end, and would not notice a refusal.
    pub(super) fn parse(body: &[u8]) -> Result<Self, ProtocolError> {
        let raw = Raw::ref_from_bytes(body).map_err(|_| ProtocolError::Size)?;
        Ok(Self {
            gid: Gid::new(raw.gid),
            mac: Mac::new(raw.mac),
            qpn: Qpn::from_octets(raw.qpn),
            rkey: RKey::new(raw.rkey.get()),
            rmbe_index: RmbeIndex::new(raw.rmbe_index).ok_or(ProtocolError::ElementIndex)?,
            alert_token: AlertToken::new(raw.alert_token.get()),
            // Every code of 4 bits is one.
            buf_size: BufSize::from_code(raw.size_mtu >> 4).unwrap_or(BufSize::MAX),
            mtu: Mtu::from_code(raw.size_mtu & 0x0f),
            vaddr: raw.vaddr.get(),
            psn: Psn::from_octets(raw.psn),
        })
    }

    /// Writes the octets between header and trailer.
    pub(super) fn emit(&self, body: &mut [u8]) -> Option<()> {
        let raw = Raw {
            gid: self.gid.get(),
            mac: self.mac.get(),
            qpn: self.qpn.octets(),
            rkey: self.rkey.get().into(),
            rmbe_index: self.rmbe_index.get(),
            alert_token: self.alert_token.get().into(),
            size_mtu: (self.buf_size.code() << 4) | self.mtu.map_or(0, Mtu::code),
            reserved: 0,
            vaddr: self.vaddr.into(),
            reserved_too: 0,
            psn: self.psn.octets(),
        };
        raw.write_to(body).ok()
    }

    /// Key and address of the remote memory buffer on the link.
    pub(crate) const fn rtoken(&self) -> RToken {
        RToken {
            rkey: self.rkey,
            vaddr: self.vaddr,
        }
    }

    /// The MTU of the queue pair between this end and one whose port has `own` (CLC-220).
    pub(crate) fn path_mtu(&self, own: Mtu) -> Mtu {
        self.mtu.map_or(own, |mtu| mtu.smaller(own))
    }
}

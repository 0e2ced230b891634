// SPDX-License-Identifier: GPL-2.0

//! The generic netlink family of the C implementation: an enterprise ID, which SMC-Rv2 does not work
//! without, and the statistics of a namespace.

use anyhow::{
    bail,
    Context,
    Result, //
};
use rustix::{
    fd::OwnedFd,
    net::{
        netlink,
        recv,
        send,
        socket,
        AddressFamily,
        RecvFlags,
        SendFlags,
        SocketType, //
    },
};
use std::collections::BTreeMap;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_HEADER: usize = 16;
const GENL_HEADER: usize = 4;
const NLA_TYPE: u16 = 0x3fff;

const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

const FAMILY: &[u8] = b"SMC_GEN_NETLINK\0";
const SMC_NETLINK_GET_STATS: u8 = 7;
const SMC_NETLINK_GET_FBACK_STATS: u8 = 8;
const SMC_NETLINK_ADD_UEID: u8 = 10;
const SMC_NLA_EID_TABLE_ENTRY: u16 = 1;
const SMC_GEN_STATS: u16 = 7;
const SMC_NLA_STATS_SMCR_TECH: u16 = 2;
const SMC_GEN_FBACK_STATS: u16 = 8;

/// Numbers in the statistics of SMC-R that are of interest.
const TECH: [(u16, &str); 6] = [
    (7, "clnt_v1"),
    (8, "clnt_v2"),
    (9, "srv_v1"),
    (10, "srv_v2"),
    (16, "rx_bytes"),
    (17, "tx_bytes"),
];

/// The enterprise ID: 32 octets, padded with spaces.
const EID: &str = "BENCH";

/// A netlink socket that knows the number of the family.
pub struct Smc {
    socket: OwnedFd,
    family: u16,
}

/// An attribute: its header, its value, and octets up to a multiple of four.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The attributes in `bytes`, up to the first that is broken.
fn attributes(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut found = Vec::new();
    while bytes.len() >= 4 {
        let len = usize::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
        let kind = u16::from_ne_bytes([bytes[2], bytes[3]]) & NLA_TYPE;
        if len < 4 || len > bytes.len() {
            break;
        }
        found.push((kind, &bytes[4..len]));
        bytes = &bytes[len.next_multiple_of(4).min(bytes.len())..];
    }
    found
}

fn inside(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    let found = attributes(bytes);
    found.iter().find(|(k, _)| *k == kind).map(|(_, v)| *v)
}

/// A number of any size.
fn number(value: &[u8]) -> u64 {
    value
        .iter()
        .rev()
        .take(8)
        .fold(0, |sum, octet| (sum << 8) | u64::from(*octet))
}

impl Smc {
    /// Opens it in the calling thread's namespace. Fails if the C implementation is not loaded.
    pub fn open() -> Result<Self> {
        let kind = Some(netlink::GENERIC);
        let socket = socket(AddressFamily::NETLINK, SocketType::RAW, kind).context("netlink")?;
        let mut this = Self {
            socket,
            family: GENL_ID_CTRL,
        };
        let name = attribute(CTRL_ATTR_FAMILY_NAME, FAMILY);
        let answers = this
            .call(CTRL_CMD_GETFAMILY, NLM_F_ACK, &name)
            .context("the C implementation is not there")?;
        let id = answers
            .iter()
            .find_map(|answer| inside(answer, CTRL_ATTR_FAMILY_ID));
        this.family = u16::try_from(number(id.context("a family without a number")?))?;
        Ok(this)
    }

    /// One request; the attributes of all its answers.
    fn call(&self, command: u8, flags: u16, payload: &[u8]) -> Result<Vec<Vec<u8>>> {
        let len = u32::try_from(NLMSG_HEADER + GENL_HEADER + payload.len())?;
        let mut message = len.to_ne_bytes().to_vec();
        message.extend(self.family.to_ne_bytes());
        message.extend((NLM_F_REQUEST | flags).to_ne_bytes());
        message.extend([0; 8]);
        message.extend([command, 1, 0, 0]);
        message.extend(payload);
        send(&self.socket, &message, SendFlags::empty())?;
        let mut answers = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let (_, count) = recv(&self.socket, buffer.as_mut_slice(), RecvFlags::empty())?;
            let mut bytes = &buffer[..count];
            while bytes.len() >= NLMSG_HEADER {
                let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
                let len = usize::try_from(u32::from_ne_bytes(word(0)))?;
                let kind = u16::from_ne_bytes([bytes[4], bytes[5]]);
                if len < NLMSG_HEADER || len > bytes.len() {
                    bail!("a broken netlink message");
                }
                match kind {
                    NLMSG_DONE => return Ok(answers),
                    NLMSG_ERROR => {
                        let error = i32::from_ne_bytes(word(NLMSG_HEADER));
                        if error == 0 {
                            return Ok(answers);
                        }
                        return Err(std::io::Error::from_raw_os_error(-error).into());
                    }
                    _ => answers.push(bytes[(NLMSG_HEADER + GENL_HEADER).min(len)..len].to_vec()),
                }
                bytes = &bytes[len.next_multiple_of(4).min(bytes.len())..];
            }
        }
    }

    /// Enters the enterprise ID; of no consequence if it is there.
    pub fn add_eid(&self) -> Result<()> {
        let mut eid = format!("{EID:<32}").into_bytes();
        eid.push(0);
        let payload = attribute(SMC_NLA_EID_TABLE_ENTRY, &eid);
        match self.call(SMC_NETLINK_ADD_UEID, NLM_F_ACK, &payload) {
            Err(error)
                if error
                    .downcast_ref::<std::io::Error>()
                    .is_some_and(|e| e.kind() == std::io::ErrorKind::AlreadyExists) =>
            {
                Ok(())
            }
            other => other.map(drop).context("the enterprise ID"),
        }
    }

    /// The namespace's statistics: those of [`TECH`], failed handshakes, and fallbacks.
    pub fn stats(&self) -> Result<BTreeMap<String, f64>> {
        let mut found = BTreeMap::new();
        for answer in self.call(SMC_NETLINK_GET_STATS, NLM_F_DUMP, &[])? {
            let Some(stats) = inside(&answer, SMC_GEN_STATS) else {
                continue;
            };
            let tech = inside(stats, SMC_NLA_STATS_SMCR_TECH).unwrap_or_default();
            for (kind, name) in TECH {
                let value = inside(tech, kind).map_or(0, number);
                found.insert(name.to_string(), value as f64);
            }
            for (kind, name) in [(3, "clnt_errors"), (4, "srv_errors")] {
                let value = inside(stats, kind).map_or(0, number);
                found.insert(name.to_string(), value as f64);
            }
        }
        let mut fallbacks = 0.0;
        for answer in self.call(SMC_NETLINK_GET_FBACK_STATS, NLM_F_DUMP, &[])? {
            let Some(stats) = inside(&answer, SMC_GEN_FBACK_STATS) else {
                continue;
            };
            // The counts of the side are in every row, those of the reasons in one each.
            let reason = inside(stats, 4).map_or(0, number);
            let count = inside(stats, 5).map_or(0, number) as f64;
            if reason != 0 {
                found.insert(format!("fallback_{reason:08x}"), count);
                fallbacks += count;
            }
        }
        found.insert("fallbacks".to_string(), fallbacks);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_back() {
        let mut bytes = attribute(1, b"abc");
        bytes.extend(attribute(0x8000 | 2, &7u64.to_ne_bytes()));
        assert_eq!(bytes.len(), 8 + 12);
        assert_eq!(inside(&bytes, 1), Some(&b"abc"[..]));
        assert_eq!(inside(&bytes, 2).map(number), Some(7));
        assert_eq!(inside(&bytes, 3), None);
    }

    #[test]
    fn broken_attributes_end_the_list() {
        assert!(attributes(&[3, 0, 1, 0]).is_empty());
        assert!(attributes(&[9, 0, 1, 0, 0]).is_empty());
        assert_eq!(attributes(&[5, 0, 1, 0, 9]), [(1, &[9u8][..])]);
    }
}

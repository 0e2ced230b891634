// SPDX-License-Identifier: GPL-2.0

//! RDMA netlink: listing, making and deleting RDMA devices. Kernel header `rdma/rdma_netlink.h`.

use anyhow::{
    bail,
    Context,
    Result, //
};
use netlink_packet_core::{
    DecodeError,
    DefaultNla,
    Emitable,
    NetlinkDeserializable,
    NetlinkHeader,
    NetlinkMessage,
    NetlinkPayload,
    NetlinkSerializable,
    Nla,
    NlasIterator,
    NLM_F_ACK,
    NLM_F_DUMP,
    NLM_F_REQUEST, //
};
use netlink_sys::{
    protocols::NETLINK_RDMA,
    Socket,
    SocketAddr, //
};
use rustix::io::Errno;
use serde::{
    Serialize,
    Serializer, //
};
use std::{
    fmt,
    io, //
};

/// `RDMA_NL_NLDEV`, in the upper part of the message type.
const NLDEV: u16 = 5 << 10;

const CMD_GET: u16 = 1;
const CMD_NEWLINK: u16 = 3;
const CMD_DELLINK: u16 = 4;
const CMD_PORT_GET: u16 = 5;

const ATTR_DEV_INDEX: u16 = 1;
const ATTR_DEV_NAME: u16 = 2;
const ATTR_PORT_INDEX: u16 = 3;
const ATTR_PORT_STATE: u16 = 12;
const ATTR_NDEV_NAME: u16 = 51;
const ATTR_LINK_TYPE: u16 = 65;

/// A port of an RDMA device.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Port {
    /// The number by which netlink knows the device.
    #[serde(skip)]
    pub(super) index: u32,
    pub(crate) device: String,
    pub(crate) port: u32,
    /// The network device, if it is in this namespace.
    pub(crate) netdev: Option<String>,
    pub(crate) state: PortState,
}

/// `enum ib_port_state`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PortState {
    Nop,
    Down,
    Init,
    Armed,
    Active,
    ActiveDefer,
    Unknown(u8),
}

impl From<u8> for PortState {
    fn from(code: u8) -> Self {
        match code {
            0 => Self::Nop,
            1 => Self::Down,
            2 => Self::Init,
            3 => Self::Armed,
            4 => Self::Active,
            5 => Self::ActiveDefer,
            _ => Self::Unknown(code),
        }
    }
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nop => f.write_str("nop"),
            Self::Down => f.write_str("down"),
            Self::Init => f.write_str("init"),
            Self::Armed => f.write_str("armed"),
            Self::Active => f.write_str("active"),
            Self::ActiveDefer => f.write_str("active-defer"),
            Self::Unknown(code) => write!(f, "unknown-{code}"),
        }
    }
}

impl Serialize for PortState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A message of this family: a command and its attributes.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Message {
    command: u16,
    attributes: Vec<DefaultNla>,
}

impl Message {
    fn new(command: u16) -> Self {
        Self {
            command,
            attributes: Vec::new(),
        }
    }

    fn with_u32(mut self, kind: u16, value: u32) -> Self {
        self.attributes
            .push(DefaultNla::new(kind, value.to_ne_bytes().into()));
        self
    }

    fn with_text(mut self, kind: u16, value: &str) -> Self {
        let octets = value.bytes().chain([0]).collect();
        self.attributes.push(DefaultNla::new(kind, octets));
        self
    }

    fn value(&self, kind: u16) -> Option<Vec<u8>> {
        let attribute = self
            .attributes
            .iter()
            .find(|attribute| attribute.kind() == kind)?;
        let mut value = vec![0; attribute.value_len()];
        attribute.emit_value(&mut value);
        Some(value)
    }

    fn u8(&self, kind: u16) -> Option<u8> {
        self.value(kind)?.first().copied()
    }

    fn u32(&self, kind: u16) -> Option<u32> {
        Some(u32::from_ne_bytes(self.value(kind)?.try_into().ok()?))
    }

    fn text(&self, kind: u16) -> Option<String> {
        let value = self.value(kind)?;
        let text = value.split(|&byte| byte == 0).next().unwrap_or_default();
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        NLDEV + self.command
    }

    fn buffer_len(&self) -> usize {
        self.attributes.as_slice().buffer_len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        self.attributes.as_slice().emit(buffer);
    }
}

impl NetlinkDeserializable for Message {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        let attribute = |nla: Result<netlink_packet_core::NlaBuffer<&[u8]>, DecodeError>| {
            nla.map(|nla| DefaultNla::new(nla.kind(), nla.value().into()))
        };
        Ok(Self {
            command: header.message_type.wrapping_sub(NLDEV),
            attributes: NlasIterator::new(payload)
                .map(attribute)
                .collect::<Result<_, _>>()?,
        })
    }
}

/// The kernel's answer to a request that it refused.
pub(super) fn errno(error: &anyhow::Error) -> Option<Errno> {
    let error = error.downcast_ref::<io::Error>()?;
    Errno::from_io_error(error)
}

/// A socket of RDMA netlink.
pub(super) struct Nldev {
    socket: Socket,
    sequence: u32,
}

impl Nldev {
    pub(super) fn open() -> Result<Self> {
        let open = || -> io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_RDMA)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(socket)
        };
        Ok(Self {
            socket: open().context(
                "cannot ask the kernel for RDMA devices (is the module ib_core loaded?)",
            )?,
            sequence: 0,
        })
    }

    /// Makes a software device on a network device.
    pub(super) fn new_link(&mut self, device: &str, kind: &str, netdev: &str) -> Result<()> {
        let message = Message::new(CMD_NEWLINK)
            .with_text(ATTR_DEV_NAME, device)
            .with_text(ATTR_LINK_TYPE, kind)
            .with_text(ATTR_NDEV_NAME, netdev);
        self.request(message, NLM_F_ACK).map(drop)
    }

    /// Deletes a software device.
    pub(super) fn del_link(&mut self, index: u32) -> Result<()> {
        let message = Message::new(CMD_DELLINK).with_u32(ATTR_DEV_INDEX, index);
        self.request(message, NLM_F_ACK).map(drop)
    }

    /// Lists all ports of all devices that this namespace may use.
    pub(super) fn ports(&mut self) -> Result<Vec<Port>> {
        let mut ports = Vec::new();
        for device in self.request(Message::new(CMD_GET), NLM_F_DUMP)? {
            let Some(index) = device.u32(ATTR_DEV_INDEX) else {
                continue;
            };
            let message = Message::new(CMD_PORT_GET).with_u32(ATTR_DEV_INDEX, index);
            match self.request(message, NLM_F_DUMP) {
                Ok(found) => ports.extend(found.iter().filter_map(parse_port)),
                // The device was deleted in between.
                Err(error) if errno(&error) == Some(Errno::INVAL) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(ports)
    }

    /// Sends a request and gathers the answers up to the last one.
    fn request(&mut self, message: Message, flags: u16) -> Result<Vec<Message>> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut packet = NetlinkMessage::from(message);
        packet.header.flags = NLM_F_REQUEST | flags;
        packet.header.sequence_number = self.sequence;
        packet.finalize();
        let mut octets = vec![0; packet.buffer_len()];
        packet.serialize(&mut octets);
        self.socket.send(&octets, 0)?;

        let mut answers = Vec::new();
        loop {
            let (octets, _) = self.socket.recv_from_full()?;
            if self.gather(&octets, &mut answers)? {
                return Ok(answers);
            }
        }
    }

    /// Takes the answers from one datagram; true if the last one is among them.
    fn gather(&self, octets: &[u8], answers: &mut Vec<Message>) -> Result<bool> {
        let mut rest = octets;
        while !rest.is_empty() {
            let packet = NetlinkMessage::<Message>::deserialize(rest)?;
            let length = usize::try_from(packet.header.length)?.next_multiple_of(4);
            rest = rest.get(length..).unwrap_or_default();
            if packet.header.sequence_number != self.sequence {
                continue;
            }
            match packet.payload {
                NetlinkPayload::InnerMessage(message) => answers.push(message),
                NetlinkPayload::Done(_) => return Ok(true),
                NetlinkPayload::Error(error) => match error.code {
                    None => return Ok(true),
                    Some(_) => return Err(error.to_io().into()),
                },
                NetlinkPayload::Overrun(_) => bail!("an answer of the kernel was lost"),
                _ => {}
            }
        }
        Ok(false)
    }
}

impl From<Message> for NetlinkPayload<Message> {
    fn from(message: Message) -> Self {
        Self::InnerMessage(message)
    }
}

fn parse_port(message: &Message) -> Option<Port> {
    Some(Port {
        index: message.u32(ATTR_DEV_INDEX)?,
        device: message.text(ATTR_DEV_NAME)?,
        port: message.u32(ATTR_PORT_INDEX)?,
        netdev: message.text(ATTR_NDEV_NAME),
        state: message.u8(ATTR_PORT_STATE)?.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_has_the_layout_of_the_kernel() {
        let message = Message::new(CMD_NEWLINK)
            .with_text(ATTR_DEV_NAME, "rxe0")
            .with_u32(ATTR_DEV_INDEX, 7);
        assert_eq!(message.message_type(), (5 << 10) + 3);
        let mut octets = vec![0xff; message.buffer_len()];
        message.serialize(&mut octets);
        let expected = [
            &9u16.to_ne_bytes()[..],
            &2u16.to_ne_bytes(),
            b"rxe0\0\0\0\0",
            &8u16.to_ne_bytes(),
            &1u16.to_ne_bytes(),
            &7u32.to_ne_bytes(),
        ];
        assert_eq!(octets, expected.concat());
    }

    #[test]
    fn port_is_read_from_its_attributes() {
        let message = Message::new(CMD_PORT_GET)
            .with_u32(ATTR_DEV_INDEX, 3)
            .with_text(ATTR_DEV_NAME, "rxe_eth0")
            .with_u32(ATTR_PORT_INDEX, 1)
            .with_text(ATTR_NDEV_NAME, "eth0");
        assert_eq!(parse_port(&message), None);
        let mut message = message;
        message
            .attributes
            .push(DefaultNla::new(ATTR_PORT_STATE, vec![4]));
        let port = parse_port(&message).unwrap();
        assert_eq!((port.index, port.port), (3, 1));
        assert_eq!(port.device, "rxe_eth0");
        assert_eq!(port.netdev.as_deref(), Some("eth0"));
        assert_eq!(port.state, PortState::Active);
    }

    #[test]
    fn message_survives_the_wire() {
        let message = Message::new(CMD_PORT_GET).with_text(ATTR_NDEV_NAME, "eth0");
        let mut octets = vec![0; message.buffer_len()];
        message.serialize(&mut octets);
        let mut header = NetlinkHeader::default();
        header.message_type = message.message_type();
        assert_eq!(Message::deserialize(&header, &octets).unwrap(), message);
    }
}

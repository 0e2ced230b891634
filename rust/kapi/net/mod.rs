// SPDX-License-Identifier: GPL-2.0

//! Sockets that are TCP sockets, and the operations on them.
//!
//! | C object | Rust type | freed by |
//! |--------------------|----------------------------------|--------------------------------------------|
//! | `struct sock`      | [`sock::Sock`], `ARef<Sock>`     | its last reference                         |
//! | `struct socket`    | [`socket::Socket`] (borrowed)    | the program that closes it                 |
//! | `struct socket`    | [`socket::DetachedSocket`] (owned)        | `Drop`: closes TCP                         |
//! | wait queue entry   | inside `events::Attachment`      | the release of the socket                  |
//! | `struct net`       | [`netns::NetRef`]                | its last reference                         |
//! | `struct socket` (UDP) | [`udp::UdpSocket`]            | `Drop`, before the namespace exits         |
//! | `struct ctl_table` | [`sysctl::SysctlTable`], [`sysctl_text::TextTable`] | `Drop`               |
//! | `struct proto`, `proto_ops`, `net_proto_family` | [`family::FamilyRegistration`] | `Drop`                |

pub(crate) mod addr;
pub(crate) mod child;
pub(crate) mod cmsg;
pub(crate) mod diag;
pub(crate) mod events;
pub(crate) mod family;
pub(crate) mod genl;
pub(crate) mod msg;
pub(crate) mod netdev;
pub(crate) mod netlink;
pub(crate) mod netns;
pub(crate) mod ops;
pub(crate) mod option;
pub(crate) mod pnetid;
pub(crate) mod poll;
pub(crate) mod proc;
pub(crate) mod route;
pub(crate) mod sock;
pub(crate) mod socket;
pub(crate) mod sockopt;
pub(crate) mod sysctl;
pub(crate) mod sysctl_text;
pub(crate) mod tcp;
pub(crate) mod trace;
pub(crate) mod uapi;
pub(crate) mod udp;
pub(crate) mod wait;
pub(crate) mod xfrm;

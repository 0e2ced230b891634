// SPDX-License-Identifier: GPL-2.0

//! The transport of RDMA over converged Ethernet (RoCE), versions 1 and 2, after the InfiniBand
//! specification, volume 1, and its annexes A16, A17 and A19.
//!
//! Everything here takes headers, lengths and the time, and answers with decisions; the device
//! resolves keys, copies and sends.
//!
//! | What                                            | Rows          | File       |
//! |-------------------------------------------------|---------------|------------|
//! | Packet sequence numbers                         | RNIC-PSN      | [`psn`]    |
//! | Opcodes                                         | RNIC-HDR      | [`opcode`] |
//! | Base and extension headers                      | RNIC-HDR      | [`header`] |
//! | Syndromes of acknowledgements                   | RNIC-FLOW     | [`aeth`]   |
//! | Whole packets                                   | RNIC-HDR      | [`packet`] |
//! | Headers of IPv4, IPv6 with UDP, and the GRH     | RNIC-IP       | [`frame`]  |
//! | CRC-32, and the invariant CRC of a packet       | RNIC-ICRC     | [`crc32`], [`icrc`] |
//! | The check of a routine for CRC-32               | RNIC-DATA     | [`crc_check`] |
//! | From messages to packets                        | RNIC-PSN      | [`plan`]   |
//! | Work requests and the status of completions     | RNIC-ERR      | [`work`]   |
//! | Reasons of failures                             | RNIC-ERR      | [`reason`] |
//! | The sending half of a queue pair                | RNIC-REQ, RNIC-TMO | [`requester`] |
//! | The receiving half of a connected queue pair    | RNIC-RSP, RNIC-RDA | [`responder`] |
//! | Unreliable datagrams                            | RNIC-UD       | [`datagram`] |
//! | The packets of a run, by half                    | RNIC-RUN, RNIC-RDA | [`budget`] |
//! | The proof of a way through the network          | RNIC-DIR      | [`proof`]  |
//! | Requests that lend their octets to a peer       | RNIC-DIR      | [`loan`]   |
//! | States of a queue pair                          | RNIC-QPS, RNIC-ERR | [`state`] |
//! | Rings shared with user space                    | RNIC-UAPI     | [`ring`]   |
//! | Work requests in these rings                    | RNIC-UAPI, RNIC-SEC | [`wqe`] |
//! | Literal packets as tests                        | RNIC-HDR      | `vectors`  |
//! | Two queue pairs on a lossy network              | all           | `sim`      |

pub(crate) mod aeth;
pub(crate) mod budget;
pub(crate) mod crc32;
pub(crate) mod crc_check;
pub(crate) mod datagram;
pub(crate) mod frame;
pub(crate) mod header;
pub(crate) mod icrc;
pub(crate) mod loan;
pub(crate) mod opcode;
pub(crate) mod packet;
pub(crate) mod plan;
pub(crate) mod proof;
pub(crate) mod psn;
pub(crate) mod reason;
pub(crate) mod requester;
pub(crate) mod responder;
pub(crate) mod ring;
pub(crate) mod state;
pub(crate) mod work;
pub(crate) mod wqe;

#[cfg(test)]
mod sim;
#[cfg(any(test, CONFIG_RDMA_SOFT_KUNIT_TEST))]
mod vectors;

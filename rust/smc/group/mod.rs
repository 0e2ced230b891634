// SPDX-License-Identifier: GPL-2.0

//! Link groups: links, RMBs and connections that two hosts share.
//!
//! Source: RFC 7609 sections 2, 3.5; the decisions are in `proto::smc::llc`.
//!
//! A group names no connection type: it knows the trait [`member::Member`].

pub(super) mod completions;
mod conflict;
pub(super) mod context;
pub(super) mod link;
pub(super) mod link_group;
pub(super) mod links;
pub(super) mod llc;
pub(super) mod member;
pub(super) mod phase;
pub(super) mod registry;
pub(super) mod retired;
pub(super) mod rmb;
pub(super) mod rmbs;
pub(super) mod route;
pub(super) mod tokens;

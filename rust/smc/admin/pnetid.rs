// SPDX-License-Identifier: GPL-2.0

//! The commands of `smc_pnet`: what the tables of physical networks have.

use crate::{
    kapi::{
        compat::errno::EOPNOTSUPP,
        net::{
            netlink::{
                Dump,
                Progress, //
            },
            netns::Net,
            pnetid::{
                PnetCommands,
                Reply,
                Request, //
            },
        },
    },
    proto::smc::{
        netlink::{
            attributes::Attributes,
            pnetid::{
                self as command,
                encode_entry,
                MAX_BYTES, //
            },
        },
        pnet::{
            Entry,
            Wanted, //
        },
    },
    smc::{
        admin::commands::rows,
        engine::engine, //
    },
};
use kernel::prelude::*;

/// The commands.
pub(crate) struct SmcPnets;

/// Runs `put` with the attributes of an entry.
#[inline(never)]
fn encoded(entry: &Entry, put: impl FnOnce(&[u8]) -> Result) -> Result {
    let mut room = [0; MAX_BYTES];
    let mut message = Attributes::new(&mut room);
    encode_entry(&mut message, entry);
    put(message.finish().ok_or(EINVAL)?)
}

impl PnetCommands for SmcPnets {
    fn dump(dump: &mut Dump) -> Result<Progress> {
        let entries = engine().ok_or(ENODEV)?.pnets.of(dump.net().cookie())?;
        rows(dump, entries.iter(), |dump, _, entry| {
            encoded(entry, |body| dump.put(command::GET, body))
        })
    }

    fn find(net: &Net, id: &[u8], reply: &mut Reply) -> Result {
        let entries = engine().ok_or(ENODEV)?.pnets.of(net.cookie())?;
        let mut found = entries.iter().filter(|entry| entry.id.is_named(id));
        found.try_for_each(|entry| encoded(entry, |body| reply.put(body)))
    }

    fn change(number: u8, net: &Net, request: &Request<'_>) -> Result {
        let engine = engine().ok_or(ENODEV)?;
        match number {
            command::ADD => engine.pnets.add(
                net,
                &Wanted {
                    id: request.id,
                    netdev: request.netdev,
                    device: request.device,
                    port: request.port,
                },
            ),
            command::REMOVE => {
                let id = request.id.ok_or(EINVAL)?;
                engine.pnets.remove(net.cookie(), id)
            }
            command::FLUSH => {
                engine.pnets.forget(net.cookie());
                Ok(())
            }
            _ => Err(EOPNOTSUPP),
        }
    }
}

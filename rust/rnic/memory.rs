// SPDX-License-Identifier: GPL-2.0

//! Copies between packets and the memory of work requests (RNIC-REQ-10).

use super::{
    domain::Domain,
    region::{
        KeyedMemory,
        RegionAccess,
        Right, //
    },
    wire::PayloadFault, //
};
use crate::kapi::ibdev::{
    WrData,
    WrSge,
    LOCAL_DMA_KEY, //
};
use core::ops::Range;

/// Calls `f` for the elements that a range of a message lies in, with the offset in each and the range
/// of the octets.
fn for_each(
    elements: &[WrSge],
    offset: u32,
    len: usize,
    mut f: impl FnMut(&WrSge, u32, Range<usize>) -> Result<(), PayloadFault>,
) -> Result<(), PayloadFault> {
    let mut skip = offset;
    let mut done = 0_usize;
    for element in elements {
        if done >= len {
            break;
        }
        if skip >= element.len() {
            skip = skip.saturating_sub(element.len());
            continue;
        }
        let room = usize::try_from(element.len().saturating_sub(skip)).unwrap_or(usize::MAX);
        let piece = room.min(len.saturating_sub(done));
        let end = done.saturating_add(piece);
        f(element, skip, done..end)?;
        done = end;
        skip = 0;
    }
    if done == len {
        Ok(())
    } else {
        Err(PayloadFault)
    }
}

/// The access of a work request to an element.
fn access<'a>(domain: &'a Domain, element: &WrSge, at: u32, right: Right) -> RegionAccess<'a> {
    RegionAccess {
        domain: &domain.tag,
        pair: None,
        key: element.lkey(),
        right,
        addr: element.addr().wrapping_add(u64::from(at)),
    }
}

/// Whether octets of a message, from `offset` on, can be read from the memory of its work request.
pub(super) fn check(
    domain: &Domain,
    data: &WrData,
    offset: u32,
    len: u32,
) -> Result<(), PayloadFault> {
    let len = usize::try_from(len).map_err(|_| PayloadFault)?;
    match data {
        WrData::Inline(octets, used) => {
            let start = usize::try_from(offset).map_err(|_| PayloadFault)?;
            let end = start.checked_add(len).ok_or(PayloadFault)?;
            let there = end <= *used && *used <= octets.len();
            there.then_some(()).ok_or(PayloadFault)
        }
        WrData::Elements(elements, count) => {
            let elements = elements.get(..*count).ok_or(PayloadFault)?;
            for_each(elements, offset, len, |element, at, range| {
                if element.lkey() == LOCAL_DMA_KEY {
                    return Ok(());
                }
                let access = access(domain, element, at, Right::LocalRead);
                let len = u64::try_from(range.len()).map_err(|_| PayloadFault)?;
                let keys = domain.node.keys();
                keys.check(&access, len).map_err(|_| PayloadFault)
            })
        }
    }
}

/// Copies octets of a message, from `offset` on, out of the memory of its work request.
pub(super) fn gather(
    domain: &Domain,
    data: &WrData,
    offset: u32,
    to: &mut [u8],
) -> Result<(), PayloadFault> {
    match data {
        WrData::Inline(octets, len) => {
            let start = usize::try_from(offset).map_err(|_| PayloadFault)?;
            let rest = octets.get(..*len).and_then(|used| used.get(start..));
            let from = rest.and_then(|rest| rest.get(..to.len()));
            to.copy_from_slice(from.ok_or(PayloadFault)?);
            Ok(())
        }
        WrData::Elements(elements, count) => {
            let elements = elements.get(..*count).ok_or(PayloadFault)?;
            for_each(elements, offset, to.len(), |element, at, range| {
                let to = to.get_mut(range).ok_or(PayloadFault)?;
                if element.lkey() == LOCAL_DMA_KEY {
                    return element.read(at, to).map_err(|_| PayloadFault);
                }
                let access = access(domain, element, at, Right::LocalRead);
                domain
                    .node
                    .keys()
                    .read(&access, to)
                    .map_err(|_| PayloadFault)
            })
        }
    }
}

/// Copies octets of a message, to `offset` on, into the memory of a work request.
pub(super) fn scatter(
    domain: &Domain,
    data: &WrData,
    offset: u32,
    from: &[u8],
) -> Result<(), PayloadFault> {
    let WrData::Elements(elements, count) = data else {
        return Err(PayloadFault);
    };
    let elements = elements.get(..*count).ok_or(PayloadFault)?;
    for_each(elements, offset, from.len(), |element, at, range| {
        let from = from.get(range).ok_or(PayloadFault)?;
        if element.lkey() == LOCAL_DMA_KEY {
            return element.write(at, from).map_err(|_| PayloadFault);
        }
        let access = access(domain, element, at, Right::LocalWrite);
        domain
            .node
            .keys()
            .write(&access, from)
            .map_err(|_| PayloadFault)
    })
}

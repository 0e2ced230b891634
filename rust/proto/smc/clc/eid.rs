// SPDX-License-Identifier: GPL-2.0

//! Enterprise identifiers of SMC version 2: which hosts may use SMC beyond one subnet.
//!
//! Version 1 asks whether both ends are in the same subnet. Version 2 asks whether both were given
//! a common name by their administrators, a user-defined EID (UEID). The client lists its names in
//! the Proposal, the server picks one of them. This document is "IBM Shared Memory Communications
//! Version 2"; the RFC does not know it.

/// Octets of an identifier.
pub(crate) const EID_BYTES: usize = 32;

/// Most identifiers of a Proposal, and of a host.
pub(crate) const MAX_EIDS: usize = 8;

/// An enterprise identifier, filled up with blanks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Eid([u8; EID_BYTES]);

impl Eid {
    /// Takes the octets of a message. They need not be a name an administrator could choose: they
    /// are only ever compared.
    pub(crate) const fn from_octets(octets: [u8; EID_BYTES]) -> Self {
        Self(octets)
    }

    /// The octets as sent.
    pub(crate) const fn octets(self) -> [u8; EID_BYTES] {
        self.0
    }

    /// The identifier an administrator wrote: 1 to 32 capital letters, digits, dots and hyphens, of
    /// which the first is a letter or digit. Blanks at the end do not count.
    pub(crate) fn new(name: &[u8]) -> Option<Self> {
        let name = name.trim_ascii_end();
        let (first, _) = name.split_first()?;
        let word = |octet: &u8| octet.is_ascii_uppercase() || octet.is_ascii_digit();
        let allowed = |octet: &u8| word(octet) || matches!(octet, b'.' | b'-');
        if !word(first) || !name.iter().all(allowed) {
            return None;
        }
        let mut octets = [b' '; EID_BYTES];
        octets.get_mut(..name.len())?.copy_from_slice(name);
        Some(Self(octets))
    }

    /// The identifier without the blanks behind it.
    pub(crate) fn name(&self) -> &[u8] {
        self.0.trim_ascii_end()
    }
}

/// Up to eight identifiers, in the order of preference.
///
/// # Invariants
///
/// `count` is at most [`MAX_EIDS`]; places from `count` on are [`Self::UNUSED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EidList {
    list: [Eid; MAX_EIDS],
    count: u8,
}

impl EidList {
    /// Fills places that are not used.
    const UNUSED: Eid = Eid([0; EID_BYTES]);

    /// No identifiers.
    pub(crate) const EMPTY: Self = Self {
        list: [Self::UNUSED; MAX_EIDS],
        count: 0,
    };

    /// Adds an identifier, or gives it back if there are eight.
    pub(crate) fn push(&mut self, eid: Eid) -> Result<(), Eid> {
        match self.list.get_mut(usize::from(self.count)) {
            Some(place) => {
                *place = eid;
                // INVARIANT: `count` was less than the number of places.
                self.count = self.count.saturating_add(1);
                Ok(())
            }
            None => Err(eid),
        }
    }

    /// The list without an identifier; `None` if it is not there.
    pub(crate) fn without(&self, eid: Eid) -> Option<Self> {
        if !self.as_slice().contains(&eid) {
            return None;
        }
        let mut left = Self::EMPTY;
        for known in self.as_slice().iter().filter(|known| **known != eid) {
            left.push(*known).ok()?;
        }
        Some(left)
    }

    /// The identifiers.
    pub(crate) fn as_slice(&self) -> &[Eid] {
        self.list.get(..usize::from(self.count)).unwrap_or(&[])
    }

    /// Whether there is none.
    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The first identifier of `self` that is also in `other`.
    pub(crate) fn common(&self, other: &Self) -> Option<Eid> {
        self.as_slice()
            .iter()
            .find(|eid| other.as_slice().contains(eid))
            .copied()
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_clc_eid))]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_document() {
        for name in [&b"A"[..], b"0", b"SMCV2-EID.1", b"LAB  ", &[b'Z'; 32]] {
            assert!(Eid::new(name).is_some());
        }
        for name in [
            &b""[..],
            b"   ",
            b" A",
            b"lab",
            b"-A",
            b".A",
            b"A B",
            b"A\xc4",
            &[b'Z'; 33],
        ] {
            assert!(Eid::new(name).is_none());
        }
    }

    #[test]
    fn blanks_fill_a_name() -> Result<(), &'static str> {
        let eid = Eid::new(b"LAB").ok_or("name")?;
        assert_eq!(eid.octets(), *b"LAB                             ");
        assert_eq!(eid.name(), b"LAB");
        assert_eq!(Some(eid), Eid::new(b"LAB      "));
        Ok(())
    }

    #[test]
    fn eight_names_fit() -> Result<(), &'static str> {
        let mut list = EidList::EMPTY;
        assert!(list.is_empty());
        for n in b'0'..=b'8' {
            let eid = Eid::new(&[n]).ok_or("name")?;
            assert_eq!(list.push(eid).is_ok(), n < b'8');
        }
        assert_eq!(list.as_slice().len(), 8);
        assert!(!list.is_empty());
        Ok(())
    }

    #[test]
    fn the_first_common_name_is_taken() -> Result<(), &'static str> {
        let list = |names: &[u8]| {
            let mut list = EidList::EMPTY;
            for name in names {
                let _ = Eid::new(&[*name]).map(|eid| list.push(eid));
            }
            list
        };
        assert_eq!(list(b"ABC").common(&list(b"XCB")), Eid::new(b"B"));
        assert_eq!(list(b"ABC").common(&list(b"XYZ")), None);
        assert_eq!(list(b"").common(&list(b"")), None);
        Ok(())
    }
}

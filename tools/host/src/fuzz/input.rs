// SPDX-License-Identifier: GPL-2.0

//! Decisions made of octets. When there are no more, every answer is 0.

/// The octets that are left.
pub(super) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// Starts with all of them.
    pub(super) const fn new(octets: &'a [u8]) -> Self {
        Self(octets)
    }

    /// Whether there are none.
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Up to `len` octets.
    pub(super) fn octets(&mut self, len: usize) -> &'a [u8] {
        let (first, rest) = self
            .0
            .split_at_checked(len)
            .unwrap_or((self.0, Default::default()));
        self.0 = rest;
        first
    }

    /// Exactly `N` octets.
    pub(super) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut all = [0; N];
        for (to, from) in all.iter_mut().zip(self.octets(N)) {
            *to = *from;
        }
        all
    }

    /// A number below 256.
    pub(super) fn byte(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    /// Yes or no.
    pub(super) fn bool(&mut self) -> bool {
        self.byte() & 1 != 0
    }

    /// A number below 65536.
    pub(super) fn short(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    /// Any number.
    pub(super) fn word(&mut self) -> u32 {
        u32::from_be_bytes(self.array())
    }
}

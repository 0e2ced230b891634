// SPDX-License-Identifier: GPL-2.0

//! Attributes of netlink messages: type, length, value, filled up to four octets.

/// The value is made of attributes.
const NESTED: u16 = 0x8000;

/// Octets in front of a value.
const HEADER: usize = 4;

/// Octets that start at a multiple of this.
const ALIGN: usize = 4;

/// A message that is written into a buffer. What does not fit shows at the end.
pub(crate) struct Attributes<'a> {
    octets: &'a mut [u8],
    len: usize,
    is_full: bool,
}

impl<'a> Attributes<'a> {
    /// An empty message.
    pub(crate) const fn new(octets: &'a mut [u8]) -> Self {
        Self {
            octets,
            len: 0,
            is_full: false,
        }
    }

    /// Appends octets that are no attribute: the head of a message.
    pub(crate) fn raw(&mut self, data: &[u8]) {
        let end = self.len.saturating_add(data.len());
        match self.octets.get_mut(self.len..end) {
            Some(place) => {
                place.copy_from_slice(data);
                self.len = end;
            }
            None => self.is_full = true,
        }
    }

    fn align(&mut self) {
        let end = self.len.next_multiple_of(ALIGN);
        match self.octets.get_mut(self.len..end) {
            Some(place) => {
                place.fill(0);
                self.len = end;
            }
            None => self.is_full = true,
        }
    }

    fn header(&mut self, kind: u16, value: usize) {
        match u16::try_from(value.saturating_add(HEADER)) {
            Ok(size) => {
                self.raw(&size.to_ne_bytes());
                self.raw(&kind.to_ne_bytes());
            }
            Err(_) => self.is_full = true,
        }
    }

    /// An attribute.
    pub(crate) fn put(&mut self, kind: u16, value: &[u8]) {
        self.header(kind, value.len());
        self.raw(value);
        self.align();
    }

    /// A number of 8 bits.
    pub(crate) fn u8(&mut self, kind: u16, value: u8) {
        self.put(kind, &[value]);
    }

    /// A number of 16 bits.
    pub(crate) fn u16(&mut self, kind: u16, value: u16) {
        self.put(kind, &value.to_ne_bytes());
    }

    /// A number of 32 bits.
    pub(crate) fn u32(&mut self, kind: u16, value: u32) {
        self.put(kind, &value.to_ne_bytes());
    }

    /// A number of 64 bits.
    pub(crate) fn u64(&mut self, kind: u16, value: u64) {
        self.put(kind, &value.to_ne_bytes());
    }

    /// A number of 32 bits, or of 64 if it needs them.
    pub(crate) fn uint(&mut self, kind: u16, value: u64) {
        match u32::try_from(value) {
            Ok(value) => self.u32(kind, value),
            Err(_) => self.u64(kind, value),
        }
    }

    /// A text, with a nul behind it.
    pub(crate) fn text(&mut self, kind: u16, value: &[u8]) {
        self.header(kind, value.len().saturating_add(1));
        self.raw(value);
        self.raw(&[0]);
        self.align();
    }

    /// An attribute made of those that `fill` puts.
    pub(crate) fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let start = self.len;
        self.header(kind | NESTED, 0);
        fill(self);
        let size = self.len.saturating_sub(start);
        let place = self
            .octets
            .get_mut(start..)
            .and_then(|rest| rest.get_mut(..2));
        match (u16::try_from(size), place) {
            (Ok(size), Some(place)) => place.copy_from_slice(&size.to_ne_bytes()),
            _ => self.is_full = true,
        }
    }

    /// The octets; `None` if the buffer is too short for them.
    pub(crate) fn finish(self) -> Option<&'a [u8]> {
        let Self {
            octets,
            len,
            is_full,
        } = self;
        if is_full {
            None
        } else {
            octets.get(..len)
        }
    }
}

/// A GID as tools show it: eight groups of four digits.
pub(crate) fn gid_text(gid: [u8; 16]) -> [u8; 39] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b':'; 39];
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or(b'?');
    for (group, pair) in text.chunks_mut(5).zip(gid.chunks(2)) {
        let (Some([a, b, c, d]), [high, low]) = (group.first_chunk_mut::<4>(), pair) else {
            continue;
        };
        (*a, *b) = (digit(high >> 4), digit(high & 15));
        (*c, *d) = (digit(low >> 4), digit(low & 15));
    }
    text
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_netlink_attributes))]
mod tests {
    use super::*;

    #[test]
    fn attribute_of_odd_length_is_filled_up() {
        let mut room = [0xff; 16];
        let mut message = Attributes::new(&mut room);
        message.u8(3, 0x42);
        message.text(2, b"ab");
        let mut want = [0; 16];
        want[..2].copy_from_slice(&5_u16.to_ne_bytes());
        want[2..4].copy_from_slice(&3_u16.to_ne_bytes());
        want[4] = 0x42;
        want[8..10].copy_from_slice(&7_u16.to_ne_bytes());
        want[10..12].copy_from_slice(&2_u16.to_ne_bytes());
        want[12..14].copy_from_slice(b"ab");
        assert_eq!(message.finish(), Some(&want[..]));
    }

    #[test]
    fn nest_has_the_length_of_its_content() {
        let mut room = [0; 16];
        let mut message = Attributes::new(&mut room);
        message.nest(5, |inner| inner.u16(1, 0x1234));
        let octets = message.finish().unwrap_or_default();
        assert_eq!(octets.len(), 12);
        assert_eq!(octets[..2], 12_u16.to_ne_bytes());
        assert_eq!(octets[2..4], 0x8005_u16.to_ne_bytes());
        assert_eq!(octets[4..6], 6_u16.to_ne_bytes());
        assert_eq!(octets[8..10], 0x1234_u16.to_ne_bytes());
    }

    #[test]
    fn number_has_as_many_octets_as_it_needs() {
        let mut room = [0; 20];
        let mut message = Attributes::new(&mut room);
        message.uint(1, 0xffff_ffff);
        message.uint(2, 0x1_0000_0000);
        let octets = message.finish().unwrap_or_default();
        assert_eq!(octets.len(), 8 + 12);
        assert_eq!(octets[..2], 8_u16.to_ne_bytes());
        assert_eq!(octets[8..10], 12_u16.to_ne_bytes());
    }

    #[test]
    fn message_that_does_not_fit_is_none() {
        for size in 0..12 {
            let mut room = [0; 12];
            let mut message = Attributes::new(&mut room[..size]);
            message.nest(1, |inner| inner.u8(1, 1));
            assert_eq!(message.finish(), None);
        }
    }

    #[test]
    fn gid_has_all_its_zeros() {
        let gid = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1];
        let text = b"fe80:0000:0000:0000:0000:ffff:0a09:0001";
        assert_eq!(&gid_text(gid), text);
    }
}

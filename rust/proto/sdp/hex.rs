// SPDX-License-Identifier: GPL-2.0

//! Octets of messages in tests, written as hexadecimal digits.

/// Octets from their digits. Blanks between words say nothing.
pub(super) fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(|digit| *digit != b' ').collect();
    let value = |digit: u8| char::from(digit).to_digit(16).unwrap() as u8;
    digits
        .chunks(2)
        .map(|pair| (value(pair[0]) << 4) | value(pair[1]))
        .collect()
}

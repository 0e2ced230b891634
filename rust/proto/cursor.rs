// SPDX-License-Identifier: GPL-2.0

//! Cursors of RFC 7609, section 4.1: positions in a ring with a wrap count.

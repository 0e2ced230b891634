// SPDX-License-Identifier: GPL-2.0

//! Normal and abnormal close of a connection, RFC 7609, sections 4.7 and 4.8.

// SPDX-License-Identifier: GPL-2.0

//! CLC messages and handshake on the TCP connection, RFC 7609, section 3.5 and appendices A.2 and C.

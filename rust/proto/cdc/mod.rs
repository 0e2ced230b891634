// SPDX-License-Identifier: GPL-2.0

//! CDC messages and the positions they carry, RFC 7609, section 4 and appendix A.4.

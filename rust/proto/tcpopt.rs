// SPDX-License-Identifier: GPL-2.0

//! The TCP option that offers SMC-R, RFC 7609, section 3.1 and appendix A.1.

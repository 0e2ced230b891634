// SPDX-License-Identifier: GPL-2.0

//! LLC messages and flows on a link, RFC 7609, sections 3.3 and 3.5 and appendix A.3.

// SPDX-License-Identifier: GPL-2.0

//! Two simulated peers under virtual time, for tests on the host.

// SPDX-License-Identifier: GPL-2.0

//! Attributes of a queue pair, and the names of its states.

use crate::{
    kapi::ibdev::{
        AddressVector,
        IbQpState,
        MrAccess,
        QpChange, //
    },
    proto::{
        base::verbs::{
            Mtu,
            Psn,
            Qpn, //
        },
        roce::{
            aeth::RnrTimer,
            state::QpState, //
        },
    },
    rnic::profile::Profile,
};
use kernel::prelude::*;

/// Attributes of both halves, from the changes before they start.
pub(super) struct QpSettings {
    pub(super) access: MrAccess,
    pub(super) mtu: Option<Mtu>,
    pub(super) rq_psn: Psn,
    pub(super) sq_psn: Psn,
    pub(super) peer: Qpn,
    pub(super) to: Option<AddressVector>,
    pub(super) max_rd_atomic: u8,
    pub(super) max_dest_rd_atomic: u8,
    pub(super) min_rnr_timer: RnrTimer,
    pub(super) timeout: u8,
    pub(super) retries: u8,
    pub(super) rnr_retries: u8,
    pub(super) qkey: u32,
}

impl QpSettings {
    /// No attributes.
    pub(super) fn new() -> Self {
        Self {
            access: MrAccess::default(),
            mtu: None,
            rq_psn: Psn::new(0),
            sq_psn: Psn::new(0),
            peer: Qpn::new(0),
            to: None,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            min_rnr_timer: RnrTimer::LONGEST,
            timeout: 0,
            retries: 0,
            rnr_retries: 0,
            qkey: 0,
        }
    }

    /// Takes the attributes of a change (RNIC-QPS-02).
    ///
    /// # Errors
    ///
    /// `EINVAL` for values out of their range or that of `profile`, or longer packets than the port has.
    pub(super) fn take(
        &mut self,
        change: &QpChange<'_>,
        port_mtu: Mtu,
        profile: &Profile,
    ) -> Result {
        let most = u8::try_from(profile.max_rd_atomic)?;
        let below = |value: Option<u8>, limit: u8| match value {
            Some(value) if value > limit => Err(EINVAL),
            value => Ok(value),
        };
        if change.port().is_some_and(|port| port != 1)
            || change.pkey_index().is_some_and(|index| index != 0)
        {
            return Err(EINVAL);
        }
        let mtu = match change.path_mtu() {
            Some(code) => {
                let mtu = Mtu::from_code(u8::try_from(code)?).ok_or(EINVAL)?;
                if mtu > port_mtu {
                    return Err(EINVAL);
                }
                Some(mtu)
            }
            None => self.mtu,
        };
        let min_rnr_timer = match change.min_rnr_timer() {
            Some(code) => RnrTimer::new(code).ok_or(EINVAL)?,
            None => self.min_rnr_timer,
        };
        let next = Self {
            access: change.access()?.unwrap_or(self.access),
            mtu,
            rq_psn: change.rq_psn().map_or(self.rq_psn, Psn::new),
            sq_psn: change.sq_psn().map_or(self.sq_psn, Psn::new),
            peer: change.dest_qp().map_or(self.peer, Qpn::new),
            to: change.address()?.or_else(|| self.to.clone()),
            max_rd_atomic: below(change.max_rd_atomic(), most)?.unwrap_or(self.max_rd_atomic),
            max_dest_rd_atomic: below(change.max_dest_rd_atomic(), most)?
                .unwrap_or(self.max_dest_rd_atomic),
            min_rnr_timer,
            timeout: below(change.timeout(), 31)?.unwrap_or(self.timeout),
            retries: below(change.retry_cnt(), 7)?.unwrap_or(self.retries),
            rnr_retries: below(change.rnr_retry(), 7)?.unwrap_or(self.rnr_retries),
            qkey: change.qkey().unwrap_or(self.qkey),
        };
        *self = next;
        Ok(())
    }
}

/// The state as the verbs core names it.
pub(super) const fn to_verbs(state: QpState) -> IbQpState {
    match state {
        QpState::Reset => IbQpState::Reset,
        QpState::Init => IbQpState::Init,
        QpState::Rtr => IbQpState::Rtr,
        QpState::Rts => IbQpState::Rts,
        QpState::Sqd => IbQpState::Sqd,
        QpState::Sqe => IbQpState::Sqe,
        QpState::Err => IbQpState::Err,
    }
}

/// The state as the protocol names it.
pub(super) const fn from_verbs(state: IbQpState) -> QpState {
    match state {
        IbQpState::Reset => QpState::Reset,
        IbQpState::Init => QpState::Init,
        IbQpState::Rtr => QpState::Rtr,
        IbQpState::Rts => QpState::Rts,
        IbQpState::Sqd => QpState::Sqd,
        IbQpState::Sqe => QpState::Sqe,
        IbQpState::Err => QpState::Err,
    }
}

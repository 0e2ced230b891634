// SPDX-License-Identifier: GPL-2.0

//! Tests of address handles, and of datagrams that take their way.

use super::*;
use crate::kapi::compat::{
    new_spinlock_irq,
    SpinLockIrq, //
};

/// An address handle.
struct Datagrams {
    handle: NonNull<bindings::ib_ah>,
    /// Whether its end may sleep.
    may_sleep: bool,
}

/// What tests compare of the attributes of a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Route {
    kind: bindings::rdma_ah_attr_type,
    port_num: u32,
    flags: u8,
    dgid: [u8; 16],
    flow_label: u32,
    sgid_index: u8,
    hop_limit: u8,
    traffic_class: u8,
    dmac: [u8; 6],
}

impl Route {
    /// The way from the port of a bench to itself.
    fn own(shared: &Shared<'_>) -> Result<Self> {
        let gid = &shared.bench.gid;
        Ok(Self {
            kind: bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE,
            port_num: shared.bench.port,
            flags: u8::try_from(bindings::ib_ah_flags_IB_AH_GRH)?,
            dgid: gid.gid,
            flow_label: 0,
            sgid_index: gid.index,
            hop_limit: 64,
            traffic_class: 0,
            dmac: gid.mac,
        })
    }

    /// A way to an address that nothing has, and that differs in all else, too.
    fn elsewhere(shared: &Shared<'_>) -> Result<Self> {
        let own = Self::own(shared)?;
        let mut dgid = own.dgid;
        dgid[15] ^= 0x40;
        Ok(Self {
            dgid,
            flow_label: 0x1_2345,
            hop_limit: 7,
            traffic_class: 0x48,
            dmac: [2, 3, 4, 5, 6, 7],
            ..own
        })
    }

    /// The structure of the verbs core.
    fn attr(&self) -> bindings::rdma_ah_attr {
        let mut attr = bindings::rdma_ah_attr {
            type_: self.kind,
            port_num: self.port_num,
            ah_flags: self.flags,
            grh: bindings::ib_global_route {
                dgid: bindings::ib_gid {
                    raw: ManuallyDrop::new(self.dgid),
                },
                flow_label: self.flow_label,
                sgid_index: self.sgid_index,
                hop_limit: self.hop_limit,
                traffic_class: self.traffic_class,
                ..Default::default()
            },
            ..Default::default()
        };
        attr.__bindgen_anon_1.roce = ManuallyDrop::new(bindings::roce_ah_attr { dmac: self.dmac });
        attr
    }

    /// Reads the structure of the verbs core.
    fn of(attr: &bindings::rdma_ah_attr) -> Self {
        Self {
            kind: attr.type_,
            port_num: attr.port_num,
            flags: attr.ah_flags,
            // SAFETY: Both views of a GID are octets.
            dgid: unsafe { *attr.grh.dgid.raw },
            flow_label: attr.grh.flow_label,
            sgid_index: attr.grh.sgid_index,
            hop_limit: attr.grh.hop_limit,
            traffic_class: attr.grh.traffic_class,
            // SAFETY: All views are octets.
            dmac: unsafe { attr.__bindgen_anon_1.roce.dmac },
        }
    }
}

impl Datagrams {
    /// The way of datagrams to the port itself.
    fn new(shared: &Shared<'_>) -> Result<Self> {
        Self::of(&shared.pd, &Route::own(shared)?, true)
    }

    /// A handle of a domain.
    fn of(pd: &Pd, route: &Route, may_sleep: bool) -> Result<Self> {
        let mut attr = route.attr();
        // SAFETY: The domain is valid, and so are the attributes.
        let handle = from_err_ptr(unsafe {
            bindings::rdma_sock_helper_test_create_ah(pd.as_raw(), &mut attr, may_sleep)
        })?;
        Ok(Self {
            handle: NonNull::new(handle).ok_or(ENOMEM)?,
            may_sleep,
        })
    }

    /// Gives it another way.
    fn modify(&self, route: &Route) -> Result {
        let mut attr = route.attr();
        // SAFETY: The handle is valid, and so are the attributes.
        to_result(unsafe {
            bindings::rdma_sock_helper_test_modify_ah(self.handle.as_ptr(), &mut attr)
        })
    }

    /// Its way, and whether there is a pointer to its source.
    fn query(&self) -> Result<(Route, bool)> {
        let mut attr = bindings::rdma_ah_attr::default();
        // SAFETY: The handle and the result are valid.
        to_result(unsafe {
            bindings::rdma_sock_helper_test_query_ah(self.handle.as_ptr(), &mut attr)
        })?;
        Ok((Route::of(&attr), !attr.grh.sgid_attr.is_null()))
    }
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        // SAFETY: The handle is ours; requests that name it keep what they need.
        unsafe {
            bindings::rdma_sock_helper_test_destroy_ah(self.handle.as_ptr(), self.may_sleep);
        }
    }
}

#[kernel::macros::kunit_tests(rdma_sock_kapi_verbs_handles)]
mod tests {
    use super::*;

    const SUCCESS: bindings::ib_wc_status = bindings::ib_wc_status_IB_WC_SUCCESS;

    /// RNIC-SRQ-02, RNIC-UD-03, RNIC-UD-05, RNIC-UD-06, RNIC-UD-07: a datagram to the own address,
    /// behind the area of the GRH. The handle may go while the request is posted.
    #[test]
    fn datagram_takes_a_request_of_the_shared_queue() -> Result {
        let result = with_soft(4, |shared| {
            shared.add_datagrams()?;
            shared.receive(2, None)?;
            let to = Datagrams::new(shared)?;
            shared.send(shared.pair(0)?, 5, 48, Some(to.handle))?;
            drop(to);
            let done = shared.received()?;
            let right = shared.has(2, GRH, 5, 48);
            Ok((done.id, done.status, done.len, right))
        });
        assert_eq!(unless_skipped!(result), (2, SUCCESS, 88, true));
        Ok(())
    }

    /// RNIC-UD-06, RNIC-AH-01: the handle must be of the domain of the queue pair.
    #[test]
    fn handle_of_another_domain_is_refused() -> Result {
        let result = with_soft(4, |shared| {
            shared.add_datagrams()?;
            let other = Pd::new(&shared.bench.device)?;
            let to = Datagrams::of(&other, &Route::own(shared)?, true)?;
            shared.send(shared.pair(0)?, 5, 48, Some(to.handle))?;
            // A handle stays one of its domain.
            to.modify(&Route::own(shared)?)?;
            let results = shared.reasons(1)?;
            Ok(results.first().copied())
        });
        assert_eq!(unless_skipped!(result), Some((1005, 0x10b)));
        Ok(())
    }

    /// RNIC-AH-01: a port or an entry that there is not, and no GRH; whether the handle is new or not.
    #[test]
    fn handle_needs_a_port_a_source_and_a_grh() -> Result {
        let result = with_soft(4, |shared| {
            let own = Route::own(shared)?;
            let bad = [
                Route {
                    port_num: own.port_num + 1,
                    ..own
                },
                Route { flags: 0, ..own },
                Route {
                    sgid_index: u8::MAX,
                    ..own
                },
            ];
            let to = Datagrams::new(shared)?;
            let made = bad.map(|route| Datagrams::of(&shared.pd, &route, true).is_err());
            let changed = bad.map(|route| to.modify(&route).is_err());
            Ok((made, changed, to.query()? == (own, false)))
        });
        assert_eq!(unless_skipped!(result), ([true; 3], [true; 3], true));
        Ok(())
    }

    /// RNIC-AH-01.
    #[test]
    fn query_of_a_handle_shows_its_way() -> Result {
        let result = with_soft(4, |shared| {
            let (own, other) = (Route::own(shared)?, Route::elsewhere(shared)?);
            let mut right = true;
            let to = Datagrams::of(&shared.pd, &other, true)?;
            right &= to.query()? == (other, false);
            for _ in 0..100 {
                to.modify(&own)?;
                right &= to.query()? == (own, false);
                to.modify(&other)?;
                right &= to.query()? == (other, false);
            }
            Ok(right)
        });
        assert!(unless_skipped!(result));
        Ok(())
    }

    /// RNIC-AH-01: what is posted behind the change goes to the new address, and nothing else arrives.
    #[test]
    fn changed_handle_leads_to_its_new_address() -> Result {
        let result = with_soft(4, |shared| {
            shared.add_datagrams()?;
            let to = Datagrams::of(&shared.pd, &Route::elsewhere(shared)?, true)?;
            shared.receive(2, None)?;
            shared.send(shared.pair(0)?, 5, 48, Some(to.handle))?;
            let lost = shared.results(1)?;
            to.modify(&Route::own(shared)?)?;
            shared.send(shared.pair(0)?, 6, 40, Some(to.handle))?;
            let done = shared.received()?;
            let right = shared.has(2, GRH, 6, 40);
            Ok((lost.first().copied(), done.id, done.len, right))
        });
        let outcome = unless_skipped!(result);
        assert_eq!(outcome, (Some((1005, SUCCESS)), 2, 80, true));
        Ok(())
    }

    /// RNIC-AH-01, RNIC-UD-06: with interrupts off, where nothing may sleep. The request keeps the way
    /// that the handle had when it was posted.
    #[test]
    fn handle_lives_and_changes_with_interrupts_off() -> Result {
        let result = with_soft(4, |shared| {
            shared.add_datagrams()?;
            shared.receive(2, None)?;
            let (own, other) = (Route::own(shared)?, Route::elsewhere(shared)?);
            let lock: Pin<KBox<SpinLockIrq<()>>> =
                KBox::pin_init(new_spinlock_irq!((), "rdma_sock_test_irq"), GFP_KERNEL)?;
            let guard = lock.lock();
            let to = Datagrams::of(&shared.pd, &own, false)?;
            let sent = shared.send(shared.pair(0)?, 5, 48, Some(to.handle));
            let changed = to.modify(&other);
            let shown = to.query();
            drop(to);
            drop(guard);
            sent?;
            changed?;
            let done = shared.received()?;
            let right = shared.has(2, GRH, 5, 48);
            Ok((shown? == (other, false), done.id, done.status, right))
        });
        assert_eq!(unless_skipped!(result), (true, 2, SUCCESS, true));
        Ok(())
    }
}

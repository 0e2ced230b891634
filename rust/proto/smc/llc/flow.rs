// SPDX-License-Identifier: GPL-2.0

//! Which requests of the peer wait, are refused or are ignored while something else is going on,
//! RFC 7609, section 3.5.5.3.
//!
//! One exchange that changes the configuration runs at a time in a link group (COL-01). Each side
//! learns of the other's only by messages, so requests cross, and this table says which side yields.

use super::action::Role;

/// The exchange that is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunningFlow {
    /// None.
    Nothing,
    /// ADD LINK up to its end, which in first contact begins with CONFIRM LINK.
    AddLink,
    /// DELETE LINK for one link.
    DeleteLink,
    /// CONFIRM RKEY or DELETE RKEY that this side began.
    Rkey,
}

/// A request of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LlcRequest {
    /// TEST LINK. Never waits, so that only the table's tests ask.
    #[cfg_attr(
        not(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST)),
        expect(dead_code, reason = "completes the table of the RFC")
    )]
    TestLink,
    /// ADD LINK: of a client a notice, of a server the start of a link.
    AddLink,
    /// DELETE LINK for one link: of a client a notice, of a server the deletion.
    DeleteLink,
    /// DELETE LINK for all. Never waits either.
    #[cfg_attr(
        not(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST)),
        expect(dead_code, reason = "completes the table of the RFC")
    )]
    DeleteGroup,
    /// CONFIRM RKEY or DELETE RKEY.
    Rkey,
}

/// What to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowVerdict {
    /// Do as it says.
    Process,
    /// Do as it says when the running exchange is over.
    Queue,
    /// Reply that it cannot be done now.
    Refuse,
    /// Forget it.
    Ignore,
}

/// What a side in the role `role` does with `request` while `running` is going on, `lenient` toward
/// a peer that behaves as Linux does.
pub(super) const fn admit(
    role: Role,
    running: RunningFlow,
    request: LlcRequest,
    lenient: bool,
) -> FlowVerdict {
    match (running, request) {
        // COL-10, COL-20, COL-30, LLF-81: always at once; COL-13, COL-23, COL-35, COL-04 as well.
        (_, LlcRequest::TestLink | LlcRequest::DeleteGroup) => FlowVerdict::Process,
        (RunningFlow::Nothing, _) => FlowVerdict::Process,
        // Linux gives up what is refused, and takes keys in at any time itself: what a new link
        // misses of them is announced behind the exchange (DEP-6).
        (RunningFlow::AddLink | RunningFlow::DeleteLink, LlcRequest::Rkey) if lenient => {
            FlowVerdict::Process
        }
        // COL-14, COL-24, COL-03; DELETE RKEY is of the same class (AMB-16).
        (RunningFlow::AddLink | RunningFlow::DeleteLink, LlcRequest::Rkey) => FlowVerdict::Refuse,
        // COL-02, AMB-15: both sides may announce buffers at the same time.
        (RunningFlow::Rkey, LlcRequest::Rkey) => FlowVerdict::Process,
        (RunningFlow::AddLink, LlcRequest::AddLink) => match role {
            // COL-11.
            Role::Server => FlowVerdict::Ignore,
            // What the client is waiting for.
            Role::Client => FlowVerdict::Process,
        },
        // COL-31, COL-32, COL-21: the client yields to the server.
        (RunningFlow::DeleteLink | RunningFlow::Rkey, LlcRequest::AddLink) => match role {
            Role::Server => FlowVerdict::Queue,
            Role::Client => FlowVerdict::Process,
        },
        // COL-12, COL-22, COL-33, COL-34: likewise.
        (
            RunningFlow::AddLink | RunningFlow::DeleteLink | RunningFlow::Rkey,
            LlcRequest::DeleteLink,
        ) => match role {
            Role::Server => FlowVerdict::Queue,
            Role::Client => FlowVerdict::Process,
        },
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_llc_flow))]
mod tests {
    use super::*;

    /// Checks a row of the catalogue.
    fn row(role: Role, running: RunningFlow, request: LlcRequest, verdict: FlowVerdict) {
        assert_eq!(admit(role, running, request, false), verdict);
        let lenient = match verdict {
            FlowVerdict::Refuse => FlowVerdict::Process,
            other => other,
        };
        assert_eq!(admit(role, running, request, true), lenient);
    }

    /// RFC 7609, section 3.5.5.3.1.
    // TST-122, COL-04.
    #[test]
    fn collisions_with_add_link() {
        let (server, running) = (Role::Server, RunningFlow::AddLink);
        row(server, running, LlcRequest::TestLink, FlowVerdict::Process); // COL-10
        row(server, running, LlcRequest::AddLink, FlowVerdict::Ignore); // COL-11
        row(server, running, LlcRequest::DeleteLink, FlowVerdict::Queue); // COL-12
        row(
            server,
            running,
            LlcRequest::DeleteGroup,
            FlowVerdict::Process,
        ); // COL-13
        row(server, running, LlcRequest::Rkey, FlowVerdict::Refuse); // COL-14
        row(
            Role::Client,
            running,
            LlcRequest::AddLink,
            FlowVerdict::Process,
        ); // LLF-10
        row(Role::Client, running, LlcRequest::Rkey, FlowVerdict::Refuse); // COL-03
    }

    /// RFC 7609, section 3.5.5.3.2.
    // TST-122.
    #[test]
    fn collisions_with_delete_link() {
        let (server, running) = (Role::Server, RunningFlow::DeleteLink);
        row(server, running, LlcRequest::TestLink, FlowVerdict::Process); // COL-20
        row(server, running, LlcRequest::AddLink, FlowVerdict::Queue); // COL-21
        row(server, running, LlcRequest::DeleteLink, FlowVerdict::Queue); // COL-22
        row(
            server,
            running,
            LlcRequest::DeleteGroup,
            FlowVerdict::Process,
        ); // COL-23
        row(server, running, LlcRequest::Rkey, FlowVerdict::Refuse); // COL-24
        row(
            Role::Client,
            running,
            LlcRequest::TestLink,
            FlowVerdict::Process,
        ); // COL-20
        row(
            Role::Client,
            running,
            LlcRequest::DeleteGroup,
            FlowVerdict::Process,
        ); // COL-23
    }

    /// RFC 7609, section 3.5.5.3.3.
    // TST-122.
    #[test]
    fn collisions_with_confirm_rkey() {
        let (server, client, running) = (Role::Server, Role::Client, RunningFlow::Rkey);
        row(server, running, LlcRequest::TestLink, FlowVerdict::Process); // COL-30
        row(server, running, LlcRequest::AddLink, FlowVerdict::Queue); // COL-31
        row(client, running, LlcRequest::AddLink, FlowVerdict::Process); // COL-32
        row(server, running, LlcRequest::DeleteLink, FlowVerdict::Queue); // COL-33
        row(
            client,
            running,
            LlcRequest::DeleteLink,
            FlowVerdict::Process,
        ); // COL-34
        row(
            server,
            running,
            LlcRequest::DeleteGroup,
            FlowVerdict::Process,
        ); // COL-35
        row(
            client,
            running,
            LlcRequest::DeleteGroup,
            FlowVerdict::Process,
        ); // COL-35
        row(server, running, LlcRequest::Rkey, FlowVerdict::Process); // COL-02, COL-36
        row(client, running, LlcRequest::Rkey, FlowVerdict::Process); // COL-02
    }

    /// Whatever runs, a client never makes the server wait, so that they cannot wait for each
    /// other (AMB-15, AMB-50).
    #[test]
    fn client_never_queues() {
        for running in [
            RunningFlow::Nothing,
            RunningFlow::AddLink,
            RunningFlow::DeleteLink,
            RunningFlow::Rkey,
        ] {
            for request in [
                LlcRequest::TestLink,
                LlcRequest::AddLink,
                LlcRequest::DeleteLink,
                LlcRequest::DeleteGroup,
                LlcRequest::Rkey,
            ] {
                assert!(admit(Role::Client, running, request, false) != FlowVerdict::Queue);
                if running == RunningFlow::Nothing {
                    row(Role::Server, running, request, FlowVerdict::Process);
                }
            }
        }
    }
}

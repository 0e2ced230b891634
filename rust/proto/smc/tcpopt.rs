// SPDX-License-Identifier: GPL-2.0

//! The TCP option that offers SMC-R, RFC 7609, section 3.1 and appendix A.1.
//!
//! Pure decisions over the option octets of a SYN or SYN-ACK, that is, what follows the fixed 20
//! octets of the TCP header. Both sides of a connection must have carried the option (TCP-16).
//!
//! Some servers send back every option they do not know, which looks like an agreement. Our SYN
//! therefore carries, ahead of the SMC option, a second experimental option, which no server
//! answers: the decoy. A SYN-ACK that brings the decoy back comes from such an echo and means plain
//! TCP.

use super::wire::EYE_CATCHER;
use crate::proto::stream::reason::{
    LocalReason,
    Reason, //
};

/// Most octets of options a TCP header has room for.
pub(crate) const MAX_OPTIONS: usize = 40;

/// Option kinds that matter here.
mod kind {
    /// End of the list.
    pub(super) const END: u8 = 0;
    /// Filler of one octet.
    pub(super) const NOP: u8 = 1;
    /// MD5 signature, RFC 2385.
    pub(super) const MD5: u8 = 19;
    /// Authentication, RFC 5925.
    pub(super) const AO: u8 = 29;
    /// Fast open, RFC 7413.
    pub(super) const FAST_OPEN: u8 = 34;
    /// Shared experimental kind, RFC 6994 (TCP-01).
    pub(super) const EXPERIMENT: u8 = 254;
}

/// Length of the SMC option and of the decoy (TCP-02).
const OPTION_LEN: u8 = 6;

/// Identifier of fast open when it used the experimental kind.
const FAST_OPEN_EXID: [u8; 2] = [0xf9, 0x89];

/// Upper half of every decoy's identifier; not assigned to any experiment.
const DECOY_EXID: [u8; 2] = [0x72, 0x5a];

/// Identifies the decoy of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nonce([u8; 4]);

impl Nonce {
    /// Makes one of any number; the same number gives the same nonce, as retransmissions need.
    pub(crate) const fn new(seed: u32) -> Self {
        let [_, _, c, d] = seed.to_be_bytes();
        let [a, b] = DECOY_EXID;
        Self([a, b, c, d])
    }

    /// The identifier on the wire.
    pub(crate) const fn get(self) -> u32 {
        u32::from_be_bytes(self.0)
    }
}

/// What the options of one segment say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// The SMC option is there.
    pub(crate) smc: bool,
    /// Identifier of a decoy, ours or another's.
    pub(crate) decoy: Option<u32>,
    /// Fast open, in either form.
    pub(crate) fast_open: bool,
    /// A signature covers the segment, so that no option may be added.
    pub(crate) auth: bool,
    /// An option has an impossible length; what comes behind it is unknown.
    pub(crate) malformed: bool,
    /// Octets up to the end marker, or all there are.
    pub(crate) len_used: usize,
}

/// Reads the options of a segment. Total: never fails, whatever the octets.
pub(crate) fn scan(options: &[u8]) -> Options {
    let mut found = Options::default();
    let mut rest = options;
    loop {
        found.len_used = options.len().saturating_sub(rest.len());
        rest = match rest {
            [] | [kind::END, ..] => return found,
            [kind::NOP, tail @ ..] => tail,
            [kind, len, ..] => match rest.split_at_checked(usize::from(*len)) {
                Some(([_, _, data @ ..], tail)) => {
                    found.note(*kind, data);
                    tail
                }
                _ => {
                    found.malformed = true;
                    return found;
                }
            },
            [_] => {
                found.malformed = true;
                return found;
            }
        };
    }
}

impl Options {
    /// Notes one option.
    fn note(&mut self, kind: u8, data: &[u8]) {
        match (kind, data) {
            (kind::MD5 | kind::AO, _) => self.auth = true,
            (kind::FAST_OPEN, _) => self.fast_open = true,
            (kind::EXPERIMENT, [a, b, ..]) if [*a, *b] == FAST_OPEN_EXID => self.fast_open = true,
            (kind::EXPERIMENT, [a, b, c, d]) if [*a, *b] == DECOY_EXID => {
                self.decoy = Some(u32::from_be_bytes([*a, *b, *c, *d]));
            }
            // Linux takes longer options of even length for it as well (DEP-3).
            (kind::EXPERIMENT, [a, b, c, d, more @ ..]) if more.len() % 2 == 0 => {
                self.smc |= [*a, *b, *c, *d] == EYE_CATCHER;
            }
            _ => {}
        }
    }
}

/// Octets to append to the options of a segment, a multiple of four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OptionBytes {
    bytes: [u8; 12],
    len: usize,
}

impl OptionBytes {
    /// The decoy and the SMC option, for a SYN.
    fn syn(nonce: Nonce) -> Self {
        let [e, f, g, h] = nonce.0;
        let [i, j, k, l] = EYE_CATCHER;
        Self {
            bytes: [
                kind::EXPERIMENT,
                OPTION_LEN,
                e,
                f,
                g,
                h,
                kind::EXPERIMENT,
                OPTION_LEN,
                i,
                j,
                k,
                l,
            ],
            len: 12,
        }
    }

    /// The SMC option behind two fillers, for a SYN-ACK.
    fn synack() -> Self {
        let [a, b, c, d] = EYE_CATCHER;
        let mut bytes = [0; 12];
        let option = [
            kind::NOP,
            kind::NOP,
            kind::EXPERIMENT,
            OPTION_LEN,
            a,
            b,
            c,
            d,
        ];
        for (to, from) in bytes.iter_mut().zip(option) {
            *to = from;
        }
        Self { bytes, len: 8 }
    }

    /// The octets.
    pub(crate) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

/// What to do with an outgoing segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionVerdict {
    /// Leave it as it is: this connection will be plain TCP.
    Leave,
    /// Append these octets to its options.
    Add(OptionBytes),
}

impl OptionVerdict {
    /// The octets to append, if any.
    pub(crate) const fn octets(self) -> Option<OptionBytes> {
        match self {
            Self::Add(octets) => Some(octets),
            Self::Leave => None,
        }
    }
}

/// Whether `add` can be appended to the options `own`, which `found` was read from.
fn fits(own: &[u8], found: &Options, add: &OptionBytes) -> bool {
    let open_end = found.len_used == own.len() && own.len() % 4 == 0;
    open_end
        && own
            .len()
            .checked_add(add.len)
            .is_some_and(|total| total <= MAX_OPTIONS)
}

/// Decides about our own SYN (TCP-10), whose options are `own`.
///
/// Signed segments must not change and data on the SYN cannot go together with the CLC exchange
/// (AMB-37), so both are left alone; so is a SYN without room.
pub(crate) fn decide_syn_out(own: &[u8], nonce: Nonce) -> OptionVerdict {
    let found = scan(own);
    let add = OptionBytes::syn(nonce);
    if found.smc || found.fast_open || found.auth || found.malformed || !fits(own, &found, &add) {
        return OptionVerdict::Leave;
    }
    OptionVerdict::Add(add)
}

/// Whether a received SYN with these options may be answered with the SMC option (TCP-12).
///
/// Depends on nothing else, so a listener reaches the same result from the saved SYN later on.
pub(crate) fn syn_allows_smc(syn: &[u8]) -> bool {
    let found = scan(syn);
    found.smc && !found.fast_open && !found.auth && !found.malformed
}

/// Decides about our own SYN-ACK (TCP-11) with the options `own`, which answers a SYN with the
/// options `syn`.
///
/// A function of the two only, so that each SYN-ACK to the same SYN is the same, and a segment that
/// is shown twice keeps what it got.
pub(crate) fn decide_synack_out(syn: &[u8], own: &[u8]) -> OptionVerdict {
    let found = scan(own);
    let add = OptionBytes::synack();
    if !syn_allows_smc(syn)
        || found.smc
        || found.auth
        || found.malformed
        || !fits(own, &found, &add)
    {
        return OptionVerdict::Leave;
    }
    OptionVerdict::Add(add)
}

/// Judges a received SYN-ACK: whether the server agreed to SMC, or why not (TCP-16, TCP-18).
pub(crate) fn judge_synack(options: &[u8], nonce: Nonce) -> Result<(), Reason> {
    let found = scan(options);
    if found.decoy == Some(nonce.get()) {
        Err(Reason::Local(LocalReason::OptionEchoed))
    } else if found.smc && !found.malformed {
        Ok(())
    } else {
        Err(Reason::PeerNoSmc)
    }
}

/// Whether the server agreed to SMC with this SYN-ACK.
#[cfg(any(test, fuzzing, CONFIG_RDMA_SOCK_KUNIT_TEST))]
pub(crate) fn synack_agrees(options: &[u8], nonce: Nonce) -> bool {
    judge_synack(options, nonce).is_ok()
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_proto_tcpopt))]
mod tests {
    use super::*;

    /// SMCR-VEC-01.
    const SMC: [u8; 6] = [0xfe, 0x06, 0xe2, 0xd4, 0xc3, 0xd9];
    /// Segment size, timestamps with permission for SACK, window scale: what Linux puts on a SYN.
    const LINUX_SYN: [u8; 20] = [
        2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7,
    ];
    const NONCE: Nonce = Nonce::new(0xffff_1234);

    /// Joins two pieces of options.
    fn join(first: &[u8], second: &[u8]) -> ([u8; 64], usize) {
        let mut all = [0; 64];
        for (to, from) in all.iter_mut().zip(first.iter().chain(second)) {
            *to = *from;
        }
        (all, first.len() + second.len())
    }

    #[test]
    fn nothing_is_found_in_nothing() {
        assert_eq!(scan(&[]), Options::default());
    }

    // TCP-01, TCP-02, TCP-03, GEN-20, VEC-01, TST-028.
    #[test]
    fn smc_option_is_found_anywhere() {
        for lead in [&[][..], &[1], &[1, 1], &LINUX_SYN] {
            let (all, len) = join(lead, &SMC);
            let found = scan(&all[..len]);
            assert!(found.smc && !found.malformed);
            assert_eq!(found.len_used, len);
            let (all, len) = join(&all[..len], &[1, 1, 3, 3, 9]);
            assert!(scan(&all[..len]).smc);
        }
    }

    #[test]
    fn longer_option_of_even_length_counts() {
        assert!(scan(&[254, 8, 0xe2, 0xd4, 0xc3, 0xd9, 0, 0]).smc);
        assert!(!scan(&[254, 7, 0xe2, 0xd4, 0xc3, 0xd9, 0]).smc);
        assert!(!scan(&[254, 4, 0xe2, 0xd4]).smc);
        assert!(!scan(&[253, 6, 0xe2, 0xd4, 0xc3, 0xd9]).smc);
        assert!(!scan(&[254, 6, 0xe2, 0xd4, 0xc3, 0xd8]).smc);
    }

    #[test]
    fn nothing_counts_behind_the_end_marker() {
        let (all, len) = join(&[1, 0], &SMC);
        let found = scan(&all[..len]);
        assert!(!found.smc && !found.malformed);
        assert_eq!(found.len_used, 1);
    }

    #[test]
    fn every_truncation_is_malformed_or_complete() {
        let (all, len) = join(&LINUX_SYN, &SMC);
        for cut in 0..len {
            let found = scan(&all[..cut]);
            assert!(!found.smc);
            // The option boundaries of the SYN above.
            let boundary = [0, 4, 6, 16, 17, 20].contains(&cut);
            assert_eq!(found.malformed, !boundary);
        }
    }

    // TCP-02, TST-028.
    #[test]
    fn every_impossible_length_is_malformed() {
        for len in 0..=u8::MAX {
            let mut option = [0x55; 40];
            option[0] = 99;
            option[1] = len;
            let found = scan(&option[..8]);
            match len {
                0 | 1 | 9..=u8::MAX => {
                    assert!(found.malformed);
                    assert_eq!(found.len_used, 0);
                }
                // The filling octets are an option of impossible length, except when none is left.
                _ => assert_eq!(found.malformed, len != 8),
            }
        }
        assert!(scan(&[254]).malformed);
    }

    // TST-028, AMB-37.
    #[test]
    fn fast_open_and_signatures_are_seen() {
        assert!(scan(&[34, 2]).fast_open);
        assert!(scan(&[254, 4, 0xf9, 0x89]).fast_open);
        assert!(scan(&[254, 6, 0xf9, 0x89, 1, 2]).fast_open);
        assert!(scan(&[29, 4, 1, 2]).auth);
        let mut md5 = [0; 18];
        md5[0] = 19;
        md5[1] = 18;
        assert!(scan(&md5).auth);
    }

    // TCP-10, TCP-01, TCP-02, TCP-03.
    #[test]
    fn syn_gets_decoy_and_option() -> Result<(), &'static str> {
        let add = decide_syn_out(&LINUX_SYN, NONCE);
        let add = add.octets().ok_or("nothing added")?;
        let (all, len) = join(&LINUX_SYN, add.as_slice());
        assert_eq!(len, 32);
        assert_eq!(all[26..32], SMC);
        let found = scan(&all[..len]);
        assert!(found.smc && !found.malformed && !found.fast_open && !found.auth);
        assert_eq!(found.decoy, Some(NONCE.get()));
        assert_eq!(found.decoy, Some(0x725a_1234));
        Ok(())
    }

    #[test]
    fn syn_without_room_is_left_alone() {
        let nops = [1; 44];
        for len in 0..=nops.len() {
            let fits = len <= 28 && len % 4 == 0;
            let verdict = decide_syn_out(&nops[..len], NONCE);
            assert_eq!(verdict.octets().is_some(), fits);
        }
    }

    // TCP-22, AMB-37.
    #[test]
    fn syn_that_cannot_be_smc_is_left_alone() {
        let (with_smc, _) = join(&[1, 1], &SMC);
        for own in [
            &[34, 2, 1, 1][..],
            &[29, 4, 1, 2],
            &[254, 4, 0xf9, 0x89],
            &[2, 4, 5],
            &[2, 9, 5, 1],
            &[1, 1, 1, 0],
            &with_smc[..8],
        ] {
            assert_eq!(decide_syn_out(own, NONCE), OptionVerdict::Leave);
        }
    }

    // TCP-11, TCP-12, FBK-02.
    #[test]
    fn synack_answers_the_option_only() -> Result<(), &'static str> {
        let (syn, len) = join(&LINUX_SYN, &[254, 6, 0x72, 0x5a, 0, 1]);
        assert_eq!(
            decide_synack_out(&syn[..len], &LINUX_SYN),
            OptionVerdict::Leave
        );
        let (syn, len) = join(&syn[..len], &SMC);
        let add = decide_synack_out(&syn[..len], &LINUX_SYN);
        let add = add.octets().ok_or("nothing added")?;
        assert_eq!(add.as_slice().len(), 8);
        assert_eq!(add.as_slice()[..2], [1, 1]);
        assert_eq!(add.as_slice()[2..], SMC);
        assert!(scan(add.as_slice()).decoy.is_none());
        assert!(syn_allows_smc(&syn[..len]));
        Ok(())
    }

    #[test]
    fn synack_to_a_syn_that_rules_smc_out_is_left_alone() {
        for bad in [
            &[34, 2, 1, 1][..],
            &[29, 4, 1, 2],
            &[254, 4, 0xf9, 0x89],
            &[2, 9, 5, 1],
        ] {
            let (syn, len) = join(&SMC, bad);
            assert!(scan(&syn[..len]).smc);
            assert!(!syn_allows_smc(&syn[..len]));
            assert_eq!(decide_synack_out(&syn[..len], &[]), OptionVerdict::Leave);
        }
        assert!(!syn_allows_smc(&[]));
    }

    // A VRF or a tunnel shows a segment again that got its option before.
    #[test]
    fn segment_that_has_the_option_is_left_alone() -> Result<(), &'static str> {
        let add = decide_syn_out(&LINUX_SYN, NONCE);
        let add = add.octets().ok_or("nothing added")?;
        let (syn, len) = join(&LINUX_SYN, add.as_slice());
        let syn = &syn[..len];
        assert_eq!(decide_syn_out(syn, NONCE), OptionVerdict::Leave);
        for own in [&[][..], &LINUX_SYN] {
            let add = decide_synack_out(syn, own);
            let add = add.octets().ok_or("nothing added")?;
            let (synack, len) = join(own, add.as_slice());
            let synack = &synack[..len];
            assert_eq!(decide_synack_out(syn, synack), OptionVerdict::Leave);
            assert!(synack_agrees(synack, NONCE));
        }
        Ok(())
    }

    // A SYN-ACK is made for each SYN that is repeated, from the same copy of the first.
    #[test]
    fn synack_that_is_repeated_gets_the_same_option() {
        let (syn, len) = join(&LINUX_SYN, &SMC);
        let first = decide_synack_out(&syn[..len], &LINUX_SYN);
        assert!(first.octets().is_some());
        assert_eq!(decide_synack_out(&syn[..len], &LINUX_SYN), first);
    }

    #[test]
    fn synack_without_room_is_left_alone() {
        let nops = [1; 44];
        for len in 0..=nops.len() {
            let fits = len <= 32 && len % 4 == 0;
            let verdict = decide_synack_out(&SMC, &nops[..len]);
            assert_eq!(verdict.octets().is_some(), fits);
        }
        assert_eq!(
            decide_synack_out(&SMC, &[29, 4, 1, 2]),
            OptionVerdict::Leave
        );
    }

    #[test]
    fn echo_of_the_decoy_is_no_agreement() {
        let echoed = OptionBytes::syn(NONCE);
        assert_eq!(
            judge_synack(echoed.as_slice(), NONCE),
            Err(Reason::Local(LocalReason::OptionEchoed))
        );
        assert!(!synack_agrees(echoed.as_slice(), NONCE));
    }

    // TCP-16, TCP-18, FBK-02, FBK-03.
    #[test]
    fn plain_synack_is_no_agreement() {
        assert_eq!(judge_synack(&LINUX_SYN, NONCE), Err(Reason::PeerNoSmc));
        let (bad, len) = join(&SMC, &[2, 9]);
        assert_eq!(judge_synack(&bad[..len], NONCE), Err(Reason::PeerNoSmc));
    }

    // TCP-16.
    #[test]
    fn option_alone_is_agreement() {
        assert!(synack_agrees(&SMC, NONCE));
        assert!(synack_agrees(OptionBytes::synack().as_slice(), NONCE));
        // A decoy that is not ours proves nothing.
        let other = OptionBytes::syn(Nonce::new(1));
        assert!(synack_agrees(other.as_slice(), NONCE));
    }

    #[test]
    fn decoy_is_never_a_registered_experiment() {
        for seed in [0, 1, 0xe2d4_c3d9, 0xf989_0000, u32::MAX] {
            let add = OptionBytes::syn(Nonce::new(seed));
            let decoy = scan(add.as_slice().get(..6).unwrap_or(&[]));
            assert!(!decoy.smc && !decoy.fast_open && !decoy.malformed);
            assert_eq!(decoy.decoy, Some(Nonce::new(seed).get()));
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Properties of the TCP option.

use crate::proto::smc::tcpopt::{
    decide_syn_out,
    decide_synack_out,
    scan,
    syn_allows_smc,
    synack_agrees,
    Nonce,
    OptionVerdict,
    MAX_OPTIONS, //
};
use proptest::{
    collection::vec,
    prelude::*, //
};

/// Well-formed options of other kinds, padded to a word.
fn options() -> impl Strategy<Value = Vec<u8>> {
    let option = (2..=30_u8, vec(any::<u8>(), 0..10)).prop_map(|(kind, data)| {
        // Not the kinds that rule SMC out.
        let kind = if matches!(kind, 19 | 29) { 3 } else { kind };
        let mut option = vec![kind, u8::try_from(data.len() + 2).expect("short")];
        option.extend(data);
        option
    });
    vec(option, 0..5).prop_map(|list| {
        let mut all = list.concat();
        while all.len() % 4 != 0 {
            all.push(1);
        }
        all
    })
}

proptest! {
    #[test]
    fn no_octets_make_the_scan_panic(octets in vec(any::<u8>(), 0..60)) {
        let found = scan(&octets);
        prop_assert!(found.len_used <= octets.len());
    }

    // TCP-10, TCP-11, TCP-16, TST-028.
    #[test]
    fn whole_handshake_agrees_where_there_is_room(
        syn in options(),
        synack in options(),
        seed in any::<u32>(),
    ) {
        let nonce = Nonce::new(seed);
        let mut syn = syn;
        let mut synack = synack;
        if let OptionVerdict::Add(add) = decide_syn_out(&syn, nonce) {
            syn.extend(add.as_slice());
        } else {
            prop_assert!(syn.len() + 12 > MAX_OPTIONS);
        }
        if let OptionVerdict::Add(add) = decide_synack_out(&syn, &synack) {
            synack.extend(add.as_slice());
            prop_assert!(syn_allows_smc(&syn));
        }
        prop_assert_eq!(synack_agrees(&synack, nonce), scan(&synack).smc);
        prop_assert!(scan(&syn).smc || !scan(&synack).smc);
        for segment in [&syn, &synack] {
            prop_assert!(!scan(segment).smc || segment.len() <= MAX_OPTIONS);
            prop_assert!(segment.len() % 4 == 0 && !scan(segment).malformed);
        }
    }

    #[test]
    fn echo_never_agrees(syn in options(), seed in any::<u32>()) {
        let nonce = Nonce::new(seed);
        let mut syn = syn;
        if let OptionVerdict::Add(add) = decide_syn_out(&syn, nonce) {
            syn.extend(add.as_slice());
        }
        prop_assert!(!synack_agrees(&syn, nonce));
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The fuzz targets as tests: each gets its corpus, and a fixed number of inputs made from it and
//! from nothing, the same in every run.

use std::{
    fs,
    path::Path, //
};

/// Inputs made for each target; `RDMA_SOCK_SEEDS` has more made.
const ROUNDS: u64 = 3000;
/// Longest input.
const MAX_LEN: usize = 400;

/// Pseudo-random numbers (xorshift64*).
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`.
    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 11) as usize % n
    }
}

/// The inputs that are committed, in the order of their names.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/corpus")
        .join(target);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// A few changes of the kinds that find something.
fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..1 + rng.below(6) {
        let len = input.len();
        match rng.below(7) {
            0 if len > 0 => {
                let at = rng.below(len);
                input[at] ^= 1 << rng.below(8);
            }
            1 if len > 0 => {
                let at = rng.below(len);
                input[at] = [0, 1, 0x7f, 0x80, 0xff][rng.below(5)];
            }
            2 => input.truncate(rng.below(len + 1)),
            3 => (0..rng.below(16)).for_each(|_| input.push(rng.next() as u8)),
            4 if len > 0 => {
                let from = rng.below(len);
                let piece = input[from..(from + 1 + rng.below(16)).min(len)].to_vec();
                let at = rng.below(len);
                input.splice(at..at, piece);
            }
            5 if !other.is_empty() => {
                let from = rng.below(other.len());
                input.extend_from_slice(&other[from..]);
            }
            _ => input.insert(rng.below(len + 1), rng.next() as u8),
        }
    }
    input.truncate(MAX_LEN);
}

/// Runs a target on all of it.
fn replay(name: &str, target: fn(&[u8])) {
    let corpus = corpus(name);
    assert!(!corpus.is_empty(), "no corpus of {name}");
    for input in &corpus {
        target(input);
    }
    let rounds = std::env::var("RDMA_SOCK_SEEDS")
        .ok()
        .and_then(|number| number.parse().ok())
        .unwrap_or(ROUNDS);
    let mut rng = Rng(0x5eed);
    for round in 0..rounds {
        let mut input = corpus[rng.below(corpus.len())].clone();
        let other = &corpus[rng.below(corpus.len())];
        mutate(&mut rng, &mut input, other);
        if round % 8 == 0 {
            input = (0..rng.below(MAX_LEN)).map(|_| rng.next() as u8).collect();
        }
        // What is printed is of use only if the target fails, and is shown only then.
        println!("{name}, input {round}: {input:02x?}");
        target(&input);
    }
}

/// One test for each target.
macro_rules! replays {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name), super::$name);
        })*
    };
}

replays! {
    cdc_conn
    cdc_message
    clc_handshake
    clc_message
    conn_pair
    llc_group
    llc_message
    llc_pair
    roce_packet
    roce_qp
    pm_message
    sdp_conn
    sdp_hello
    sdp_message
    sdp_pair
    tcp_option
}

// SPDX-License-Identifier: GPL-2.0

//! The protocols that can take the place of TCP.

use clap::ValueEnum;
use serde::{
    Deserialize,
    Serialize, //
};

/// Protocol numbers in the internet families.
const IPPROTO_SMC: u32 = 256;
const IPPROTO_SDP: u32 = 257;
/// Of sockets that take part in both.
const IPPROTO_DUAL: u32 = 258;

/// The protocol that selected programs get in place of TCP.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ValueEnum)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Proto {
    /// SMC-R, by IPPROTO_SMC (256)
    #[default]
    Smc,
    /// SDP, by protocol 257
    Sdp,
    /// Both, by protocol 258; SMC-R alone if the kernel lacks that
    Auto,
}

impl Proto {
    /// All of them.
    const ALL: [Self; 3] = [Self::Smc, Self::Sdp, Self::Auto];

    /// Its name on the command line and for the library.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Smc => "smc",
            Self::Sdp => "sdp",
            Self::Auto => "auto",
        }
    }

    /// Protocol numbers in the order in which they are looked for; 0 is none.
    pub(crate) fn numbers(self) -> [u32; 2] {
        match self {
            Self::Smc => [IPPROTO_SMC, 0],
            Self::Sdp => [IPPROTO_SDP, 0],
            Self::Auto => [IPPROTO_DUAL, IPPROTO_SMC],
        }
    }

    /// By these numbers, or by those that earlier versions had for it.
    pub(crate) fn from_numbers(numbers: [u32; 2]) -> Option<Self> {
        if numbers == [IPPROTO_SMC, IPPROTO_SDP] {
            return Some(Self::Auto);
        }
        Self::ALL
            .into_iter()
            .find(|proto| proto.numbers() == numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_back() {
        for proto in Proto::ALL {
            assert_eq!(Proto::from_numbers(proto.numbers()), Some(proto));
        }
        let earlier = [IPPROTO_SMC, IPPROTO_SDP];
        assert_eq!(Proto::from_numbers(earlier), Some(Proto::Auto));
        assert_eq!(Proto::from_numbers([0, IPPROTO_SMC]), None);
        assert_eq!(Proto::from_numbers([0, 0]), None);
    }

    #[test]
    fn name_is_the_word_of_the_command_line_and_of_the_json() {
        for proto in Proto::ALL {
            let word = proto.to_possible_value().unwrap();
            assert_eq!(word.get_name(), proto.name());
            let json = serde_json::to_string(&proto).unwrap();
            assert_eq!(json, format!("\"{}\"", proto.name()));
        }
    }
}

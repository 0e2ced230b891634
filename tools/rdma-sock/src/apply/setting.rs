// SPDX-License-Identifier: GPL-2.0

//! Values of sysctls in the file.

use serde::{
    de::{
        IgnoredAny,
        MapAccess,
        SeqAccess,
        Visitor, //
    },
    Deserialize,
    Deserializer, //
};
use std::{
    collections::BTreeMap,
    fmt, //
};
use toml::Spanned;

/// The value of a key. A name with dots and no quotes, as in `net.smc.wmem = 1`, is a table in a table.
#[derive(Debug)]
pub(super) enum Setting {
    /// Names below this one.
    Table(BTreeMap<String, Spanned<Setting>>),
    /// What the sysctl gets.
    Text(String),
    /// A kind of value that no sysctl has.
    Other,
}

struct Kind;

impl<'de> Visitor<'de> for Kind {
    type Value = Setting;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value of a sysctl")
    }

    fn visit_bool<E>(self, on: bool) -> Result<Setting, E> {
        Ok(Setting::Text(u8::from(on).to_string()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Setting, E> {
        Ok(Setting::Text(number.to_string()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Setting, E> {
        Ok(Setting::Text(text.to_string()))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Setting, E> {
        Ok(Setting::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Setting, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Setting::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Setting, A::Error> {
        let mut table = BTreeMap::new();
        while let Some((name, value)) = map.next_entry()? {
            table.insert(name, value);
        }
        Ok(Setting::Table(table))
    }
}

impl<'de> Deserialize<'de> for Setting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Kind)
    }
}

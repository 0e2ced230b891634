// SPDX-License-Identifier: GPL-2.0

//! Keeps the schemas of the JSON in step: `Documentation/schema/NAME.json`.
//!
//! `RDMA_SOCK_WRITE=1 cargo test` writes the files anew.

use schemars::{
    schema_for,
    JsonSchema, //
};
use serde_json::Value;
use std::{
    env, fs,
    path::{
        Path,
        PathBuf, //
    },
};

/// What makes a test write a file of the documentation in place of comparing it.
const WRITE: &str = "RDMA_SOCK_WRITE";

/// A file of the documentation.
pub(crate) fn documentation(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../Documentation")
        .join(name)
}

/// Checks that a file of the repository has this text.
pub(crate) fn keep(path: &Path, text: &str) {
    if env::var_os(WRITE).is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let kept = fs::read_to_string(path).unwrap_or_default();
    let advice = format!(
        "{} is out of date: run {WRITE}=1 cargo test",
        path.display()
    );
    assert!(kept == text, "{advice}");
}

/// Checks that the schema of `T` is the one in the documentation, and that the values obey it.
pub(crate) fn check<T: JsonSchema>(name: &str, values: &[Value]) {
    let schema = serde_json::to_value(schema_for!(T)).unwrap();
    let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    keep(&documentation(&format!("schema/{name}.json")), &text);
    let validator = jsonschema::validator_for(&schema).unwrap();
    for value in values {
        let errors: Vec<String> = validator
            .iter_errors(value)
            .map(|error| format!("{error} at {}", error.instance_path))
            .collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }
    assert!(!validator.is_valid(&Value::from("no report")));
}

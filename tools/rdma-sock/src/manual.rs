// SPDX-License-Identifier: GPL-2.0

//! Keeps the manual page in step with the command line.

use clap::{
    Command,
    CommandFactory, //
};
use std::fs;

use crate::{
    cli::Cli,
    schema, //
};

/// Options that each command has.
const EVERYWHERE: [&str; 2] = ["help", "version"];

/// Calls `visit` for a command and all of those below, with the words that lead there.
fn walk(command: &Command, words: &str, visit: &mut impl FnMut(&str, &Command)) {
    visit(words, command);
    for inner in command.get_subcommands() {
        walk(inner, &format!("{words} {}", inner.get_name()), visit);
    }
}

#[test]
fn manual_page_has_each_command_and_option() {
    let page = fs::read_to_string(schema::documentation("man/rdma-sock.1.rst")).unwrap();
    let mut missing = Vec::new();
    walk(&Cli::command(), "rdma-sock", &mut |words, command| {
        if !command.has_subcommands() && !page.contains(&format!("**{words}**")) {
            missing.push(format!("the command '{words}'"));
        }
        for long in command.get_arguments().filter_map(|arg| arg.get_long()) {
            if !EVERYWHERE.contains(&long) && !page.contains(&format!("**--{long}**")) {
                missing.push(format!("--{long} of '{words}'"));
            }
        }
    });
    assert!(missing.is_empty(), "not in the manual page: {missing:#?}");
}

#[test]
fn manual_page_has_no_option_that_is_gone() {
    let page = fs::read_to_string(schema::documentation("man/rdma-sock.1.rst")).unwrap();
    let mut known = Vec::new();
    walk(&Cli::command(), "rdma-sock", &mut |_, command| {
        for arg in command.get_arguments() {
            known.extend(arg.get_long().map(str::to_string));
            let aliases = arg.get_all_aliases().unwrap_or_default();
            known.extend(aliases.into_iter().map(str::to_string));
        }
    });
    for part in page.split("**--").skip(1) {
        let option = part.split(['*', ' ', '=']).next().unwrap_or_default();
        // The words `--` alone end the options.
        let there = option.is_empty() || known.iter().any(|name| name == option);
        assert!(there, "--{option}");
    }
}

// SPDX-License-Identifier: GPL-2.0

//! `rdma-sock apply`: brings the machine to what `/etc/rdma-sock.toml` says.
//!
//! ```text
//!   config.rs    the file, and mistakes in it
//!   rules.rs     the rules in the file
//!   setting.rs   the values of sysctls in the file
//!   plan.rs      the difference between the file and the machine
//!   machine.rs   reading and changing this machine
//!   unit.rs      services of systemd
//! ```

mod config;
mod machine;
mod plan;
mod rules;
mod setting;
mod unit;

use anyhow::{
    anyhow,
    bail,
    Context,
    Result, //
};
use std::{
    fs,
    io::ErrorKind,
    path::Path,
    process::ExitCode, //
};

use crate::{
    cli::ApplyArgs,
    module,
    output, //
};
use config::Config;
use machine::ThisMachine;
use plan::{
    Machine,
    Plan, //
};

/// The exit status of `--diff` if there is a difference.
const DIFFERENT: u8 = 3;

/// Runs `apply`.
pub(crate) fn run(args: &ApplyArgs) -> Result<ExitCode> {
    if let Some(folder) = &args.drop_ins {
        return generate(&args.file, folder);
    }
    let config = read(&args.file)?;
    if args.diff {
        let plan = Plan::new(&config, &ThisMachine);
        tell(&plan)?;
        return match (&plan.errors[..], &plan.changes[..]) {
            ([], []) => Ok(ExitCode::SUCCESS),
            ([], _) => Ok(ExitCode::from(DIFFERENT)),
            (errors, _) => bail!(
                "could not compare {}",
                output::counted(errors.len(), "part")
            ),
        };
    }
    if args.check {
        return Ok(ExitCode::SUCCESS);
    }
    apply(&config)
}

/// Reads a file; the error names the line.
fn read(file: &Path) -> Result<Config> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    config::parse(&text).map_err(|mistake| anyhow!("{}: {mistake}", file.display()))
}

/// For systemd's generator: no file is no error, as it may be removed.
fn generate(file: &Path, folder: &Path) -> Result<ExitCode> {
    match fs::metadata(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ExitCode::SUCCESS),
        _ => {}
    }
    let entries = read(file)?.accelerate.unwrap_or_default();
    unit::write_drop_ins(&entries, folder)?;
    Ok(ExitCode::SUCCESS)
}

fn tell(plan: &Plan) -> Result<()> {
    for error in &plan.errors {
        output::complain(error);
    }
    for change in &plan.changes {
        output::print(&format!("{change}\n"))?;
    }
    Ok(())
}

/// Tells the difference, and makes all changes that can be made.
fn apply(config: &Config) -> Result<ExitCode> {
    if *config != Config::default() {
        // Sysctls and identifiers exist from then on. What needs them tells if they do not.
        if let Err(text) = module::load(module::RDMA_SOCK, &[]) {
            output::note(&text);
        }
    }
    let mut machine = ThisMachine;
    let plan = Plan::new(config, &machine);
    tell(&plan)?;
    let mut failed = plan.errors.len();
    for change in &plan.changes {
        if let Err(error) = machine.make(change) {
            output::complain(&error.context(change.to_string()));
            failed += 1;
        }
    }
    if failed > 0 {
        let all = plan.changes.len() + plan.errors.len();
        bail!("{failed} of {all} changes could not be made");
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(file: &Path) -> ApplyArgs {
        ApplyArgs {
            file: file.to_path_buf(),
            check: true,
            diff: false,
            drop_ins: None,
        }
    }

    #[test]
    fn check_of_a_file_names_file_and_line_of_a_mistake() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("rdma-sock.toml");
        fs::write(&file, "ueids = [\"A\"]\n").unwrap();
        assert!(run(&args(&file)).is_ok());
        fs::write(&file, "\nueids = [\"a\"]\n").unwrap();
        let error = format!("{:#}", run(&args(&file)).unwrap_err());
        let front = format!("{}: line 2: ueids: ", file.display());
        assert!(error.starts_with(&front), "{error}");
        let error = format!("{:#}", run(&args(&root.path().join("none"))).unwrap_err());
        assert!(error.starts_with("cannot read "), "{error}");
    }

    #[test]
    fn generator_without_a_file_writes_nothing() {
        let root = tempfile::tempdir().unwrap();
        let generate = |file: &str| {
            let args = ApplyArgs {
                drop_ins: Some(root.path().join("units")),
                ..args(&root.path().join(file))
            };
            run(&args)
        };
        assert!(generate("none").is_ok());
        assert!(!root.path().join("units").exists());
        let text = "[[accelerate]]\nunit = \"nginx.service\"\n";
        fs::write(root.path().join("some"), text).unwrap();
        assert!(generate("some").is_ok());
        let drop_in = root.path().join("units/nginx.service.d/50-rdma-sock.conf");
        assert!(drop_in.exists());
        fs::write(root.path().join("some"), "x = 1\n").unwrap();
        assert!(generate("some").is_err());
    }
}

// SPDX-License-Identifier: GPL-2.0

//! `rdma-sock device`: RDMA devices in software, so that machines without RDMA hardware can take part.
//!
//! ```text
//!   nldev.rs    RDMA netlink: list, make and delete devices
//!   netdev.rs   which network devices there are
//! ```

mod netdev;
mod nldev;

use anyhow::{
    bail,
    Context,
    Result, //
};
use rustix::io::Errno;
use std::path::Path;

use crate::{
    cli::{
        AddArgs,
        DeviceCommand, //
    },
    module,
    output::{
        self,
        Table, //
    },
};
use netdev::Netdev;
use nldev::Nldev;
pub(crate) use nldev::Port;

/// A module that makes RDMA devices on network devices.
#[derive(Debug)]
struct Driver {
    module: &'static str,
    /// Parameters for loading it.
    parameters: &'static [&'static str],
    /// Its link type in netlink.
    link_type: &'static str,
}

/// This project's. Of the versions of RoCE it gets the one that the other has.
const SOFT: Driver = Driver {
    module: "rdma_soft",
    parameters: &["roce=2"],
    link_type: "rsoft",
};

/// The kernel's.
const RXE: Driver = Driver {
    module: "rdma_rxe",
    parameters: &[],
    link_type: "rxe",
};

/// Runs one of the subcommands.
pub(crate) fn execute(command: &DeviceCommand) -> Result<()> {
    match command {
        DeviceCommand::Add(AddArgs {
            netdev: Some(name), ..
        }) => {
            let mut nldev = Nldev::open()?;
            let device = add(&mut nldev, name)?;
            output::print(&format!("{device}\n"))
        }
        DeviceCommand::Add(_) => add_all(),
        DeviceCommand::Del { name } => del(name),
        DeviceCommand::List(args) => print_list(args.json),
    }
}

/// All ports of all RDMA devices.
pub(crate) fn list() -> Result<Vec<Port>> {
    Nldev::open()?.ports()
}

/// Makes a device on the network device `name`, and gives its name.
pub(crate) fn make(name: &str) -> Result<String> {
    add(&mut Nldev::open()?, name)
}

/// Makes a device on the network device `name`, and gives its name. The module `rdma_soft` makes it if it is
/// loaded or can be, unless devices of `rdma_rxe` have the UDP port of this namespace.
fn add(nldev: &mut Nldev, name: &str) -> Result<String> {
    if module::load(SOFT.module, SOFT.parameters).is_ok() {
        match add_by(nldev, &SOFT, name, None) {
            Err(error) if nldev::errno(&error) == Some(Errno::ADDRINUSE) => output::note(&format!(
                "{} cannot be used beside devices of {}",
                SOFT.module, RXE.module
            )),
            result => return result,
        }
    }
    let load_error = module::load(RXE.module, RXE.parameters).err();
    add_by(nldev, &RXE, name, load_error)
}

/// Makes a device on the network device `name` by a driver, says which, and gives the device's name.
fn add_by(
    nldev: &mut Nldev,
    driver: &Driver,
    name: &str,
    load_error: Option<String>,
) -> Result<String> {
    let device = format!("{}_{name}", driver.link_type);
    let Err(error) = nldev.new_link(&device, driver.link_type, name) else {
        output::note(&format!("{device} is a device of {}", driver.module));
        return Ok(device);
    };
    Err(match nldev::errno(&error) {
        Some(Errno::EXIST) => match on_netdev(&nldev.ports()?, name) {
            Some(port) => error.context(format!(
                "{name} has the RDMA device {} already",
                port.device
            )),
            None => error.context(format!("an RDMA device {device} exists already")),
        },
        Some(Errno::NODEV) => error.context(format!("no network device {name}")),
        Some(Errno::PERM | Errno::ACCESS) => error.context(format!(
            "cannot make {device}: this needs root, and a network device that is no VLAN"
        )),
        _ => match load_error {
            Some(load_error) => error.context(format!("cannot make {device} ({load_error})")),
            None => error.context(format!("cannot make {device}")),
        },
    })
}

fn on_netdev<'a>(ports: &'a [Port], name: &str) -> Option<&'a Port> {
    ports
        .iter()
        .find(|port| port.netdev.as_deref() == Some(name))
}

/// Makes a device on each network device that should have one; goes on after a failure.
fn add_all() -> Result<()> {
    let mut nldev = Nldev::open()?;
    let ports = nldev.ports()?;
    let netdevs = netdev::list(Path::new(netdev::FOLDER))?;
    let lacking =
        |netdev: &&Netdev| netdev.is_up_ethernet() && on_netdev(&ports, &netdev.name).is_none();
    let (mut made, mut failed) = (0, 0);
    for netdev in netdevs.iter().filter(lacking) {
        match add(&mut nldev, &netdev.name) {
            Ok(device) => {
                made += 1;
                output::print(&format!("{device}\n"))?;
            }
            Err(error) => {
                failed += 1;
                output::complain(&error);
            }
        }
    }
    match (made, failed) {
        (0, 0) => {
            output::note("no Ethernet device needs one: each one that is up has an RDMA device")
        }
        (_, 0) => {}
        _ => bail!("could not make {failed} of {} RDMA devices", made + failed),
    }
    Ok(())
}

/// Deletes the device `name`, or the one on the network device `name`.
fn del(name: &str) -> Result<()> {
    let mut nldev = Nldev::open()?;
    let ports = nldev.ports()?;
    let by_name = ports.iter().find(|port| port.device == name);
    let port = by_name.or_else(|| on_netdev(&ports, name));
    let port = port
        .with_context(|| format!("no RDMA device {name}, and none on a network device {name}"))?;
    nldev
        .del_link(port.index)
        .map_err(|error| match nldev::errno(&error) {
            Some(Errno::INVAL) => error.context(format!(
                "{} is no software device: it cannot be deleted",
                port.device
            )),
            Some(Errno::PERM) => {
                error.context(format!("cannot delete {}: this needs root", port.device))
            }
            _ => error.context(format!("cannot delete {}", port.device)),
        })
}

fn print_list(json: bool) -> Result<()> {
    let ports = list()?;
    if json {
        return output::print_json(&ports);
    }
    let mut table = Table::new(&["DEVICE", "PORT", "NETDEV", "STATE"]);
    for port in &ports {
        table.row([
            port.device.clone(),
            port.port.to_string(),
            port.netdev.clone().unwrap_or_default(),
            port.state.to_string(),
        ]);
    }
    output::print(&table.render())
}

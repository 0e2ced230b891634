// SPDX-License-Identifier: GPL-2.0

//! `rdma-sock report`: one HTML file with the state of this machine, for a support case.
//!
//! ```text
//!   collect.rs    what is read from the machine
//!   samples.rs    counters over some seconds
//!   page.rs       sections with tables and plots
//!   html.rs       the page as a file without references
//!   plot.rs       plots as SVG
//!   redact.rs     placeholders in place of addresses
//! ```

mod collect;
mod html;
mod page;
mod plot;
mod redact;
mod samples;

use anyhow::Result;
use clap::Args;
use std::path::{
    Path,
    PathBuf, //
};

use crate::{
    interval::Interval,
    output,
    snapshot::Sources, //
};
use collect::Host;
use redact::Redactor;
use samples::Samples;

/// For this user only: a report has addresses and names of programs.
const MODE: u32 = 0o600;

/// Standard output in place of a file.
const STDOUT: &str = "-";

/// Where to, and with what.
#[derive(Args, Debug)]
pub(crate) struct ReportArgs {
    /// The file, which is replaced; - is standard output
    #[arg(default_value = "rdma-sock-report.html", value_name = "FILE.html")]
    file: PathBuf,

    /// Seconds over which the counters are followed
    #[arg(short, long, default_value = "10", value_name = "SECONDS")]
    seconds: Interval,

    /// Write placeholders in place of IP addresses, GIDs, MAC addresses, the host name and EIDs
    ///
    /// The same address gets the same placeholder everywhere in the report. Addresses of loopback
    /// stay, and so do names of programs and devices.
    #[arg(long)]
    redact: bool,
}

/// Makes the report and writes the file.
pub(crate) fn run(args: &ReportArgs) -> Result<()> {
    let sources = Sources::of_this_machine();
    let samples = Samples::take(&sources, args.seconds.duration())?;
    let host = Host::find(&sources);
    let mut redactor = Redactor::new(args.redact);
    let text = text_of(&sources, &host, &samples, &mut redactor)?;
    if args.file == Path::new(STDOUT) {
        return output::print(&text);
    }
    output::replace_file(&args.file, MODE, &text)?;
    output::note(&format!("the report is in {}", args.file.display()));
    Ok(())
}

/// The page as HTML.
fn text_of(
    sources: &Sources,
    host: &Host,
    samples: &Samples,
    redactor: &mut Redactor,
) -> Result<String> {
    redactor.hide(&host.name, "HOST");
    for (number, eid) in (1..).zip(&host.eids) {
        redactor.hide(eid, &format!("EID-{number}"));
    }
    Ok(collect::page(sources, host, samples)?.render(redactor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::sample;
    use std::{
        fs,
        os::unix::fs::PermissionsExt,
        time::Duration, //
    };

    /// Addresses of the samples, in each form that a file of the kernel has.
    const ADDRESSES: [&str; 9] = [
        "192.0.2.1",
        "192.0.2.2",
        "2001:db8",
        "c000:202",
        "c000:0201",
        "5054:ff",
        "5054:00ff",
        "52:54:00",
        "lab-host",
    ];

    fn report(redact: bool) -> String {
        let root = tempfile::tempdir().unwrap();
        let sources = sample::write(root.path());
        let sysctl = sources.proc.join("sys/net/rdma_sock");
        fs::create_dir_all(&sysctl).unwrap();
        fs::write(sysctl.join("sdp_accept"), "192.0.2.0/24 <script>\n").unwrap();
        let host = Host {
            name: "lab-host".into(),
            eids: vec!["LAB.ONE".into()],
            ..Host::find(&sources)
        };
        let samples = Samples::take(&sources, Duration::from_millis(1)).unwrap();
        text_of(&sources, &host, &samples, &mut Redactor::new(redact)).unwrap()
    }

    #[test]
    fn page_is_well_formed() {
        let text = report(false);
        let open = html::tests::open_elements(&text);
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn page_has_what_a_support_case_needs() {
        let text = report(false);
        for part in [
            "lab-host",
            "LAB.ONE",
            "rxe0",
            "192.0.2.1:40000",
            "peer did not indicate SMC",
            "curl",
            "smc_clnt_conns",
            "net.rdma_sock.sdp_accept",
            "<svg",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }

    #[test]
    fn text_of_the_machine_is_escaped() {
        let text = report(false);
        assert!(text.contains("&lt;script&gt;") && !text.contains("<script"));
    }

    #[test]
    fn page_refers_to_nothing_outside() {
        let text = report(false);
        for part in ["http:", "https:", "href", "src=", "url(", "@import", "//"] {
            assert!(!text.contains(part), "{part}");
        }
    }

    #[test]
    fn redacted_page_has_no_address_and_keeps_the_rest() {
        let plain = report(false);
        let text = report(true);
        for address in ADDRESSES.iter().chain(&["LAB.ONE"]) {
            assert!(!text.contains(address), "{address}");
        }
        assert_eq!(redact::addresses(&text), Vec::<String>::new());
        assert!(!redact::addresses(&plain).is_empty());
        for part in ["HOST", "EID-1", "IPv4-1:40000", "curl", "rxe0", "MAC-1"] {
            assert!(text.contains(part), "{part}");
        }
    }

    #[test]
    fn file_is_replaced_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.html");
        fs::write(&path, "old").unwrap();
        output::replace_file(&path, MODE, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0);
        let error = format!(
            "{:#}",
            output::replace_file(Path::new("/nowhere/x.html"), MODE, "").unwrap_err()
        );
        assert!(error.contains("/nowhere/x.html"), "{error}");
    }
}

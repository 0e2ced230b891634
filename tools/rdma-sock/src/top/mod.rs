// SPDX-License-Identifier: GPL-2.0

//! `rdma-sock top`: a live view of connections, links and devices.
//!
//! ```text
//!   model.rs      what is shown, from snapshots and the choices of the user
//!   rates.rs      rates from the counters of two snapshots
//!   history.rs    the last values of a rate
//!   sort.rs       the order of the connections
//!   keys.rs       what the keys do
//!   view.rs       draws the model
//!   picture.rs    a frame as text or SVG
//! ```

mod history;
mod keys;
mod model;
mod picture;
mod rates;
mod sort;
mod view;

use anstream::{
    AutoStream,
    ColorChoice, //
};
use anyhow::{
    ensure,
    Context,
    Result, //
};
use ratatui::{
    backend::TestBackend,
    crossterm::event::{
        self,
        Event, //
    },
    DefaultTerminal, Terminal,
};
use std::{
    io::{
        stdin,
        stdout,
        IsTerminal, //
    },
    thread,
    time::{
        Duration,
        Instant, //
    },
};

use crate::{
    accel,
    cli::TopArgs,
    output,
    snapshot::{
        Snapshot,
        Sources, //
    },
};
use keys::Flow;
use model::Model;
pub(crate) use sort::SortKey;
use view::Theme;

/// Takes snapshots, and knows when the last one was.
struct Sampler {
    sources: Sources,
    last: Option<Instant>,
}

impl Sampler {
    fn new() -> Self {
        Self {
            sources: Sources::of_this_machine(),
            last: None,
        }
    }

    /// Gives the model a new snapshot.
    fn sample(&mut self, model: &mut Model) -> Result<()> {
        let snapshot = Snapshot::take(&self.sources)?;
        let now = Instant::now();
        let elapsed = self.last.map(|last| now.duration_since(last));
        self.last = Some(now);
        let acceleration = accel::Report::collect().ok();
        model.acceleration = acceleration.map(|report| report.summary());
        model.update(snapshot, elapsed);
        Ok(())
    }
}

/// Runs the view, or prints frames of it.
pub(crate) fn run(args: &TopArgs) -> Result<()> {
    let filter = args.filter.clone().unwrap_or_default();
    let mut model = Model::new(args.sort, filter);
    model.reverse = args.reverse;
    if args.batch || args.svg {
        return print_frames(args, &mut model);
    }
    ensure!(
        stdin().is_terminal() && stdout().is_terminal(),
        "the live view needs a terminal: `rdma-sock top --batch` prints one frame as text"
    );
    let colours = AutoStream::choice(&stdout()) != ColorChoice::Never;
    let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
    let result = interact(&mut terminal, args, &mut model, Theme { colours });
    ratatui::restore();
    result
}

/// Prints frames, each an interval after the one before. A picture is of the last one.
fn print_frames(args: &TopArgs, model: &mut Model) -> Result<()> {
    let mut sampler = Sampler::new();
    sampler.sample(model)?;
    for number in 1..=args.count {
        thread::sleep(args.interval.duration());
        sampler.sample(model)?;
        if args.svg && number < args.count {
            continue;
        }
        let backend = TestBackend::new(args.width, view::height(model));
        let mut terminal = Terminal::new(backend)?;
        let theme = Theme { colours: args.svg };
        terminal.draw(|frame| view::draw(frame, model, theme))?;
        let buffer = terminal.backend().buffer();
        let text = match args.svg {
            true => picture::svg_of(buffer),
            false => picture::text_of(buffer),
        };
        if !output::print_while_read(&text)? {
            break;
        }
    }
    Ok(())
}

/// Draws until the user leaves.
fn interact(
    terminal: &mut DefaultTerminal,
    args: &TopArgs,
    model: &mut Model,
    theme: Theme,
) -> Result<()> {
    let interval = args.interval.duration();
    let mut sampler = Sampler::new();
    // The second snapshot comes soon, so that the first rates do.
    let mut due = Instant::now();
    let mut rounds = 0u32;
    loop {
        if Instant::now() >= due {
            if !model.paused {
                if let Err(error) = sampler.sample(model) {
                    model.error = Some(format!("{error:#}"));
                }
            }
            let soon = Duration::from_millis(200).min(interval);
            due = Instant::now() + if rounds == 0 { soon } else { interval };
            rounds = rounds.saturating_add(1);
        }
        terminal.draw(|frame| view::draw(frame, model, theme))?;
        let wait = due.saturating_duration_since(Instant::now());
        if !event::poll(wait)? {
            continue;
        }
        if let Event::Key(key) = event::read()? {
            if keys::handle(model, key) == Flow::Leave {
                return Ok(());
            }
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Draws the model: a header, curves of the traffic, connections, links, devices and keys.

use ratatui::{
    layout::{
        Constraint,
        Flex,
        Layout,
        Rect, //
    },
    style::{
        Color,
        Modifier,
        Style, //
    },
    text::{
        Line,
        Span, //
    },
    widgets::{
        Block,
        Cell,
        Clear,
        Paragraph,
        Row,
        Sparkline,
        Table,
        TableState,
        Wrap, //
    },
    Frame,
};

use super::{
    keys::HELP,
    model::{
        self,
        Model,
        Popup, //
    },
};
use crate::{
    explain,
    output::{
        bytes,
        counted, //
    },
};

/// Lines of the header and of the curves.
const HEADER: u16 = 2;
const CURVES: u16 = 5;
/// Most links and devices that are shown while there is no room for all.
const MOST_LINKS: u16 = 6;
const MOST_DEVICES: u16 = 4;
/// Lines of a table beside its rows: borders and headings.
const FRAME: u16 = 3;
/// Columns of the curve of a connection.
const CURVE: u16 = 8;

/// Colours, or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    /// The user wants colours.
    pub(super) colours: bool,
}

impl Theme {
    fn colour(self, colour: Color) -> Style {
        match self.colours {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }

    fn good(self) -> Style {
        self.colour(Color::Green)
    }

    fn warning(self) -> Style {
        self.colour(Color::Yellow)
    }

    fn bad(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    fn heading(self) -> Style {
        self.colour(Color::Cyan).add_modifier(Modifier::BOLD)
    }
}

/// Lines that the whole model needs.
pub(super) fn height(model: &Model) -> u16 {
    let lines = |count: usize| u16::try_from(count).unwrap_or(u16::MAX / 8).max(1);
    let connections = lines(model.visible().len());
    let links = lines(model.links.len());
    let devices = lines(model.snapshot.devices.len());
    HEADER + CURVES + 1 + connections + links + devices + 3 * FRAME
}

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, theme: Theme) {
    let lines = |count: usize, most: u16| {
        let count = u16::try_from(count).unwrap_or(u16::MAX).clamp(1, most);
        Constraint::Length(count + FRAME)
    };
    let [header, curves, connections, links, devices, footer] = Layout::vertical([
        Constraint::Length(HEADER),
        Constraint::Length(CURVES),
        Constraint::Min(FRAME + 1),
        lines(model.links.len(), MOST_LINKS),
        lines(model.snapshot.devices.len(), MOST_DEVICES),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(header_text(model, theme), header);
    draw_curves(frame, curves, model, theme);
    draw_connections(frame, connections, model, theme);
    draw_links(frame, links, model, theme);
    draw_devices(frame, devices, model, theme);
    frame.render_widget(footer_text(model, theme), footer);
    draw_popup(frame, model, theme);
}

fn header_text(model: &Model, theme: Theme) -> Paragraph<'static> {
    let snapshot = &model.snapshot;
    let module = match (&snapshot.module.version, snapshot.module.loaded) {
        (_, false) => Span::styled("not loaded: all sockets are plain TCP", theme.bad()),
        (Some(version), true) => Span::styled(format!("{version} loaded"), theme.good()),
        (None, true) => Span::styled("loaded", theme.good()),
    };
    let acceleration = model.acceleration.clone();
    let first = Line::from_iter([
        Span::styled("rdma-sock top", theme.heading()),
        Span::raw("   module "),
        module,
        Span::raw("   acceleration "),
        Span::raw(acceleration.unwrap_or_else(|| "shown to root only".into())),
    ]);
    let rdma = snapshot.count("smc") + snapshot.count("sdp");
    let mut second = vec![
        Span::raw("connections   "),
        Span::styled(format!("{rdma} over RDMA"), theme.good()),
        Span::raw(", "),
        Span::styled(
            format!("{} over TCP", snapshot.count("tcp")),
            theme.warning(),
        ),
        Span::raw(format!(
            ", {} in the handshake, {} listening",
            snapshot.count("pending"),
            snapshot.count("listen")
        )),
    ];
    if model.paused {
        second.push(Span::styled("   PAUSED", theme.warning()));
    }
    if let Some(error) = &model.error {
        second.push(Span::styled(format!("   {error}"), theme.bad()));
    }
    Paragraph::new(vec![first, Line::from(second)])
}

fn draw_curves(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: Theme) {
    let areas: [Rect; 3] = Layout::horizontal([Constraint::Fill(1); 3]).areas(area);
    let names = ["sent by RDMA", "received by RDMA", "over TCP"];
    let colours = [theme.good(), theme.good(), theme.warning()];
    for (((area, name), colour), history) in
        areas.into_iter().zip(names).zip(colours).zip(&model.totals)
    {
        let block = titled(format!(" {name}: {} ", rate(history.last())), theme);
        let columns = history.columns(usize::from(block.inner(area).width));
        let highest = columns.iter().copied().max().unwrap_or_default().max(1);
        let curve = Sparkline::default()
            .block(block)
            .data(columns)
            .max(highest)
            .style(colour);
        frame.render_widget(curve, area);
    }
}

fn draw_connections(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: Theme) {
    let visible = model.visible();
    let row = |row: &&model::Row| {
        let conn = &row.conn;
        let colour = match conn.mode.as_deref() {
            Some("smc" | "sdp") => theme.good(),
            Some("tcp") => theme.warning(),
            _ => theme.dim(),
        };
        Row::new([
            Cell::from(dash(conn.pid_text())),
            Cell::from(dash(conn.program().to_string())),
            Cell::from(conn.mode.clone().unwrap_or_default()).style(colour),
            Cell::from(address(&conn.local)),
            Cell::from(address(&conn.peer)),
            Cell::from(right(rate(row.sent))),
            Cell::from(right(rate(row.received))),
            Cell::from(right(rate(row.tcp))),
            Cell::from(row.history.curve(CURVE.into())).style(colour),
            Cell::from(conn.dev.clone().unwrap_or_default()),
            Cell::from(conn.lgr.clone().unwrap_or_default()),
            Cell::from(conn.why_tcp()).style(theme.warning()),
        ])
    };
    let widest = |text: fn(&model::Row) -> String, least: u16, most: u16| {
        let widths = visible.iter().map(|row| text(row).chars().count());
        let width = u16::try_from(widths.max().unwrap_or_default()).unwrap_or(most);
        Constraint::Length(width.clamp(least, most))
    };
    let widths = [
        widest(|row| row.conn.pid_text(), 5, 10),
        widest(|row| row.conn.program().into(), 7, 15),
        Constraint::Length(7),
        widest(|row| address(&row.conn.local), 5, 45),
        widest(|row| address(&row.conn.peer), 4, 45),
        Constraint::Length(11),
        Constraint::Length(11),
        Constraint::Length(11),
        Constraint::Length(CURVE),
        widest(|row| row.conn.dev.clone().unwrap_or_default(), 6, 15),
        widest(|row| row.conn.lgr.clone().unwrap_or_default(), 5, 10),
        Constraint::Fill(1),
    ];
    let shown = match model.filter.is_empty() {
        true => counted(visible.len(), "connection"),
        false => format!(
            "{} of {} with '{}'",
            visible.len(),
            counted(model.snapshot.connections.len(), "connection"),
            model.filter
        ),
    };
    let order = if model.reverse { ", reversed" } else { "" };
    let title = format!(" {shown}, by {}{order} ", model.sort.name());
    let table = Table::new(visible.iter().map(row), widths)
        .header(headings(
            [
                "PID",
                "PROGRAM",
                "MODE",
                "LOCAL",
                "PEER",
                "     SENT/s",
                " RECEIVED/s",
                "      TCP/s",
                "TRAFFIC",
                "DEVICE",
                "GROUP",
                "WHY TCP",
            ],
            theme,
        ))
        .block(titled(title, theme))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::default().with_selected(model.selected_place());
    frame.render_stateful_widget(table, area, &mut state);
}

fn draw_links(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: Theme) {
    let rows = model.links.iter().map(|row| {
        let link = &row.link;
        let text = |field: &Option<String>| Cell::from(field.clone().unwrap_or_default());
        let number = |field: Option<u64>| {
            Cell::from(field.map(|number| number.to_string()).unwrap_or_default())
        };
        let colour = match link.state.as_deref() {
            Some("active") => theme.good(),
            Some("dead") => theme.bad(),
            _ => theme.warning(),
        };
        Row::new([
            text(&link.lgr),
            number(link.link),
            text(&link.role),
            text(&link.state).style(colour),
            text(&link.kind),
            Cell::from(link.peer_text()),
            text(&link.dev),
            number(link.conns),
            number(link.rmbs),
            Cell::from(right(rate(row.written))),
        ])
    });
    let widths = [5, 4, 6, 8, 16, 39, 15, 5, 4, 11].map(Constraint::Length);
    let groups: std::collections::BTreeSet<_> =
        model.links.iter().map(|row| &row.link.lgr).collect();
    let title = format!(
        " {} in {} ",
        counted(model.links.len(), "link"),
        counted(groups.len(), "link group")
    );
    let table = Table::new(rows, widths)
        .header(headings(
            [
                "GROUP",
                "LINK",
                "ROLE",
                "STATE",
                "TYPE",
                "PEER",
                "DEVICE",
                "CONNS",
                "RMBS",
                "  WRITTEN/s",
            ],
            theme,
        ))
        .block(titled(title, theme));
    frame.render_widget(table, area);
}

fn draw_devices(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: Theme) {
    let rows = model.snapshot.devices.iter().map(|device| {
        let text = |field: &Option<String>| Cell::from(field.clone().unwrap_or_default());
        let usable = match device.usable {
            Some(true) => Cell::from("yes").style(theme.good()),
            Some(false) => Cell::from("no").style(theme.bad()),
            None => Cell::from("-"),
        };
        Row::new([
            text(&device.dev),
            Cell::from(device.port.unwrap_or_default().to_string()),
            text(&device.netdev),
            text(&device.state),
            usable,
            text(&device.gid),
        ])
    });
    let widths = [
        Constraint::Length(15),
        Constraint::Length(4),
        Constraint::Length(15),
        Constraint::Length(8),
        Constraint::Length(6),
        Constraint::Fill(1),
    ];
    let count = model.snapshot.devices.len();
    let title = format!(" {} of RDMA devices ", counted(count, "port"));
    let table = Table::new(rows, widths)
        .header(headings(
            ["DEVICE", "PORT", "NETDEV", "STATE", "USABLE", "GID"],
            theme,
        ))
        .block(titled(title, theme));
    frame.render_widget(table, area);
}

fn footer_text(model: &Model, theme: Theme) -> Line<'static> {
    if model.editing {
        return Line::from(vec![
            Span::styled("show only: ", theme.heading()),
            Span::raw(model.filter.clone()),
            Span::styled("█", theme.dim()),
            Span::styled("   Enter: done   Esc: show all", theme.dim()),
        ]);
    }
    let keys = "q leave  s sort  r reverse  / filter  ↑↓ select  Enter why TCP  p pause  ? keys";
    Line::styled(keys, theme.dim())
}

fn draw_popup(frame: &mut Frame<'_>, model: &Model, theme: Theme) {
    let (title, text) = match (model.popup, model.selected()) {
        (Popup::Help, _) => {
            let line = |(key, does): &(&str, &str)| format!("{key:>6}  {does}\n");
            (" Keys ", HELP.iter().map(line).collect())
        }
        (Popup::Explain, Some(conn)) => (" Why ", explain::text_of(conn, 76)),
        _ => return,
    };
    let text: String = text;
    let lines = u16::try_from(text.lines().count()).unwrap_or(u16::MAX);
    let [area] = Layout::horizontal([Constraint::Max(80)])
        .flex(Flex::Center)
        .areas(frame.area());
    let [area] = Layout::vertical([Constraint::Max(lines.saturating_add(2))])
        .flex(Flex::Center)
        .areas(area);
    frame.render_widget(Clear, area);
    let paragraph = Paragraph::new(text)
        .wrap(Wrap { trim: false })
        .block(titled(title.into(), theme));
    frame.render_widget(paragraph, area);
}

fn titled(title: String, theme: Theme) -> Block<'static> {
    Block::bordered()
        .border_style(theme.dim())
        .title(Span::styled(title, theme.heading()))
}

fn headings<const N: usize>(names: [&'static str; N], theme: Theme) -> Row<'static> {
    Row::new(names).style(theme.dim())
}

/// Writes a rate; nothing for none.
fn rate(rate: u64) -> String {
    match rate {
        0 => "0".into(),
        rate => bytes(rate),
    }
}

fn right(text: String) -> String {
    format!("{text:>11}")
}

fn dash(text: String) -> String {
    match text.is_empty() {
        true => "-".into(),
        false => text,
    }
}

/// Writes an address shorter than the module does, which prints all groups of IPv6.
fn address(text: &Option<String>) -> String {
    let text = text.clone().unwrap_or_default();
    match text.parse::<std::net::SocketAddr>() {
        Ok(address) => address.to_string(),
        Err(_) => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::{
        model::tests::model,
        picture::text_of, //
    };
    use ratatui::{
        backend::TestBackend,
        Terminal, //
    };

    const PLAIN: Theme = Theme { colours: false };

    fn drawn(model: &Model, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, model, PLAIN)).unwrap();
        text_of(terminal.backend().buffer())
    }

    #[test]
    fn frame_shows_programs_rates_and_reasons() {
        let model = model();
        let text = drawn(&model, 160, height(&model));
        let line = |part: &str| {
            let found = text.lines().find(|line| line.contains(part));
            found
                .unwrap_or_else(|| panic!("no '{part}' in\n{text}"))
                .to_string()
        };
        assert!(line("module").contains("0.1.0 loaded"));
        assert!(line("over RDMA,").contains("1 over RDMA, 1 over TCP"));
        assert!(line("sent by RDMA").contains("sent by RDMA: 1.0 MiB"));
        let curl = line("curl");
        for part in [
            "900",
            "smc",
            "192.0.2.1:40000",
            "1.0 MiB",
            "rxe0",
            "0x1",
            "█",
        ] {
            assert!(curl.contains(part), "{part} in {curl}");
        }
        let nginx = line("peer did not indicate SMC");
        for part in ["31", "nginx", "tcp", "[2001:db8::2]:80", "1.0 KiB"] {
            assert!(nginx.contains(part), "{part} in {nginx}");
        }
        assert!(line("::ffff:192.0.2.2").contains("2.0 MiB"));
        assert!(line("::ffff:192.0.2.1").contains("eth0"));
        assert!(line("3 connections").contains("by rate"));
    }

    #[test]
    fn small_terminals_are_drawn_without_a_panic() {
        let mut model = model();
        model.select(1);
        for popup in [Popup::None, Popup::Help, Popup::Explain] {
            model.popup = popup;
            for (width, height) in [(1, 1), (20, 5), (80, 24), (300, 3)] {
                drawn(&model, width, height);
            }
        }
    }

    #[test]
    fn popup_explains_the_selected_connection() {
        let mut model = model();
        model.select(1);
        model.select(1);
        model.popup = Popup::Explain;
        let text = drawn(&model, 100, 40);
        assert!(text.contains("nginx (PID 31)"), "{text}");
        assert!(text.contains("1. Load the module on the peer"), "{text}");
        model.popup = Popup::Help;
        assert!(drawn(&model, 100, 40).contains("sort by the next column"));
    }

    #[test]
    fn header_says_that_the_module_is_absent() {
        let model = Model::new(Default::default(), String::new());
        let text = drawn(&model, 120, height(&model));
        assert!(
            text.contains("not loaded: all sockets are plain TCP"),
            "{text}"
        );
        assert!(text.contains("0 connections"), "{text}");
    }

    #[test]
    fn colours_are_left_out_on_request() {
        let model = model();
        let painted = |colours| {
            let mut terminal = Terminal::new(TestBackend::new(120, 30)).unwrap();
            let theme = Theme { colours };
            terminal.draw(|frame| draw(frame, &model, theme)).unwrap();
            let cells = terminal.backend().buffer().content().iter();
            cells.filter(|cell| cell.fg != Color::Reset).count()
        };
        assert_eq!(painted(false), 0);
        assert_ne!(painted(true), 0);
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Plots: one file for each family of workloads, sizes or connections on x, a line for each
//! implementation.

use crate::{
    counters::Transport,
    table::{
        Results,
        Row, //
    },
    workload::Workload,
};
use anyhow::{
    anyhow,
    Result, //
};
use plotters::prelude::*;
use std::{
    collections::BTreeMap,
    fs,
    path::Path, //
};

const SIZE: (u32, u32) = (720, 420);

/// The same in every plot, and told apart also without seeing red and green.
fn color(transport: Transport) -> RGBColor {
    match transport {
        Transport::C => RGBColor(213, 94, 0),
        Transport::Ours => RGBColor(0, 114, 178),
        Transport::Sdp => RGBColor(230, 159, 0),
        Transport::Tcp => RGBColor(120, 120, 120),
        Transport::Raw => RGBColor(0, 158, 115),
        Transport::Unix => RGBColor(204, 121, 167),
    }
}

fn title(transport: Transport) -> &'static str {
    match transport {
        Transport::C => "C net/smc",
        Transport::Ours => "rdma_sock, SMC-R",
        Transport::Sdp => "rdma_sock, SDP",
        Transport::Tcp => "TCP",
        Transport::Raw => "raw verbs",
        Transport::Unix => "local sockets",
    }
}

/// Points of one implementation: x, median, smallest, largest.
type Line = Vec<(f64, f64, f64, f64)>;

/// A family of workloads in one topology with one MTU.
struct Plot {
    title: String,
    unit: String,
    lines: BTreeMap<Transport, Line>,
}

/// Splits `topology/mtu/workload`; `None` for rows of other metrics.
fn parts(row: &Row) -> Option<(&str, &str, Workload)> {
    let mut words = row.name.splitn(3, '/');
    let (topology, mtu, workload) = (words.next()?, words.next()?, words.next()?);
    Some((topology, mtu, workload.parse().ok()?))
}

fn plots(results: &Results) -> BTreeMap<String, Plot> {
    let mut plots: BTreeMap<String, Plot> = BTreeMap::new();
    for row in &results.rows {
        let Some((topology, mtu, workload)) = parts(row) else {
            continue;
        };
        let (family, x) = workload.axis();
        let name = format!("{topology}-{mtu}-{}", file_name(&family));
        let plot = plots.entry(name).or_insert_with(|| Plot {
            title: format!("{family} ({topology}, MTU {mtu})"),
            unit: row.unit.clone(),
            lines: BTreeMap::new(),
        });
        for transport in Transport::ALL {
            if let Some(figure) = row.figures.get(transport.name()) {
                let line = plot.lines.entry(transport).or_default();
                line.push((x, figure.median, figure.min, figure.max));
            }
        }
    }
    for plot in plots.values_mut() {
        for line in plot.lines.values_mut() {
            line.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
    }
    // One point is not a plot.
    plots.retain(|_, plot| plot.lines.values().any(|line| line.len() > 1));
    plots
}

/// Letters and digits, with single dashes for everything else.
fn file_name(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join("-").to_lowercase()
}

/// Writes the plots into a folder and returns their names.
pub fn write(results: &Results, folder: &Path) -> Result<Vec<String>> {
    fs::create_dir_all(folder)?;
    let mut names = Vec::new();
    for (name, plot) in plots(results) {
        let name = format!("{name}.svg");
        plot.draw(&folder.join(&name))
            .map_err(|error| anyhow!("{name}: {error}"))?;
        names.push(name);
    }
    Ok(names)
}

impl Plot {
    fn range(&self, of: impl Fn(&(f64, f64, f64, f64)) -> (f64, f64)) -> (f64, f64) {
        let mut range = (f64::INFINITY, 0.0f64);
        for point in self.lines.values().flatten() {
            let (low, high) = of(point);
            range = (range.0.min(low), range.1.max(high));
        }
        // Logarithms of nothing are not drawn.
        (range.0.max(1e-3), range.1.max(2e-3))
    }

    fn draw(&self, file: &Path) -> Result<(), Box<dyn std::error::Error + '_>> {
        let (x_low, x_high) = self.range(|point| (point.0, point.0));
        let (y_low, y_high) = self.range(|point| (point.2, point.3));
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            root.fill(&WHITE)?;
            let mut chart = ChartBuilder::on(&root)
                .caption(&self.title, ("sans-serif", 18))
                .margin(12)
                .x_label_area_size(36)
                .y_label_area_size(70)
                .build_cartesian_2d(
                    (x_low * 0.8..x_high * 1.25).log_scale(),
                    (y_low * 0.7..y_high * 1.4).log_scale(),
                )?;
            chart
                .configure_mesh()
                .y_desc(&self.unit)
                .x_label_formatter(&|x| short(*x))
                .y_label_formatter(&|y| short(*y))
                .light_line_style(RGBColor(235, 235, 235))
                .draw()?;
            for (transport, line) in &self.lines {
                let color = color(*transport);
                chart
                    .draw_series(LineSeries::new(
                        line.iter().map(|point| (point.0, point.1)),
                        color.stroke_width(2),
                    ))?
                    .label(title(*transport))
                    .legend(move |(x, y)| {
                        PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2))
                    });
                chart.draw_series(line.iter().flat_map(|point| {
                    let bar = [(point.0, point.2.max(y_low)), (point.0, point.3)];
                    [
                        PathElement::new(bar, color.stroke_width(1)).into_dyn(),
                        Circle::new((point.0, point.1), 3, color.filled()).into_dyn(),
                    ]
                }))?;
            }
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperLeft)
                .background_style(WHITE.mix(0.8))
                .border_style(RGBColor(200, 200, 200))
                .draw()?;
            root.present()?;
        }
        let licence = "<!-- SPDX-License-Identifier: GPL-2.0 -->\n";
        fs::write(file, licence.to_string() + &svg)?;
        Ok(())
    }
}

/// A number with a unit's prefix, as sizes have them.
fn short(value: f64) -> String {
    match value {
        v if v >= 1048576.0 => format!("{:.0}M", v / 1048576.0),
        v if v >= 1024.0 => format!("{:.0}k", v / 1024.0),
        v if v >= 10.0 => format!("{v:.0}"),
        v => format!("{v:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Summary;

    fn row(workload: &str, value: f64) -> Row {
        Row {
            name: format!("namespaces/1500/{workload}"),
            unit: "us".into(),
            lower_is_better: true,
            figures: [("ours".to_string(), Summary::of(&[value]).unwrap())].into(),
            ratios: BTreeMap::new(),
            targets: Vec::new(),
        }
    }

    #[test]
    fn families_of_points_are_drawn() {
        let results = Results {
            rows: vec![
                row("pingpong:64", 5.0),
                row("pingpong:1", 4.0),
                row("first", 9.0),
                row("pingpong:64 p99", 9.0),
            ],
            ..Results::default()
        };
        let plots = plots(&results);
        let names: Vec<&String> = plots.keys().collect();
        assert_eq!(names, ["namespaces-1500-ping-pong-by-message-size"]);
        let line = &plots[names[0]].lines[&Transport::Ours];
        assert_eq!(line[0], (1.0, 4.0, 4.0, 4.0));
        assert_eq!(line.len(), 2);
    }

    #[test]
    fn labels_are_short() {
        assert_eq!(short(65536.0), "64k");
        assert_eq!(short(2097152.0), "2M");
        assert_eq!(short(0.5), "0.5");
        assert_eq!(file_name("Bulk, one way"), "bulk-one-way");
    }
}

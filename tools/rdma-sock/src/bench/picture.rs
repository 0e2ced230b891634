// SPDX-License-Identifier: GPL-2.0

//! The results as an SVG picture.

use anyhow::{
    anyhow,
    Result, //
};
use plotters::prelude::*;

use super::outcome::{
    gigabits,
    microseconds,
    BenchReport, //
};

const SIZE: (u32, u32) = (720, 260);

/// As in the plots of the project's own benchmark.
const COLOURS: [(&str, RGBColor); 3] = [
    ("tcp", RGBColor(120, 120, 120)),
    ("smc", RGBColor(0, 114, 178)),
    ("sdp", RGBColor(230, 159, 0)),
];

const LICENCE: &str = "<!-- SPDX-License-Identifier: GPL-2.0 -->\n";

/// Bars under a title.
type Panel<'a> = (&'a str, Vec<(&'static str, f64)>, fn(f64) -> String);

/// Draws latency and throughput.
pub(super) fn svg_of(report: &BenchReport) -> Result<String> {
    let mut svg = String::new();
    draw(&mut svg, report).map_err(|error| anyhow!("cannot draw: {error}"))?;
    Ok(format!("{LICENCE}{svg}"))
}

fn draw(svg: &mut String, report: &BenchReport) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    // The backend escapes text.
    let root = root.titled(&report.title(), ("sans-serif", 14))?;
    let panels: [Panel<'_>; 2] = [
        ("latency, median", report.latencies(), microseconds),
        ("throughput", report.throughputs(), gigabits),
    ];
    for (area, (title, values, unit)) in root.split_evenly((1, 2)).iter().zip(panels) {
        let largest = values.iter().map(|(_, value)| *value).fold(0.0, f64::max);
        let largest = if largest > 0.0 { largest } else { 1.0 };
        let mut chart = ChartBuilder::on(area)
            .caption(title, ("sans-serif", 14))
            .margin(10)
            .build_cartesian_2d(0.0..3.0, 0.0..largest * 1.2)?;
        for (place, (name, value)) in values.iter().enumerate() {
            let left = place as f64;
            let colour = COLOURS.iter().find(|(known, _)| known == name);
            let colour = colour.map_or(BLACK, |(_, colour)| *colour);
            let corners = [(left + 0.15, 0.0), (left + 0.85, *value)];
            chart.draw_series([Rectangle::new(corners, colour.filled())])?;
            let label = format!("{name} {}", unit(*value));
            let above = (left + 0.15, value + largest * 0.08);
            chart.draw_series([Text::new(label, above, ("sans-serif", 12))])?;
        }
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{
        outcome::tests::report,
        socket::Transport, //
    };

    #[test]
    fn picture_has_a_bar_for_each_measured_transport() {
        let svg = svg_of(&report()).unwrap();
        assert!(svg.starts_with(LICENCE));
        assert!(
            svg.contains("tcp 519.0 us") && svg.contains("smc 10.000 Gbit/s"),
            "{svg}"
        );
        assert!(!svg.contains("sdp "));
    }

    #[test]
    fn name_of_a_host_is_escaped() {
        let address = "10.9.0.2:7470".parse().unwrap();
        let outcomes: Vec<(Transport, _)> = Vec::new();
        let report = BenchReport::new("<a&b>", address, 1, outcomes);
        let svg = svg_of(&report).unwrap();
        assert!(svg.contains("&lt;a&amp;b&gt;"), "{svg}");
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Plots as SVG, to be put into a page.

use anyhow::{
    anyhow,
    Result, //
};
use plotters::prelude::*;

const SIZE: (u32, u32) = (720, 260);

/// Told apart also without seeing red and green.
const COLOURS: [RGBColor; 4] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(120, 120, 120),
    RGBColor(204, 121, 167),
];

/// What inline SVG does not need, and looks like a reference.
const NAMESPACE: &str = " xmlns=\"http://www.w3.org/2000/svg\"";

/// A curve.
pub(super) struct Curve {
    /// Its name.
    pub(super) name: &'static str,
    /// Seconds and values.
    pub(super) points: Vec<(f64, f64)>,
}

/// Draws curves over seconds. Labels are constants of this program: plots have no text of the machine.
pub(super) fn draw(title: &'static str, unit: &'static str, curves: &[Curve]) -> Result<String> {
    let mut svg = String::new();
    draw_into(&mut svg, title, unit, curves).map_err(|error| anyhow!("plot '{title}': {error}"))?;
    Ok(svg.replace(NAMESPACE, ""))
}

fn draw_into(
    svg: &mut String,
    title: &str,
    unit: &str,
    curves: &[Curve],
) -> Result<(), Box<dyn std::error::Error>> {
    let largest = |part: fn(&(f64, f64)) -> f64| {
        let values = curves.iter().flat_map(|curve| &curve.points).map(part);
        values.fold(0.0, f64::max)
    };
    // An axis needs a length.
    let length = |value: f64| if value > 0.0 { value } else { 1.0 };
    let width = length(largest(|(x, _)| *x));
    let height = length(largest(|(_, y)| *y)) * 1.1;
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(format!("{title} ({unit})"), ("sans-serif", 15))
        .margin(8)
        .x_label_area_size(28)
        .y_label_area_size(80)
        .build_cartesian_2d(0.0..width, 0.0..height)?;
    chart
        .configure_mesh()
        .x_desc("seconds")
        .y_label_formatter(&|value| short(*value))
        .light_line_style(WHITE)
        .draw()?;
    for (curve, colour) in curves.iter().zip(COLOURS.iter().cycle()) {
        let style = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(curve.points.iter().copied(), style))?
            .label(curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(RGBColor(200, 200, 200))
        .draw()?;
    root.present()?;
    Ok(())
}

/// A number with a prefix of its unit.
fn short(value: f64) -> String {
    const PREFIXES: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match PREFIXES.iter().find(|(size, _)| value >= *size) {
        Some((size, prefix)) => format!("{:.1}{prefix}", value / size),
        None if value >= 10.0 || value == 0.0 => format!("{value:.0}"),
        None => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::html::tests::open_elements;

    fn curve(points: &[(f64, f64)]) -> Curve {
        Curve {
            name: "sent",
            points: points.to_vec(),
        }
    }

    #[test]
    fn plot_is_well_formed_and_refers_to_nothing() {
        let full = draw("Payload", "B/s", &[curve(&[(0.0, 1.0), (1.0, 5e6)])]).unwrap();
        let empty = draw("Payload", "B/s", &[curve(&[])]).unwrap();
        for svg in [full, empty] {
            assert!(open_elements(&format!("<!DOCTYPE html>{svg}")).is_empty());
            assert!(svg.starts_with("<svg ") && svg.contains("Payload (B/s)"));
            assert!(!svg.contains("http"), "{svg}");
        }
    }

    #[test]
    fn labels_are_short() {
        assert_eq!(short(0.0), "0");
        assert_eq!(short(2.5), "2.5");
        assert_eq!(short(1500.0), "1.5k");
        assert_eq!(short(2e9), "2.0G");
    }
}

//! Charts as SVG, drawn on the server.
//!
//! Fills are marks, not colours: the style sheet gives each its colour, in light and dark.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

use plotters::chart::ChartBuilder;
use plotters::coord::ranged1d::{IntoSegmentedCoord as _, SegmentValue};
use plotters::drawing::{DrawingAreaErrorKind, IntoDrawingArea as _};
use plotters::element::Rectangle;
use plotters::style::{Color as _, IntoFont as _, RGBColor};
use plotters_svg::SVGBackend;

use crate::domain::clock::Timestamp;
use crate::http::error::Problem;

/// Units of the drawing, which grows with the page.
const SIZE: (u32, u32) = (960, 160);

/// Marks of the series, by place: `.plot [fill="#000001"]` in the style sheet.
const MARKS: [RGBColor; 4] =
    [RGBColor(0, 0, 1), RGBColor(0, 0, 2), RGBColor(0, 0, 3), RGBColor(0, 0, 4)];

/// Most columns that each have a label.
const LABELLED: usize = 12;

/// Marks by meaning, for the columns of a chart.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tone {
    Good,
    Bad,
    Wait,
    Plain,
}

/// A part of each column, with the word for what it counts.
pub(super) type Series = (Tone, &'static str);

/// A place on the axis, with the columns that stand on each other there.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) label: String,
    pub(super) parts: Vec<u64>,
}

impl Column {
    fn total(&self) -> u64 {
        self.parts.iter().sum()
    }
}

/// Draws columns, whose parts are these from the ground up. Each column says what it counts to those
/// who point at it.
pub(super) fn columns(columns: &[Column], series: &[Series]) -> Result<String, Problem> {
    draw(columns, series).map_err(|error| Problem::internal(std::io::Error::other(error)))
}

fn draw(
    columns: &[Column],
    series: &[Series],
) -> Result<String, DrawingAreaErrorKind<std::io::Error>> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    let highest = columns.iter().map(Column::total).max();
    let width = i32::try_from(columns.len()).unwrap_or(i32::MAX).max(1);
    let mut chart =
        ChartBuilder::on(&area)
            .margin(6)
            .x_label_area_size(22)
            .y_label_area_size(52)
            .build_cartesian_2d((0..width - 1).into_segmented(), 0..highest.unwrap_or(0).max(4))?;
    let label = |place: &SegmentValue<i32>| {
        let SegmentValue::CenterOf(place) = place else { return String::new() };
        let place = usize::try_from(*place).unwrap_or(0);
        columns.get(place).map(|column| column.label.clone()).unwrap_or_default()
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(if columns.len() > LABELLED { 9 } else { columns.len().max(1) })
        .x_label_formatter(&label)
        .y_labels(4)
        .label_style(("sans-serif", 12).into_font())
        .draw()?;
    for (place, (tone, _)) in series.iter().enumerate() {
        let mark = MARKS.get(*tone as usize).copied().unwrap_or(RGBColor(0, 0, 4)).filled();
        let bars = columns.iter().zip(0_i32..).filter_map(|(column, at)| {
            let ground: u64 = column.parts.iter().take(place).sum();
            let height = column.parts.get(place).copied().filter(|height| *height > 0)?;
            let corners = [(at, ground), (at + 1, ground + height)];
            let corners = corners.map(|(at, height)| (SegmentValue::Exact(at), height));
            let mut bar = Rectangle::new(corners, mark);
            bar.set_margin(0, 0, 1, 1);
            Some(bar)
        });
        chart.draw_series(bars)?;
    }
    let (across, down) = chart.plotting_area().get_pixel_range();
    drop(chart);
    area.present()?;
    drop(area);
    Ok(with_titles(&svg, columns, series, &across, &down))
}

/// Lays an invisible field over each column that counts something. Its title, which browsers show
/// under the pointer, says what it counts.
fn with_titles(
    svg: &str,
    columns: &[Column],
    series: &[Series],
    across: &Range<i32>,
    down: &Range<i32>,
) -> String {
    let Some(drawing) = svg.trim_end().strip_suffix("</svg>") else { return svg.to_owned() };
    let mut whole = drawing.to_owned();
    let (width, height) = (f64::from(across.end - across.start), down.end - down.start);
    let each = width / f64::from(u32::try_from(columns.len()).unwrap_or(u32::MAX).max(1));
    for (column, at) in columns.iter().zip(0_u32..).filter(|(column, _)| column.total() > 0) {
        let left = f64::from(across.start) + each * f64::from(at);
        let counts = column.parts.iter().zip(series).filter(|(count, _)| **count > 0);
        let counts = counts.map(|(count, (_, word))| format!("{count} {word}"));
        let words = counts.collect::<Vec<_>>().join(", ");
        let label = column.label.replace('&', "&amp;").replace('<', "&lt;");
        let _written = write!(
            whole,
            "<rect fill=\"none\" pointer-events=\"all\" x=\"{left:.1}\" y=\"{}\" width=\"{each:.1}\" \
             height=\"{height}\"><title>{label}: {words}</title></rect>",
            down.start
        );
    }
    whole + "</svg>\n"
}

/// Columns of a chart over time.
const OVER_TIME: u32 = 48;

/// Returns the columns of this time, of so many parts, all empty.
pub(super) fn empty_columns(begin: Timestamp, lasts: Duration, parts: usize) -> Vec<Column> {
    let column = |place: u32| {
        let began = begin.plus(lasts.mul_f64(f64::from(place) / f64::from(OVER_TIME))).to_string();
        // Beyond a day, several columns begin on one: the day alone would not tell them apart.
        let from = if lasts.as_secs() > 86_400 { 5 } else { 11 };
        let label = began.get(from..16).unwrap_or_default().replace('T', " ");
        Column { label, parts: vec![0; parts] }
    };
    (0..OVER_TIME).map(column).collect()
}

/// Returns the number of the column of a moment, in Unix milliseconds.
pub(super) fn place(at: i64, begin: i64, lasts: Duration) -> usize {
    let step = i64::try_from(lasts.as_millis() / u128::from(OVER_TIME)).unwrap_or(i64::MAX).max(1);
    let last = usize::try_from(OVER_TIME - 1).unwrap_or(usize::MAX);
    usize::try_from((at - begin).div_euclid(step)).unwrap_or(0).min(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_a_rectangle_of_its_mark_and_labels_are_text() {
        let column =
            |label: &str, parts: &[u64]| Column { label: label.into(), parts: parts.into() };
        let drawn = columns(
            &[column("<10:00>", &[3, 1]), column("10:01", &[0, 2]), column("10:02", &[0, 0])],
            &[(Tone::Good, "accepted"), (Tone::Bad, "refused")],
        );
        let drawn = drawn.unwrap();
        assert_eq!(drawn.matches(r##"fill="#000001""##).count(), 1);
        assert_eq!(drawn.matches(r##"fill="#000002""##).count(), 2);
        assert!(drawn.contains("&lt;10:00&gt;") && !drawn.contains("<10:00>"));
        let titles: Vec<&str> =
            drawn.split("<title>").skip(1).map(|rest| rest.split('<').next().unwrap()).collect();
        assert_eq!(titles, ["&lt;10:00>: 3 accepted, 1 refused", "10:01: 2 refused"]);
        assert!(!drawn.contains("style="), "the policy of pages forbids it");
    }

    #[test]
    fn nothing_is_drawn_as_an_empty_chart() {
        assert!(columns(&[], &[(Tone::Plain, "messages")]).unwrap().starts_with("<svg"));
    }
}

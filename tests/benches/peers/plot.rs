//! The pictures, readable on light and dark pages.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::cell::{COOPERATIVE, Family, RANGE, STICKY};
use crate::page::significant;
use crate::results::{Measured, Outcome, Results};
use crate::side::{CAP, Side, Span};

/// The colour of axes.
const INK: RGBColor = RGBColor(0x6e, 0x77, 0x81);

/// Black text is for pages that are light.
const STYLE: &str =
    r##"<style>@media(prefers-color-scheme:dark){text[fill="#000000"]{fill:#c9d1d9}}</style>"##;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn colour(side: Side) -> RGBColor {
    match side {
        Side::Assignor => RGBColor(0x2d, 0xa4, 0x4e),
        Side::Java => RGBColor(0xd2, 0x5c, 0x3d),
        Side::FranzGo => RGBColor(0x3d, 0x8b, 0xd2),
    }
}

/// Time and memory from a thousand partitions to a million, one column for each strategy.
pub(crate) fn growth(results: &Results, path: &Path) -> anyhow::Result<()> {
    draw(path, (1_080, 640), |area| {
        let columns = [
            (STICKY, "sticky, first plan"),
            (COOPERATIVE, "cooperative-sticky, one joins"),
            (RANGE, "range"),
        ];
        let panels = area.split_evenly((2, columns.len()));
        let of = |strategy: &str| -> Vec<&Measured> {
            results.of(&[Family::Growth]).filter(|m| m.cell.strategy == strategy).collect()
        };
        let time = |o: &Outcome| o.at_least(Span::Plan).map(|nanoseconds| nanoseconds / 1e6);
        let memory = |o: &Outcome| o.once.map(|once| once.peak_resident as f64 / 1e6);
        for (column, (strategy, title)) in columns.into_iter().enumerate() {
            let panel = |row: usize| panels.get(row * columns.len() + column).context("a panel");
            lines(panel(0)?, &format!("{title}: ms"), 0.01..CAP.as_secs_f64() * 1e3, &of(strategy), time)?;
            lines(panel(1)?, &format!("{title}: process, MB"), 1.0..10_000.0, &of(strategy), memory)?;
        }
        Ok(())
    })
}

/// One panel: a line for each side, over the number of partitions, both axes logarithmic.
fn lines(
    area: &Area<'_>,
    title: &str,
    range: std::ops::Range<f64>,
    cells: &[&Measured],
    value: impl Fn(&Outcome) -> Option<f64>,
) -> anyhow::Result<()> {
    let top = range.end;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 15).into_font())
        .margin(10)
        .x_label_area_size(34)
        .y_label_area_size(54)
        .build_cartesian_2d((800.0..1_250_000.0f64).log_scale(), range.log_scale())
        .map_err(drawing)?;
    chart
        .configure_mesh()
        .axis_style(INK)
        .bold_line_style(INK.mix(0.25))
        .light_line_style(TRANSPARENT)
        .x_desc("partitions")
        .x_label_formatter(&|x| short(*x))
        .y_label_formatter(&|y| short(*y))
        .draw()
        .map_err(drawing)?;
    for side in [Side::Java, Side::FranzGo, Side::Assignor] {
        let point = |m: &&Measured| Some((m.cell.all_partitions() as f64, value(m.side(side)?)?));
        let points: Vec<(f64, f64)> = cells.iter().filter_map(point).collect();
        if points.is_empty() {
            continue;
        }
        let style = colour(side).stroke_width(2);
        chart.draw_series(LineSeries::new(points.iter().copied(), style)).map_err(drawing)?;
        let dots = points.iter().map(|&at| Circle::new(at, 3, colour(side).filled()));
        chart.draw_series(dots).map_err(drawing)?;
        let (name, left) = match side {
            Side::Assignor => ("Assignor", 8),
            Side::Java => ("Java", 80),
            Side::FranzGo => ("franz-go", 124),
        };
        let font = ("sans-serif", 13).into_font().color(&colour(side));
        let label = EmptyElement::at((800.0, top)) + Text::new(name, (left, 4), font);
        chart.draw_series(std::iter::once(label)).map_err(drawing)?;
    }
    Ok(())
}

/// How many times faster each group is planned than by its peer, in ascending order.
pub(crate) fn ratios(results: &Results, path: &Path) -> anyhow::Result<()> {
    let kinds = [
        ("sticky strategies / Java", Side::Java, false, colour(Side::Java)),
        ("range / Java", Side::Java, true, RGBColor(0x9a, 0x6f, 0xd0)),
        ("sticky strategies / franz-go", Side::FranzGo, false, colour(Side::FranzGo)),
    ];
    let ratios: Vec<Vec<f64>> = kinds
        .iter()
        .map(|&(_, peer, range, _)| {
            let cells = results.cells.iter().filter(|m| (m.cell.strategy == RANGE) == range);
            let mut ratios: Vec<f64> = cells.filter_map(|m| m.ratio(peer, Span::Plan)).collect();
            ratios.sort_by(f64::total_cmp);
            ratios
        })
        .collect();
    let count: usize = ratios.iter().map(Vec::len).sum();
    let most = ratios.iter().flatten().copied().fold(10.0, f64::max);
    let least = ratios.iter().flatten().copied().fold(1.0, f64::min);
    draw(path, (1_080, 380), |area| {
        let gap = 2.0;
        let width = count as f64 + gap * kinds.len() as f64;
        let mut chart = ChartBuilder::on(area)
            .caption(
                "Times faster than the peer, each group a dot, decoded group to plan",
                ("sans-serif", 15),
            )
            .margin(10)
            .y_label_area_size(54)
            .x_label_area_size(20)
            .build_cartesian_2d(0.0..width, (least / 1.5..most * 2.5).log_scale())
            .map_err(drawing)?;
        chart
            .configure_mesh()
            .axis_style(INK)
            .disable_x_mesh()
            .x_labels(0)
            .bold_line_style(INK.mix(0.25))
            .light_line_style(TRANSPARENT)
            .y_label_formatter(&|y| short(*y))
            .draw()
            .map_err(drawing)?;
        chart
            .draw_series(LineSeries::new([(0.0, 1.0), (width, 1.0)], INK.stroke_width(2)))
            .map_err(drawing)?;
        let mut x = gap / 2.0;
        for ((name, .., colour), ratios) in kinds.iter().zip(&ratios) {
            let from = x;
            let dots = ratios.iter().map(|&ratio| {
                x += 1.0;
                Circle::new((x - 0.5, ratio), 4, colour.filled())
            });
            chart.draw_series(dots).map_err(drawing)?;
            if let Some(mean) = crate::results::geometric_mean(ratios) {
                chart
                    .draw_series(LineSeries::new([(from, mean), (x, mean)], colour.stroke_width(1)))
                    .map_err(drawing)?;
                let text = format!("{name}: {} on geometric mean", significant(mean));
                let font = ("sans-serif", 13).into_font().color(colour);
                let label = EmptyElement::at((from, most * 1.9)) + Text::new(text, (0, 0), font);
                chart.draw_series(std::iter::once(label)).map_err(drawing)?;
            }
            x += gap;
        }
        Ok(())
    })
}

/// Draws on nothing, so that the page shows through.
fn draw(
    path: &Path,
    size: (u32, u32),
    picture: impl FnOnce(&Area<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        picture(&area)?;
        area.present().map_err(drawing)?;
    }
    let (head, rest) = svg.split_once('>').context("a picture without content")?;
    Ok(std::fs::write(path, format!("{head}>{STYLE}{rest}"))?)
}

/// 0.1, 10, 1k, 1M.
fn short(number: f64) -> String {
    match number {
        n if n >= 1e6 => format!("{}M", n / 1e6),
        n if n >= 1e3 => format!("{}k", n / 1e3),
        n => format!("{n}"),
    }
}

fn drawing(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("drawing: {error}")
}

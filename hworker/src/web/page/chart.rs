//! Charts as SVG: axis and marks by per cent, the lines in a nested SVG that stretches. Each has a title, words, and a table.

use std::fmt::Write;

use maud::{Markup, html};

use super::figures::{clock, date, full, short};
use super::text::{begin, cut, plain};
use crate::deploys::DeployMark;

/// How the values of a series are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Area,
    Dash,
    Bars,
}

/// One of the things that a chart shows.
pub(super) struct Series<'a> {
    pub(super) name: &'a str,
    /// The state of whose colour it is.
    pub(super) class: &'static str,
    pub(super) shape: Shape,
    /// None where there is nothing to measure: that is a gap, and no 0.
    pub(super) values: Vec<Option<f64>>,
}

/// What a chart shows.
pub(super) struct Plot<'a> {
    /// Of its elements; each on a page has another.
    pub(super) id: &'a str,
    pub(super) title: &'a str,
    /// What is counted, as `jobs a minute`.
    pub(super) unit: &'a str,
    /// What is to be seen, for those who do not see it.
    pub(super) says: String,
    /// When each point begins, in ms since 1970.
    pub(super) begins: &'a [u64],
    pub(super) series: Vec<Series<'a>>,
    /// Deploys within the time of the chart, the first one first.
    pub(super) marks: &'a [DeployMark],
}

/// So many rows has the table beside a chart.
const ROWS: usize = 12;

/// At most so many steps from label to label has the axis of the time.
const LABELS: u64 = 6;

/// A chart in a panel.
pub(super) fn plot(plot: &Plot<'_>) -> Markup {
    let points = plot.begins.len();
    let values = plot.series.iter().flat_map(|series| &series.values);
    let most = values.flatten().copied().fold(0.0, f64::max);
    let top = top(most);
    html! {
        figure.panel.chart data-live={ "chart-" (plot.id) } {
            figcaption {
                h2 { (plot.title) }
                span.faint { (plot.unit) }
                @if plot.series.len() > 1 {
                    span.key.push {
                        @for series in &plot.series { span class=(key(series)) { (series.name) } }
                    }
                }
            }
            svg.plot role="img" aria-labelledby={ (plot.id) "-t " (plot.id) "-d" } {
                title id={ (plot.id) "-t" } { (plot.title) ", " (plot.unit) }
                desc id={ (plot.id) "-d" } { (plot.says) }
                @for (part, label) in [(0, top), (50, top / 2.0)] {
                    line.grid x2="100%" y1={ (part) "%" } y2={ (part) "%" } {}
                    text x="-8" y={ (part) "%" } dy=".33em" text-anchor="end" { (short(label)) }
                }
                line.base x2="100%" y1="100%" y2="100%" {}
                text x="-8" y="100%" dy=".33em" text-anchor="end" { "0" }
                @for (x, at) in labels(plot.begins) {
                    text x={ (format!("{x:.2}")) "%" } y="100%" dy="1.5em" text-anchor="middle" data-at=(at) { (label(plot.begins, at)) }
                }
                @for (x, mark) in places(plot) { (marked(x, mark)) }
                @if points > 0 {
                    @for series in &plot.series { (drawn(series, points, top)) }
                }
            }
            (table(plot))
        }
    }
}

/// Where the marks stand, in per cent.
fn places<'a>(plot: &Plot<'a>) -> Vec<(f64, &'a DeployMark)> {
    let [first, .., last] = *plot.begins else { return Vec::new() };
    let steps = plot.begins.len() - 1;
    let step = (last - first) as f64 / steps as f64;
    let place = |mark: &DeployMark| {
        let at = plot.begins.partition_point(|begin| *begin <= mark.at).checked_sub(1)?;
        let within = (mark.at - plot.begins[at]) as f64 / step.max(1.0);
        Some(((at as f64 + within.min(1.0)) * 100.0 / steps as f64).min(100.0))
    };
    plot.marks.iter().filter_map(|mark| Some((place(mark)?, mark))).collect()
}

/// So many characters of a mark are above its line.
const MARK: usize = 12;

/// A line with the text of its mark.
fn marked(x: f64, mark: &DeployMark) -> Markup {
    let x = format!("{x:.2}%");
    let (short, is_whole) = begin(&mark.text, MARK);
    let says = format!("{}, {}, by {}", plain(&mark.text), full(mark.at), plain(&mark.who));
    html! {
        line.mark x1=(x) x2=(x) y2="100%" { title { (says) } }
        text x=(x) y="0" dy="-.4em" text-anchor="middle" { (plain(short)) @if !is_whole { "…" } title { (says) } }
    }
}

fn key(series: &Series<'_>) -> String {
    let line = if series.shape == Shape::Dash { " line dash" } else { "" };
    format!("{}{line}", series.class)
}

fn drawn(series: &Series<'_>, points: usize, top: f64) -> Markup {
    let height = |value: &Option<f64>| value.map(|value| (value / top * 100.0).clamp(0.0, 100.0));
    let heights: Vec<Option<f64>> = series.values.iter().map(height).collect();
    let is_bars = series.shape == Shape::Bars;
    let width = if is_bars { points } else { points.saturating_sub(1).max(1) };
    html! {
        svg viewBox={ "0 0 " (width) " 100" } preserveAspectRatio="none" overflow="visible" {
            g class=(series.class) {
                @match series.shape {
                    Shape::Bars => path.bars d=(bars(heights.iter().map(|height| height.unwrap_or_default()))) {},
                    Shape::Dash => path.edge.dash d=(edge(&heights)) {},
                    Shape::Area => {
                        path.area d=(area(&heights)) {}
                        path.edge d=(edge(&heights)) {}
                    }
                }
            }
        }
    }
}

/// The points of a line, in parts between its gaps. One point is a line too, or it would not be seen.
fn parts(heights: &[Option<f64>]) -> Vec<Vec<(f64, f64)>> {
    let points = heights.iter().enumerate();
    let points: Vec<_> =
        points.map(|(x, height)| height.map(|height| (x as f64, height))).collect();
    let mut parts: Vec<Vec<_>> = points
        .split(Option::is_none)
        .map(|part| part.iter().copied().flatten().collect())
        .collect();
    parts.retain(|part| !part.is_empty());
    let last = heights.len().saturating_sub(1) as f64;
    for part in &mut parts {
        if let [(x, height)] = part[..] {
            let half = if last == 0.0 { 1.0 } else { 0.3 };
            *part = vec![((x - half).max(0.0), height), ((x + half).min(last.max(1.0)), height)];
        }
    }
    parts
}

fn edge(heights: &[Option<f64>]) -> String {
    let parts = parts(heights);
    parts.iter().flat_map(|part| ["M".to_owned(), line(part)]).collect()
}

fn area(heights: &[Option<f64>]) -> String {
    let closed = |part: &Vec<(f64, f64)>| {
        let (first, last) = (part.first()?.0, part.last()?.0);
        Some(format!("M{first} 100L{} {last} 100z", line(part)))
    };
    parts(heights).iter().filter_map(closed).collect()
}

fn line(part: &[(f64, f64)]) -> String {
    let points = part.iter().map(|(x, height)| format!("{x} {:.1}", 100.0 - height));
    points.collect::<Vec<_>>().join(" ")
}

fn bars(heights: impl Iterator<Item = f64>) -> String {
    let mut path = String::new();
    for (x, height) in heights.enumerate().filter(|(_, height)| *height > 0.0) {
        // One in a million is seen too.
        let _ = write!(path, "M{x}.15 100v-{:.1}h.7V100z", height.max(1.0));
    }
    path
}

/// The value at the top of the axis: an even digit or 1, with zeros, so that its half is a round number too.
fn top(most: f64) -> f64 {
    if most <= 0.0 {
        return 1.0;
    }
    let unit = 10f64.powf(most.log10().floor());
    let times = [1.0, 2.0, 4.0, 6.0, 8.0].into_iter().find(|times| times * unit >= most);
    times.unwrap_or(10.0) * unit
}

/// Where the axis of the time has labels, in per cent, and for which time.
fn labels(begins: &[u64]) -> Vec<(f64, u64)> {
    const MINUTE: u64 = 60_000;
    const STEPS: [u64; 9] = [1, 5, 15, 60, 180, 360, 720, 1_440, 7_200];
    let (Some(first), Some(last)) = (begins.first(), begins.last()) else { return Vec::new() };
    let span = last - first;
    let step = STEPS.iter().map(|minutes| minutes * MINUTE).find(|step| span / step <= LABELS);
    let step = step.unwrap_or(span / LABELS);
    let is_round = |at: &u64| at.is_multiple_of(step) && span > 0;
    let place = |at: u64| ((at - first) as f64 * 100.0 / span as f64, at);
    // At the ends it would reach beyond the chart.
    begins
        .iter()
        .copied()
        .filter(is_round)
        .map(place)
        .filter(|(x, _)| (2.0..98.0).contains(x))
        .collect()
}

/// A time, or a day where the points are of more than two.
fn label(begins: &[u64], at: u64) -> String {
    let (first, last) = (begins.first().copied(), begins.last().copied());
    let is_long =
        last.unwrap_or_default().saturating_sub(first.unwrap_or_default()) > 2 * 86_400_000;
    let text = if is_long { date(at) } else { clock(at) };
    text.chars().take(if is_long { 6 } else { 5 }).collect()
}

fn table(plot: &Plot<'_>) -> Markup {
    let every = plot.begins.len().div_ceil(ROWS).max(1);
    html! {
        details.data {
            summary { "Show as a table" }
            table {
                thead {
                    tr {
                        th scope="col" { "Time" }
                        @for series in &plot.series { th.n scope="col" { (series.name) } }
                    }
                }
                tbody {
                    @for (at, begin) in plot.begins.iter().enumerate().skip((plot.begins.len().max(1) - 1) % every).step_by(every) {
                        tr {
                            th scope="row" data-at=(begin) { (label(plot.begins, *begin)) }
                            @for series in &plot.series {
                                td.n { (series.values.get(at).copied().flatten().map_or_else(|| "–".to_owned(), short)) }
                            }
                        }
                    }
                    @for (_, mark) in places(plot) {
                        tr {
                            th scope="row" data-at=(mark.at) { (label(plot.begins, mark.at)) }
                            td.n colspan=(plot.series.len()) { (cut(&mark.text, 200)) }
                        }
                    }
                }
            }
        }
    }
}

/// A line in a cell of a table.
pub(super) fn spark(values: &[f64], class: &str, says: &str) -> Markup {
    let top = values.iter().copied().fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    // A line of zeros stands on the ground.
    let heights: Vec<_> = values.iter().map(|value| Some(value / top * 90.0 + 2.0)).collect();
    let width = values.len().saturating_sub(1).max(1);
    html! {
        svg.spark viewBox={ "0 0 " (width) " 100" } preserveAspectRatio="none" role="img" aria-label=(says) {
            @if !values.is_empty() {
                g class=(class) {
                    path.area d=(area(&heights)) {}
                    path.edge d=(edge(&heights)) {}
                }
            }
        }
    }
}

/// Bars in a cell of a table, each with the class of its state and a height in per cent.
pub(super) fn marks(all: &[(&'static str, f64)], places: usize, says: &str) -> Markup {
    let mut classes: Vec<&str> = all.iter().map(|(class, _)| *class).collect();
    classes.sort_unstable();
    classes.dedup();
    html! {
        svg.spark viewBox={ "0 0 " (places) " 100" } preserveAspectRatio="none" role="img" aria-label=(says) {
            path.base d={ "M0 100H" (places) } {}
            @for class in classes {
                path class={ "bars " (class) } d=(bars(all.iter().map(|(of, height)| if *of == class { *height } else { 0.0 }))) {}
            }
        }
    }
}

/// How much of something is used.
pub(super) fn meter(used: u64, of: u64, class: &str, says: &str) -> Markup {
    let part = if of == 0 { 0.0 } else { (used as f64 * 100.0 / of as f64).min(100.0) };
    html! {
        svg class={ "meter " (class) } role="img" aria-label=(says) {
            rect width={ (format!("{part:.1}")) "%" } height="100%" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(points: usize, shape: Shape) -> String {
        let begins: Vec<u64> = (0..points as u64).map(|minute| minute * 60_000).collect();
        let values = (0..points).map(|value| Some(value as f64)).collect();
        let series = vec![Series { name: "done", class: "done", shape, values }];
        plot(&Plot {
            id: "c",
            title: "T",
            unit: "jobs",
            says: "nothing".into(),
            begins: &begins,
            series,
            marks: &[],
        })
        .into_string()
    }

    #[test]
    fn charts_of_no_one_and_sixty_points() {
        for shape in [Shape::Area, Shape::Dash, Shape::Bars] {
            let none = shown(0, shape);
            assert!(
                none.contains("</svg>") && !none.contains("<path") && !none.contains("NaN"),
                "{none}"
            );
            let one = shown(1, shape);
            assert!(!one.contains("NaN") && !one.contains("inf"), "{one}");
            let sixty = shown(60, shape);
            assert!(!sixty.contains("NaN") && sixty.contains("viewBox"), "{sixty}");
            assert_eq!(sixty.matches("<tr>").count(), 1 + ROWS, "{sixty}");
            assert!(sixty.contains("00:59"), "the last point is in the table: {sixty}");
        }
        assert!(shown(1, Shape::Area).contains("M0 100.0 1 100.0"));
        assert!(shown(60, Shape::Area).contains("viewBox=\"0 0 59 100\""));
        assert!(shown(60, Shape::Bars).contains("viewBox=\"0 0 60 100\""));
        let gaps = [Some(1.0), None, Some(2.0), Some(3.0), None];
        assert_eq!(edge(&gaps), "M0 99.0 0.3 99.0M2 98.0 3 97.0");
        assert_eq!(area(&gaps), "M0 100L0 99.0 0.3 99.0 0.3 100zM2 100L2 98.0 3 97.0 3 100z");
        for values in [vec![], vec![0.0], vec![1.0, 3.0]] {
            assert!(!spark(&values, "done", "x").into_string().contains("NaN"));
        }
        assert!(meter(1, 0, "", "x").into_string().contains("width=\"0.0%\""));
        assert!(meter(9, 3, "", "x").into_string().contains("width=\"100.0%\""));
    }

    #[test]
    fn the_axis_ends_at_a_round_number() {
        for (most, is) in
            [(0.0, 1.0), (0.3, 0.4), (5.0, 6.0), (1.0, 1.0), (87.0, 100.0), (101_866.0, 200_000.0)]
        {
            assert!((top(most) - is).abs() < 1e-9, "{most}");
        }
    }

    #[test]
    fn labels_stand_at_round_times() {
        let minutes: Vec<u64> = (3..63).map(|minute| minute * 60_000).collect();
        let at: Vec<u64> = labels(&minutes).iter().map(|(_, at)| at / 60_000).collect();
        assert_eq!(at, [15, 30, 45, 60]);
        let tens: Vec<u64> = (1..145).map(|ten| ten * 600_000).collect();
        let at: Vec<u64> = labels(&tens).iter().map(|(_, at)| at / 3_600_000).collect();
        assert_eq!(at, [6, 12, 18]);
        assert!(labels(&[]).is_empty() && labels(&[60_000]).is_empty());
    }
}

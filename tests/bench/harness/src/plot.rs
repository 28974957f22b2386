//! The picture of W2: a bar for each contender, a panel for each setting, a line over the quartiles.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::{cases, settings};
use crate::results::{Measured, Results, Spread, figure};
use crate::{Failure, fail};

const WIDTH: u32 = 860;
const LINE: i32 = 22;
const HEAD: i32 = 40;
/// Where bars begin and end.
const LEFT: i32 = 170;
const RIGHT: i32 = 760;

struct Panel {
    title: String,
    bars: Vec<(String, Spread)>,
}

/// Draws the rates of W2.
pub fn draw(results: &Results, file: &Path) -> Result<(), Failure> {
    let mut panels = Vec::new();
    for setting in settings(results, "w2") {
        let rate = |case: &&Measured| {
            Some((case.case.contender.clone(), Spread::metric(&case.rounds, "jobs_per_s")?))
        };
        let bars: Vec<_> = cases(results, "w2", setting).iter().filter_map(rate).collect();
        if !bars.is_empty() {
            panels.push(Panel { title: format!("{setting}: jobs/s"), bars });
        }
    }
    let lines: usize = panels.iter().map(|panel| panel.bars.len()).sum();
    if lines == 0 {
        return Err(fail("there is nothing of W2 in these results"));
    }
    let height = HEAD * (panels.len() as i32 + 1) + LINE * lines as i32;
    let area = SVGBackend::new(file, (WIDTH, height as u32)).into_drawing_area();
    paint(&area, "W2: drain what waits", &panels).map_err(|error| fail(error.to_string()))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

fn paint(area: &Area<'_>, title: &str, panels: &[Panel]) -> Drawn {
    area.fill(&WHITE)?;
    write(area, title, (10, 20), 22, HPos::Left)?;
    let mut top = HEAD;
    for panel in panels {
        write(area, &panel.title, (10, top + HEAD / 2), 18, HPos::Left)?;
        top += HEAD;
        let greatest =
            panel.bars.iter().map(|(_, spread)| spread.high).fold(f64::MIN_POSITIVE, f64::max);
        let place = |value: f64| LEFT + (value / greatest * f64::from(RIGHT - LEFT)) as i32;
        for (name, spread) in &panel.bars {
            let (middle, end) = (top + LINE / 2, place(spread.median));
            let bar = [(LEFT, top + 3), (end.max(LEFT + 1), top + LINE - 3)];
            area.draw(&Rectangle::new(bar, color(name).filled()))?;
            let quartiles = [(place(spread.low), middle), (place(spread.high), middle)];
            area.draw(&PathElement::new(quartiles, BLACK.stroke_width(2)))?;
            write(area, name, (LEFT - 8, middle), 16, HPos::Right)?;
            let figure = figure(spread.median);
            write(area, &figure, (end.max(place(spread.high)) + 6, middle), 16, HPos::Left)?;
            top += LINE;
        }
    }
    area.present()
}

fn write(area: &Area<'_>, text: &str, at: (i32, i32), size: u32, to: HPos) -> Drawn {
    let style = ("sans-serif", size).into_font().color(&BLACK).pos(Pos::new(to, VPos::Center));
    area.draw(&Text::new(text, at, style))
}

fn color(name: &str) -> RGBColor {
    match name {
        name if name.starts_with("hworker") => RGBColor(196, 78, 40),
        name if name.starts_with("limit") || name == crate::check::BENCHMARK => {
            RGBColor(150, 150, 150)
        }
        _ => RGBColor(90, 130, 180),
    }
}

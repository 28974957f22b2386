//! States, as keys and looks change them, and their pictures.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

use super::look::{Detail, Overview, Queue, Totals};
use super::panel::{Cell, Line, Panel};
use super::state::{Change, Mode, State, Step};
use super::view;
use crate::output::Tone;

const PLACE: &str = "redis://10.0.0.7:6379, prefix shop";

/// 2026-12-24 18:00:30 UTC.
const AT: u64 = 1_798_135_230_000;

fn line(cells: &[(&str, u64)], tone: Tone) -> Line {
    let cells: Vec<_> =
        cells.iter().map(|(text, rank)| Cell::new((*text).to_owned(), *rank)).collect();
    Line { name: cells[0].text.clone(), cells, tone }
}

fn queue(name: &str, waiting: (&str, u64), state: &str, tone: Tone) -> Queue {
    let cells = [
        (name, 0),
        waiting,
        ("41s", 41_000),
        ("80", 80),
        ("1,022", 1_022),
        ("17", 17),
        ("4", 4),
        ("9,120", 9_120),
        ("38s", 38_000),
        ("2m", 120_000),
        (state, u64::from(!state.is_empty())),
    ];
    let is_paused = state.starts_with("paused");
    Queue { line: line(&cells, tone), ended: (0..60).collect(), is_paused }
}

fn overview() -> Overview {
    Overview {
        queues: vec![
            queue("default", ("12,403", 12_403), "no workers", Tone::Bad),
            queue("mail", ("0", 0), "paused, ends in 3m", Tone::Doubtful),
            queue("reports", ("39", 39), "", Tone::Plain),
        ],
        totals: Totals { done_per_min: 9_330, waiting: 12_442, failed: 51 },
        notice: None,
    }
}

fn worker(id: &str, host: &str, longest: &str) -> Line {
    let cells =
        [(id, 0), (host, 0), ("4", 4), ("10", 10), ("73ms", 73), (longest, 33_000), ("quiet", 1)];
    line(&cells, Tone::Doubtful)
}

fn running(job: &str, ran: (&str, u64)) -> Line {
    let id = "01a2227a-832d-7631-9e0c-9ed92d49a2a1";
    line(&[ran, (job, 0), ("2", 2), (id, 0), ("web-1.936aac8055c7", 0)], Tone::Plain)
}

fn detail(queue: &str) -> Detail {
    let group = [
        ("0c6eae00e961", 0),
        ("28", 28),
        ("send_welcome", 0),
        ("10s", 10_000),
        ("9s", 9_000),
        ("error: smtp: 421", 0),
    ];
    Detail {
        queue: queue.to_owned(),
        workers: Some(vec![worker("web-1.936aac8055c7", "web-1", "33s resize")]),
        running: Some(vec![running("index", ("4s", 4_000)), running("resize", ("33s", 33_000))]),
        failed: Some(vec![line(&group, Tone::Plain)]),
        refused: None,
    }
}

fn state() -> State {
    let mut state = State::new(PLACE.to_owned(), true, false);
    state.take(Ok(overview()), AT);
    state.take_detail(detail("default"));
    state
}

fn press(state: &mut State, keys: &str) -> Step {
    let press = |c| state.press(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
    keys.chars().map(press).last().expect("a key")
}

fn drawn(state: &State, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| view::draw(frame, state, AT + 38_000)).expect("drawn");
    terminal.backend().buffer().clone()
}

/// The lines of a picture.
fn screen(state: &State, width: u16, height: u16) -> Vec<String> {
    let buffer = drawn(state, width, height);
    let symbols: Vec<_> = buffer.content.iter().map(ratatui::buffer::Cell::symbol).collect();
    symbols.chunks(usize::from(width)).map(|line| line.concat().trim_end().to_owned()).collect()
}

fn has(screen: &[String], text: &str) -> bool {
    screen.iter().any(|line| line.contains(text))
}

#[test]
fn rows_fit_into_narrow_and_wide_terminals() {
    let wide = screen(&state(), 140, 30);
    assert_eq!(wide[0], format!("{PLACE}{}as of 18:00:30 UTC", " ".repeat(140 - 34 - 18)));
    assert_eq!(wide[1], "done/min 9,330  waiting 12,442  failed 51  queues 3");
    assert_eq!(wide[2], "queues: 3, by QUEUE");
    let head = "  QUEUE    WAIT    OLDEST  RUN   SCHED  FAILED  WORKERS  DONE/MIN  WAIT P95  EMPTY IN  STATE";
    assert_eq!(wide[3], head);
    let row = "> default  12,403  41s     80    1,022  17      4        9,120     38s       2m        no workers";
    assert_eq!(wide[4], row);
    assert!(wide[5].starts_with("  mail ") && wide[5].ends_with("paused, ends in 3m"), "{wide:?}");
    assert!(has(&wide, "ended on default by the minute, in the last hour: 1,770, at most 59"));
    assert!(has(&wide, "█"), "the bars");
    let worker = "web-1.936aac8055c7  web-1  4    10     73ms   33s resize  quiet";
    assert!(has(&wide, "workers of default: 1, by WORKER") && has(&wide, worker), "{wide:?}");
    let longest = wide.iter().position(|line| line.starts_with("33s    resize"));
    let other = wide.iter().position(|line| line.starts_with("4s     index"));
    assert!(longest.is_some() && longest < other, "{wide:?}");

    let usual = screen(&state(), 80, 24);
    let head = "  QUEUE    WAIT    OLDEST  RUN   FAILED  WORKERS  DONE/MIN  WAIT P95  STATE";
    assert_eq!(usual[3], head);
    assert!(usual[5].ends_with("paused, e…") && has(&usual, "33s resize"), "{usual:?}");
    assert!(usual[23].starts_with("q quit") && usual[23].ends_with("? help"), "{usual:?}");
    let narrow = screen(&state(), 60, 24);
    assert_eq!(narrow[3], "  QUEUE    WAIT    OLDEST  RUN   FAILED  STATE");
    assert!(narrow[5].ends_with("paused, ends in 3m"), "{narrow:?}");
    let least = screen(&state(), 38, 24);
    assert_eq!(least[3], "  QUEUE    WAIT    FAILED  STATE");
    assert_eq!(least[4], "> default  12,403  17      no workers");
}

#[test]
fn a_terminal_of_any_size_can_be_drawn_on() {
    for keys in ["1", "2", "3", "4", "?", "p"] {
        let mut state = state();
        press(&mut state, keys);
        for (width, height) in [(1, 1), (1, 40), (3, 3), (20, 5), (60, 13), (60, 14), (300, 1)] {
            drawn(&state, width, height);
        }
    }
}

#[test]
fn nothing_from_the_server_rewrites_the_terminal() {
    let evil = "x\u{1b}]52;c;ZXZpbA==\u{7}\u{202e}\n\u{200b}\u{9b}2J";
    let mut state = State::new(evil.to_owned(), true, false);
    let mut overview = overview();
    overview.queues.insert(0, queue(evil, (evil, 0), evil, Tone::Bad));
    overview.notice = Some(evil.to_owned());
    state.take(Ok(overview), AT);
    let id = evil.to_owned();
    let mut seen = detail(evil);
    seen.workers = Some(vec![worker(evil, evil, evil)]);
    seen.running = Some(vec![running(evil, (evil, 1))]);
    seen.failed = Some(vec![line(&[(evil, 0); 6], Tone::Plain)]);
    seen.refused = Some(evil.to_owned());
    // Queues are sorted by their names: it is the last.
    press(&mut state, "jjj");
    assert_eq!(state.selected().map(|queue| &queue.line.name), Some(&id));
    state.take_detail(seen);
    let is_evil = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{200b}');
    for lost in [None, Some(evil.to_owned())] {
        state.lost = lost;
        for keys in ["1", "2", "3", "4", "1p", "n"] {
            press(&mut state, keys);
            let screen = screen(&state, 140, 30);
            assert!(has(&screen, "x␛]52;c;ZXZpbA==␇\u{fffd}␊\u{fffd}\u{fffd}2J"), "{screen:?}");
            assert!(!screen.concat().contains(is_evil), "{keys}: {screen:?}");
        }
    }
}

#[test]
fn an_empty_server_says_what_to_do() {
    let mut state = State::new(PLACE.to_owned(), true, false);
    assert!(has(&screen(&state, 80, 24), "looking .."));
    assert_eq!(press(&mut state, "p"), Step::Draw, "nothing is selected");
    state.take(Ok(Overview::default()), AT);
    let text = screen(&state, 60, 24);
    assert!(has(&text, "No queue has jobs or workers. Start a worker"), "{text:?}");
    let mut overview = overview();
    overview.notice = Some("900 more queues: --name TEXT or --limit 1000".to_owned());
    state.take(Ok(overview), AT);
    let empty = || Some(Vec::new());
    let nothing = Detail {
        queue: "default".to_owned(),
        workers: empty(),
        running: empty(),
        failed: empty(),
        refused: None,
    };
    state.take_detail(nothing);
    let text = screen(&state, 100, 24);
    assert!(has(&text, "900 more queues: --name TEXT"), "{text:?}");
    assert!(has(&text, "No worker serves default: start one with HWORKER_QUEUES=default."));
    assert!(has(&text, "Nothing runs."), "{text:?}");
    press(&mut state, "4");
    assert!(has(&screen(&state, 80, 24), "No job has failed."));
}

#[test]
fn a_server_that_does_not_answer_leaves_the_figures_of_its_last_answer() {
    let mut state = State::new(PLACE.to_owned(), true, false);
    state.take(Err("connection refused".to_owned()), AT);
    let text = screen(&state, 80, 24);
    assert!(has(&text, "NO ANSWER yet; trying again. connection refused"), "{text:?}");
    state.take(Ok(overview()), AT);
    state.take_detail(detail("default"));
    state.take(Err("connection refused".to_owned()), AT + 9_000);
    let gone = Detail {
        queue: "default".to_owned(),
        refused: Some("gone".to_owned()),
        ..Detail::default()
    };
    state.take_detail(gone);
    let text = screen(&state, 140, 24);
    let since = "NO ANSWER since 18:00:30 UTC (38s): all figures are from then; trying again. connection refused";
    assert_eq!(text[2], since);
    assert!(has(&text, "as of 18:00:30 UTC") && has(&text, "33s resize"), "{text:?}");
    assert!(has(&screen(&state, 60, 24), "all figures are from"));
    state.take(Ok(overview()), AT + 60_000);
    let text = screen(&state, 140, 24);
    assert!(!has(&text, "NO ANSWER") && has(&text, "as of 18:01:30 UTC"), "{text:?}");
}

#[test]
fn colours_are_for_states_and_not_alone() {
    let colored = |state: &State| {
        let buffer = drawn(state, 140, 30);
        let cells = buffer.content.iter();
        cells
            .filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
            .fold(String::new(), |text, cell| text + cell.symbol())
    };
    let words = colored(&state());
    for word in ["no workers", "paused, ends in 3m", "quiet"] {
        assert!(words.contains(word), "{words}");
    }
    assert!(!words.contains("12,403") && !words.contains("default"), "{words}");
    let mut state = state();
    state.colors = false;
    state.lost = Some("connection refused".to_owned());
    assert_eq!(colored(&state), "");
}

#[test]
fn a_queue_is_paused_after_a_question_that_names_it_and_the_server() {
    let mut state = state();
    assert_eq!(press(&mut state, "p"), Step::Draw);
    let text = screen(&state, 40, 20).join(" ");
    assert!(text.contains("pause the queue default") && text.contains("[y/N]"), "{text}");
    assert!(text.contains("10.0.0.7:6379") && text.contains("prefix shop"), "{text}");
    press(&mut state, "n");
    for other in [KeyCode::Char('n'), KeyCode::Char('q'), KeyCode::Enter, KeyCode::Esc] {
        press(&mut state, "p");
        assert_eq!(state.press(KeyEvent::new(other, KeyModifiers::NONE)), Step::Draw);
        assert!(state.mode == Mode::Tables && has(&screen(&state, 80, 24), "nothing done"));
    }
    let change = |queue: &str, pause| Step::Change(Change { queue: queue.to_owned(), pause });
    assert_eq!(press(&mut state, "py"), change("default", true));
    assert_eq!(press(&mut state, "jpy"), change("mail", false), "which is paused");
    let control = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
    assert_eq!(state.press(control('p')), Step::Draw);
    assert_eq!(state.mode, Mode::Tables);
    press(&mut state, "p");
    assert_eq!(state.press(control('c')), Step::Quit);
    let mut state = State::new(PLACE.to_owned(), true, true);
    state.take(Ok(overview()), AT);
    assert_eq!(press(&mut state, "p"), change("default", true), "with --yes");
}

#[test]
fn keys_select_sort_and_switch() {
    let mut state = state();
    let selected = |state: &State| state.selected().map(|queue| queue.line.name.clone());
    assert_eq!(press(&mut state, "kjj"), Step::Look);
    assert_eq!(selected(&state).as_deref(), Some("reports"));
    assert!(has(&screen(&state, 80, 24), "looking .."), "of another queue");
    press(&mut state, "jjs");
    assert!(has(&screen(&state, 80, 24), "queues: 3, by WAIT"));
    let lines = state.lines(Panel::Queues).expect("looked at");
    let names: Vec<_> = lines.iter().map(|line| line.name.as_str()).collect();
    assert_eq!(names, ["default", "reports", "mail"]);
    assert_eq!(selected(&state).as_deref(), Some("reports"));
    // One that is gone leaves the first one selected.
    let mut fewer = overview();
    fewer.queues.pop();
    state.take(Ok(fewer), AT);
    assert_eq!(selected(&state).as_deref(), Some("default"));

    let tab = KeyEvent::new(KeyCode::Tab, KeyModifiers::NONE);
    for title in ["workers of", "running on", "failures of default in groups", "queues:"] {
        assert_eq!(state.press(tab), Step::Look);
        assert!(screen(&state, 80, 24)[2].starts_with(title), "{title}");
    }
    press(&mut state, "3j");
    assert_eq!(state.selected_line(Panel::Running), Some(1));
    press(&mut state, "jj");
    assert_eq!(state.selected_line(Panel::Running), Some(1));
    let esc = KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE);
    press(&mut state, "?");
    assert!(has(&screen(&state, 60, 24), "pause or resume the selected queue"));
    assert_eq!(state.press(esc), Step::Draw);
    assert_eq!(state.mode, Mode::Tables);
    assert_eq!(state.press(esc), Step::Quit);
    assert_eq!(press(&mut state, "q"), Step::Quit);
}

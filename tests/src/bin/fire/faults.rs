//! The faults, and when each strikes: a schedule that follows from a seed.

use std::time::Duration;

use fastrand::Rng;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// `kill -9` of a worker.
    WorkerKill,
    /// A body that calls `abort()`.
    Abort,
    /// SIGSTOP of a worker for longer than its lease, then SIGCONT.
    Stop,
    /// Nothing comes through between a worker and the server; the proxy holds everything.
    Cut,
    /// The same, by the link of a network namespace.
    NetCut,
    /// The line of a worker is slow for some seconds. It silences nobody.
    SlowLine,
    /// A connection of a worker through which nothing comes any more, without an end.
    HalfOpen,
    /// SIGTERM of a worker.
    Term,
    /// The wall clock of a worker's machine jumps by up to two hours.
    ClockJump,
    /// The wall clock of the server jumps by some seconds.
    ServerClock,
    /// `kill -9` of a producer.
    ProducerKill,
    /// A connection ends before a request.
    LoseRequest,
    /// A connection ends instead of a reply.
    LoseReply,
    /// A reply comes late.
    Delay,
    /// `CLIENT KILL` of some or all connections.
    ClientKill,
    /// `SCRIPT FLUSH`.
    ScriptFlush,
    /// `kill -9` of the server, and its start from the append-only file.
    ServerKill,
    /// `CLIENT PAUSE`.
    Pause,
    /// `DEBUG SLEEP`.
    Stall,
    /// `maxmemory` is reached.
    Full,
    /// The disk of the append-only file is full.
    DiskFull,
    /// A process was not run for a while, which nobody had planned.
    Busy,
}

impl Kind {
    /// Those that strike the server alone.
    pub(crate) const OF_THE_SERVER: [Self; 5] =
        [Self::ServerKill, Self::Pause, Self::Stall, Self::Full, Self::DiskFull];

    /// The others that are scheduled, with how often each comes compared with the others.
    pub(crate) const OF_OTHERS: [(Self, usize); 16] = [
        (Self::WorkerKill, 1),
        (Self::Abort, 1),
        (Self::Stop, 1),
        (Self::Cut, 1),
        (Self::NetCut, 1),
        (Self::SlowLine, 1),
        (Self::Term, 1),
        (Self::ServerClock, 1),
        (Self::HalfOpen, 2),
        (Self::ClockJump, 2),
        (Self::ProducerKill, 2),
        (Self::LoseRequest, 2),
        (Self::LoseReply, 2),
        (Self::Delay, 2),
        (Self::ClientKill, 2),
        (Self::ScriptFlush, 2),
    ];

    /// All that can be scheduled.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Self::OF_THE_SERVER.into_iter().chain(Self::OF_OTHERS.map(|(kind, _)| kind))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::WorkerKill => "worker-kill",
            Self::Abort => "abort",
            Self::Stop => "stop",
            Self::Cut => "cut",
            Self::NetCut => "net-cut",
            Self::SlowLine => "slow-line",
            Self::HalfOpen => "half-open",
            Self::Term => "term",
            Self::ClockJump => "clock-jump",
            Self::ServerClock => "server-clock",
            Self::ProducerKill => "producer-kill",
            Self::LoseRequest => "lose-request",
            Self::LoseReply => "lose-reply",
            Self::Delay => "delay",
            Self::ClientKill => "client-kill",
            Self::ScriptFlush => "script-flush",
            Self::ServerKill => "server-kill",
            Self::Pause => "client-pause",
            Self::Stall => "debug-sleep",
            Self::Full => "maxmemory",
            Self::DiskFull => "disk-full",
            Self::Busy => "machine-busy",
        }
    }

    /// Whether it ends its process.
    pub(crate) fn is_final(self) -> bool {
        matches!(self, Self::WorkerKill | Self::Abort | Self::ProducerKill)
    }

    /// Whether it keeps a worker from being heard of, so that it may be taken for dead.
    pub(crate) fn silences(self) -> bool {
        matches!(
            self,
            Self::WorkerKill
                | Self::Abort
                | Self::Stop
                | Self::Cut
                | Self::NetCut
                | Self::HalfOpen
                | Self::Busy
        )
    }

    /// Whether workers find the server away, refusing or silent.
    pub(crate) fn is_of_the_server(self) -> bool {
        Self::OF_THE_SERVER.contains(&self)
    }
}

/// A fault that is to strike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) after: Duration,
    pub(crate) kind: Kind,
    pub(crate) lasts: Duration,
    /// From which the one who carries it out takes what else it needs.
    pub(crate) random: u64,
}

/// Faults come in rounds of this length. In the first part of each some strike the server, at least 3 s apart; in the second part
/// it is left alone, so that those who died can be noticed: every fault of the server makes the workers watch anew.
const ROUND: Duration = Duration::from_secs(30);
const SERVER_PART: Duration = Duration::from_secs(12);
pub(crate) const APART: Duration = Duration::from_secs(3);

/// Other faults in a round.
const OTHERS: u32 = 18;

/// The faults of a run, in the order of their times.
pub(crate) fn schedule(seed: u64, lasting: Duration, kinds: &[Kind]) -> Vec<Planned> {
    let mut rng = Rng::with_seed(seed);
    let has = |kind: &Kind| kinds.contains(kind);
    let of_the_server: Vec<_> = Kind::OF_THE_SERVER.into_iter().filter(has).collect();
    let others: Vec<_> = Kind::OF_OTHERS.iter().filter(|(kind, _)| has(kind)).collect();
    let others: Vec<_> =
        others.into_iter().flat_map(|(kind, count)| std::iter::repeat_n(*kind, *count)).collect();
    let (mut of_the_server, mut others) = (Deck::of(of_the_server), Deck::of(others));
    let mut planned = Vec::new();
    let mut round = Duration::from_secs(2);
    while round < lasting {
        let mut at = round;
        while at < round + SERVER_PART {
            let Some(kind) = of_the_server.draw(&mut rng) else { break };
            let fault = plan(kind, at, &mut rng);
            planned.push(fault);
            at += fault.lasts + APART + millis(rng.u64(0..1_000));
        }
        for _ in 0..OTHERS {
            let Some(kind) = others.draw(&mut rng) else { break };
            let at = round + millis(rng.u64(0..ROUND.as_millis() as u64));
            planned.push(plan(kind, at, &mut rng));
        }
        round += ROUND;
    }
    planned.retain(|fault| fault.after < lasting);
    planned.sort_by_key(|fault| fault.after);
    planned
}

fn plan(kind: Kind, after: Duration, rng: &mut Rng) -> Planned {
    let lasts = match kind {
        Kind::Stop | Kind::Cut | Kind::NetCut if rng.u8(..4) > 0 => 7_000..12_000,
        Kind::Cut | Kind::NetCut => 500..4_000,
        Kind::SlowLine => 4_000..9_000,
        Kind::Stop => 6_000..7_000,
        Kind::ServerKill if rng.u8(..3) == 0 => 4_500..8_000,
        Kind::ServerKill => 50..1_500,
        Kind::Pause | Kind::Stall => 800..2_500,
        Kind::Full | Kind::DiskFull => 1_000..2_500,
        Kind::Delay => 200..2_000,
        _ => 0..1,
    };
    Planned { after, kind, lasts: millis(rng.u64(lasts)), random: rng.u64(..) }
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Cards that are all drawn before the first comes again, so that each kind comes as often as it should.
struct Deck {
    all: Vec<Kind>,
    left: Vec<Kind>,
}

impl Deck {
    fn of(all: Vec<Kind>) -> Self {
        Self { all, left: Vec::new() }
    }

    fn draw(&mut self, rng: &mut Rng) -> Option<Kind> {
        if self.left.is_empty() {
            self.left.clone_from(&self.all);
            rng.shuffle(&mut self.left);
        }
        self.left.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_an_hour_has_a_thousand_faults_and_thirty_of_each_kind() {
        let all: Vec<_> = Kind::all().collect();
        for seed in 0..20 {
            let planned = schedule(seed, Duration::from_secs(1_800), &all);
            assert!(planned.len() >= 1_150, "{}", planned.len());
            for kind in &all {
                let count = planned.iter().filter(|fault| fault.kind == *kind).count();
                assert!(count >= 33, "{kind:?}: {count}");
            }
            assert_eq!(planned, schedule(seed, Duration::from_secs(1_800), &all));
        }
    }

    #[test]
    fn the_server_has_its_rest() {
        let all: Vec<_> = Kind::all().collect();
        for seed in 0..20 {
            let planned = schedule(seed, Duration::from_secs(600), &all);
            let server: Vec<_> =
                planned.iter().filter(|fault| fault.kind.is_of_the_server()).collect();
            for pair in server.windows(2) {
                assert!(pair[1].after >= pair[0].after + pair[0].lasts + APART, "{pair:?}");
            }
        }
    }
}

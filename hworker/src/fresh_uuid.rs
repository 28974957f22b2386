//! Fresh UUIDs of version 7 (RFC 9562), without a call into the system and a lock for each.
//!
//! The first 60 bits count steps of 1/4096 ms (method 3 of section 6.2) and never repeat in a process, so what it makes
//! sorts in the order of making, over all threads. The other 62 are random; each thread has its own generator, whose seed
//! comes from the system and is renewed after a millisecond at the latest, so a process that was forked or restored from a
//! snapshot goes its own way at once.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use uuid::Uuid;

/// Steps in a millisecond, as many as the 12 bits hold that stand beside the version.
const STEPS: u64 = 4096;

/// The step of the last one.
static LAST: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static RANDOM: Cell<Random> = const { Cell::new(Random { state: 0, seeded_at: 0 }) };
}

/// A generator of random numbers: `SplitMix64`.
#[derive(Clone, Copy)]
struct Random {
    state: u64,
    /// In ms, as the UUIDs have it.
    seeded_at: u64,
}

/// One more, of this time since 1970 or, where it has had its turn, of the next step.
pub(crate) fn v7(now: Duration) -> Uuid {
    let now = now.as_secs() * 1000 * STEPS + u64::from(now.subsec_nanos()) * STEPS / 1_000_000;
    let next = |last: u64| (last + 1).max(now);
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
    // It cannot fail, since there is always a next one.
    let step = next(last.unwrap_or_else(|last| last));
    let (ms, fraction) = (step >> 12, step & 0xfff);
    let random = RANDOM.get().next(ms);
    RANDOM.set(random);
    Uuid::from_u64_pair(ms << 16 | 0x7000 | fraction, 0b10 << 62 | random.output() >> 2)
}

impl Random {
    fn next(self, ms: u64) -> Self {
        if self.seeded_at == ms {
            return Self { state: self.state.wrapping_add(0x9e37_79b9_7f4a_7c15), ..self };
        }
        let (high, low) = Uuid::new_v4().as_u64_pair();
        // Version and variant are not random: what the one half lacks the other has.
        Self { state: high ^ low.rotate_left(32), seeded_at: ms }
    }

    fn output(self) -> u64 {
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    fn now() -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970")
    }

    #[test]
    fn they_are_of_version_7_and_of_now() {
        let before = now();
        let uuid = v7(now());
        assert_eq!(uuid.get_version_num(), 7);
        assert_eq!(uuid.get_variant(), uuid::Variant::RFC4122);
        let ms = uuid.as_u128() >> 80;
        assert!((before.as_millis()..before.as_millis() + 10_000).contains(&ms), "{uuid}");
    }

    #[test]
    fn they_sort_in_the_order_of_making_over_all_threads() {
        // A thread that has seen another's makes only later ones; and no two have a step in common.
        let threads: Vec<_> = (0..4)
            .map(|_| std::thread::spawn(|| (0..20_000).map(|_| v7(now())).collect::<Vec<_>>()))
            .collect();
        let mut steps = HashSet::new();
        let first = v7(now());
        let mut last = first;
        for thread in threads {
            let made = thread.join().expect("no panic");
            assert!(made.windows(2).all(|pair| pair[0] < pair[1]));
            steps.extend(made.iter().map(|uuid| uuid.as_u64_pair().0));
            last = last.max(made[made.len() - 1]);
        }
        assert_eq!(steps.len(), 80_000);
        assert!(v7(now()) > last && last > first);
    }

    #[test]
    fn the_random_part_differs_even_at_the_same_step() {
        // What two processes, or two threads, make at the same time.
        let seeds: HashSet<_> =
            (0..1000).map(|_| Random { state: 0, seeded_at: 1 }.next(2).output()).collect();
        assert_eq!(seeds.len(), 1000);
        let mut random = Random { state: 0, seeded_at: 1 }.next(2);
        let mut ones = [0; 64];
        for _ in 0..10_000 {
            random = random.next(2);
            (0..64).for_each(|bit| ones[bit] += random.output() >> bit & 1);
        }
        assert!(ones.iter().all(|ones| (4_700..5_300).contains(ones)), "{ones:?}");
    }
}

//! The hash slots of a cluster, and how the shards of a queue are called so that they lie apart.

/// The slots of a cluster.
pub(crate) const SLOTS: u16 = 16_384;

/// More shards than this serve nobody: each costs every worker connections and heartbeats.
pub(crate) const MOST: usize = 1_000;

/// How far behind its place a shard may lie: the smaller, the longer its name has to be searched for.
const NEAR: u16 = 64;

/// The slot of a key, or of the part of it in braces.
pub(crate) fn slot(tag: &str) -> u16 {
    crc16(0, tag) % SLOTS
}

/// What stands in the keys of a shard for the queue's name: the name itself for the first, so that a queue may be
/// spread at any time, and `mail#3.17` for another. The last number is the smallest that puts the shard close behind its
/// place among the slots, and no name has a `#`.
pub(crate) fn spelled(queue: &str, shard: usize) -> String {
    if shard == 0 {
        return queue.to_owned();
    }
    let place = place(queue, shard);
    let stem = format!("{queue}#{shard}.");
    let begun = crc16(0, &stem);
    let near = |number: &u32| {
        let slot = crc16(begun, &number.to_string()) % SLOTS;
        slot.wrapping_sub(place) % SLOTS < NEAR
    };
    let number = (0..u32::MAX).find(near).unwrap_or_default();
    format!("{stem}{number}")
}

/// Where a shard should lie. It does not depend on how many there are, so that none moves when another is added: the
/// first three divide the slots into thirds, the next three halve those, the next six halve again. So 3, 6, 12, 24, ..
/// shards lie at equal distances, and as many fall to each of three servers, or of six, with equal ranges of slots.
fn place(queue: &str, shard: usize) -> u16 {
    let halvings = (shard / 3) as u16;
    // Of 14 bits, as a slot has.
    let reversed = u32::from(halvings.reverse_bits() >> 2);
    let offset = ((shard % 3) as u32 * u32::from(SLOTS) + reversed) / 3;
    (slot(queue) + offset as u16) % SLOTS
}

/// CRC16 as Redis Cluster uses it (XMODEM), carried on from `crc`.
fn crc16(crc: u16, text: &str) -> u16 {
    text.bytes().fold(crc, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // As `CLUSTER KEYSLOT` says.
        assert_eq!(crc16(0, "123456789"), 0x31c3);
        assert_eq!([slot("foo"), slot("user1000"), slot("")], [12_182, 3_443, 0]);
    }

    #[test]
    fn shards_are_spelled_as_documented() {
        // The table of the document, which was written by the formula beside it and not by this code.
        let document = include_str!("../../docs/wire-format.md");
        for shard in 0..12 {
            let [name, mail] = ["default", "mail"].map(|queue| spelled(queue, shard));
            let row = format!("| {shard} | `{name}` | {} | `{mail}` |", slot(&name));
            assert!(document.contains(&row), "{row}");
        }
    }

    #[test]
    fn shards_lie_apart_however_many_there_are() {
        for queue in ["default", "mail", "a"] {
            let all: Vec<_> = (0..100).map(|shard| slot(&spelled(queue, shard))).collect();
            for shards in 2..=100 {
                let mut slots = all[..shards].to_vec();
                slots.sort_unstable();
                let next = slots.iter().skip(1).chain(slots.first());
                let gaps =
                    slots.iter().zip(next).map(|(one, next)| next.wrapping_sub(*one) % SLOTS);
                let (even, widest) =
                    (f64::from(SLOTS) / shards as f64, gaps.max().unwrap_or(SLOTS));
                let bound = 2.0 * even + f64::from(NEAR);
                assert!(f64::from(widest) <= bound, "{queue} {shards}: {widest}");
            }
        }
    }

    #[test]
    fn multiples_of_three_fall_evenly_to_three_servers() {
        for queue in ["default", "mail", "a", "reports", "x.y-z"] {
            for shards in [3, 6, 12, 24, 48] {
                let mut each = [0; 3];
                for shard in 0..shards {
                    each[usize::from(place(queue, shard)) * 3 / usize::from(SLOTS)] += 1;
                }
                let apart =
                    each.iter().max().zip(each.iter().min()).map(|(most, least)| most - least);
                assert!(apart.is_some_and(|apart| apart <= 1), "{queue} {shards}: {each:?}");
            }
        }
    }
}

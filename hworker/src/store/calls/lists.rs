//! The lists of a queue beside those that differ in their priority alone.

use crate::limit::List;
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::reply::Reply;
use crate::store::{CALL_WITHIN, Script};

/// Groups of lists that are looked at; a queue serves no more.
const MOST_GROUPS: usize = 200;

/// Entries of `held` that are read with one command.
const HELD_AT_ONCE: usize = 1000;

/// Lists that are looked at with one call.
const LISTS_AT_ONCE: usize = 200;

impl Queue {
    /// What leases hold of limits, each with the token of its lease, but for those since this time, in ms.
    pub(crate) async fn held_since_before(
        &self,
        on: &Connection,
        time: u64,
    ) -> Result<Vec<(String, u64)>, Fault> {
        // A token is a time in us. None that a worker was given is of tomorrow, unless the server's clock was set back.
        let young = time.saturating_mul(1000)..time.saturating_add(86_400_000).saturating_mul(1000);
        let mut held = Vec::new();
        for first in (0..).step_by(HELD_AT_ONCE) {
            let range = (self.keys.held(), first, first + HELD_AT_ONCE - 1);
            let some = names(on.ask("ZRANGE", range).await)?;
            let is_last = some.len() < HELD_AT_ONCE;
            held.extend(some.into_iter().filter_map(|member| {
                let token = member.rsplit_once(' ').and_then(|(_, token)| token.parse().ok());
                let token = token.unwrap_or(0);
                (!young.contains(&token)).then_some((member, token))
            }));
            if is_last {
                break;
            }
        }
        Ok(held)
    }

    /// Frees what no lease holds; gives how many there were still.
    pub(crate) async fn free(&self, on: &Connection, held: &[String]) -> Result<u64, Fault> {
        let mut freed = 0;
        for some in held.chunks(HELD_AT_ONCE) {
            freed += on.ask("ZREM", (self.keys.held(), some)).await?.count()?;
        }
        Ok(freed)
    }

    /// The lists whose jobs have limits, or are known by their ids, by their names. A key that somebody made another type of has none.
    pub(crate) async fn other_lists(&self, on: &Connection) -> Result<Vec<List>, Fault> {
        let mut lists = Vec::new();
        let mut of_keys = redis::Pipeline::new();
        let mut groups = Vec::new();
        for name in names(on.ask("ZRANGE", (self.lists(), 0, MOST_GROUPS - 1)).await)? {
            // The name of a group is that of its list with an empty key.
            match List::parse(&name) {
                Some(list) if list.key().is_some() => {
                    of_keys.cmd("ZRANGE").arg(self.keys.keys_of(&name)).arg(0).arg(-1);
                    groups.push(name);
                }
                Some(list) if list.is_another() => lists.push(list),
                _ => {}
            }
        }
        if !groups.is_empty() {
            for (group, keys) in groups.iter().zip(on.ask_all(&of_keys).await?) {
                let keys = names(keys)?;
                lists.extend(keys.iter().filter_map(|key| List::parse(&[&**group, key].concat())));
            }
        }
        lists.sort_by_cached_key(ToString::to_string);
        Ok(lists)
    }

    /// How many of these lists have jobs though no worker looks into them, since what says that they have went. Has workers look if asked.
    pub(crate) async fn relist(
        &self,
        on: &Connection,
        lists: &[List],
        set: bool,
    ) -> Result<u64, Fault> {
        let mut found = 0;
        for some in lists.chunks(LISTS_AT_ONCE) {
            let mut call = Call::new(Script::Relist, &[&self.keys.jobs, &self.keys.token]);
            call.number(u64::from(set));
            for list in some {
                call.arg(list.to_string());
            }
            found += on.run(&call, CALL_WITHIN).await?.count()?;
        }
        Ok(found)
    }

    /// How many jobs that are known by their ids stand nowhere any more, and how many of those ran, so that nothing is left of them. If asked the
    /// first wait again, and the others free their keys.
    pub(crate) async fn orphans(&self, on: &Connection, set: bool) -> Result<(u64, u64), Fault> {
        let keys = &self.keys;
        let all = [&keys.jobs, &keys.scheduled, &keys.parked, &keys.token, &keys.bell];
        let (mut cursor, mut waiting, mut gone) = ("0".to_owned(), 0, 0);
        loop {
            let mut call = Call::new(Script::Orphans, &all.map(String::as_str));
            call.number(u64::from(set)).arg(&cursor);
            let mut reply = on.run(&call, CALL_WITHIN).await?;
            cursor = reply.text()?;
            waiting += reply.count()?;
            gone += reply.count()?;
            if cursor == "0" {
                return Ok((waiting, gone));
            }
        }
    }

    fn lists(&self) -> String {
        [&*self.keys.jobs, ":lists"].concat()
    }
}

fn names(reply: Result<Reply, Fault>) -> Result<Vec<String>, Fault> {
    match reply {
        Err(fault) if fault.is_of_another_type() => Ok(Vec::new()),
        // What is no text names no list of ours.
        reply => reply?.rest(|reply| Ok(reply.text().unwrap_or_default())),
    }
}

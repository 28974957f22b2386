//! Jobs that are known by their ids, and the keys that they hold.

use super::lease::Lease;
use super::read::{HashPlace, read_hash};
use crate::envelope::JobId;
use crate::limit::List;
use crate::store::net::{Call, Connection, Fault};
use crate::store::queue::Queue;
use crate::store::reply::Reply;
use crate::store::{CALL_WITHIN, Script};

/// A job that is known by its id, and where it is.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) list: List,
    pub(crate) payload: Vec<u8>,
    pub(crate) at: Stand,
}

/// Where it is.
#[derive(Debug)]
pub(crate) enum Stand {
    /// In its list, or behind another of its key.
    Waits,
    /// With when it is due, in ms.
    Scheduled(u64),
    /// With its token.
    Parked(u64),
    Runs {
        worker: String,
        lease: Lease,
    },
}

/// A key that a job holds.
#[derive(Debug)]
pub(crate) struct HeldKey {
    pub(crate) key: String,
    pub(crate) id: String,
    /// Until when in ms, where that does not depend on the job.
    pub(crate) until: Option<u64>,
    pub(crate) follower: Option<String>,
    /// How the job stands, as in [`Answer`](super::submit::Answer).
    pub(crate) stands: Option<char>,
}

impl HeldKey {
    /// As `unique` has it; how its job stands is not known yet.
    fn read(key: String, value: &str) -> Self {
        let mut parts = value.split('#').map(str::to_owned);
        let mut part = || parts.next().unwrap_or_default();
        let (id, _, until, _, follower) = (part(), part(), part(), part(), part());
        let follower = Some(follower).filter(|follower| !follower.is_empty());
        Self { key, id, until: until.parse().ok(), follower, stands: None }
    }
}

impl Queue {
    /// A job that is known by this id, if one lives.
    pub(crate) async fn standing(
        &self,
        on: &Connection,
        id: &JobId,
    ) -> Result<Option<Standing>, Fault> {
        let mut value = match on.ask("HGET", (self.keys.ids(), id.as_str())).await {
            Err(fault) if fault.is_of_another_type() => return Ok(None),
            value => value?,
        };
        if value.left() == 0 {
            return Ok(None);
        }
        let value = value.bytes()?;
        let mut parts = value.splitn(3, |byte| *byte == b'\n');
        let (Some(head), Some(_), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Ok(None);
        };
        let head = String::from_utf8_lossy(head);
        let mut name = head.chars();
        let state = name.next();
        let Some(list) = List::parse(name.as_str()) else { return Ok(None) };
        let member = format!(":{list}#{}\n", id.as_str());
        let score = async |set: &str| {
            let mut score = on.ask("ZSCORE", (set, &member)).await?;
            let score: f64 = score.text().ok().and_then(|text| text.parse().ok()).unwrap_or(0.0);
            Ok::<_, Fault>(score.max(0.0) as u64)
        };
        let (at, payload) = match state {
            Some('w') => (Stand::Waits, rest.to_vec()),
            Some('f') => {
                let begin = rest.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                (Stand::Waits, rest[begin..].to_vec())
            }
            Some('s') => (Stand::Scheduled(score(&self.keys.scheduled).await?), rest.to_vec()),
            Some('p') => (Stand::Parked(score(&self.keys.parked).await?), rest.to_vec()),
            Some('r') => {
                let place = String::from_utf8_lossy(rest);
                // The lease may have blanks, as the id may.
                let Some((progress, lease)) = place.split_once(' ') else { return Ok(None) };
                let mut payload = on.ask("HGET", (progress, lease)).await?;
                let worker = self.keys.worker("").progress;
                let Some(worker) = progress.strip_prefix(&worker).filter(|_| payload.left() > 0)
                else {
                    return Ok(None);
                };
                let (worker, lease) = (worker.to_owned(), Lease::parse(lease));
                (Stand::Runs { worker, lease }, payload.bytes()?)
            }
            _ => return Ok(None),
        };
        Ok(Some(Standing { list, payload, at }))
    }

    /// Keys that jobs hold, from a place on, and where it goes on.
    pub(crate) async fn held_keys(
        &self,
        on: &Connection,
        from: HashPlace,
        count: u64,
    ) -> Result<(Vec<HeldKey>, Option<HashPlace>), Fault> {
        let (entries, next) = read_hash(on, &self.keys.unique(), from, count).await?;
        let mut held = Vec::with_capacity(entries.len());
        let mut ask = redis::Pipeline::with_capacity(entries.len());
        for (key, value, _) in entries {
            let key = String::from_utf8_lossy(&key).into_owned();
            let key = HeldKey::read(key, &String::from_utf8_lossy(&value));
            ask.cmd("HGET").arg(self.keys.ids()).arg(&key.id);
            held.push(key);
        }
        if !held.is_empty() {
            for (key, reply) in held.iter_mut().zip(on.ask_all(&ask).await?) {
                key.stands = how_it_stands(reply?);
            }
        }
        Ok((held, next))
    }

    /// This key, if somebody holds it.
    pub(crate) async fn held_key(
        &self,
        on: &Connection,
        key: &str,
    ) -> Result<Option<HeldKey>, Fault> {
        let mut value = on.ask("HGET", (self.keys.unique(), key)).await?;
        if value.left() == 0 {
            return Ok(None);
        }
        let held = HeldKey::read(key.to_owned(), &String::from_utf8_lossy(&value.bytes()?));
        let stands = how_it_stands(on.ask("HGET", (self.keys.ids(), &held.id)).await?);
        Ok(Some(HeldKey { stands, ..held }))
    }

    /// Frees a key; false where nobody held it.
    pub(crate) async fn unlock(&self, on: &Connection, key: &str) -> Result<bool, Fault> {
        let mut call = Call::new(Script::Unlock, &[&self.keys.jobs, &self.keys.bell]);
        call.arg(key);
        Ok(on.run(&call, CALL_WITHIN).await?.count()? > 0)
    }
}

/// Of what `ids` has of a job: `None` where it is no more.
fn how_it_stands(mut reply: Reply) -> Option<char> {
    let stands = reply.text().ok().and_then(|text| text.chars().next());
    stands.filter(char::is_ascii_lowercase)
}

//! The lists of a queue whose jobs have limits.

use crate::limit::List;
use crate::store::net::{Connection, Fault};
use crate::store::queue::Queue;
use crate::store::reply::Reply;

/// Groups of lists that are looked at; a queue serves no more.
const MOST_GROUPS: usize = 200;

impl Queue {
    /// The lists whose jobs have limits, by their names. A key that somebody made another type of has none.
    pub(crate) async fn limited_lists(&self, on: &Connection) -> Result<Vec<List>, Fault> {
        let mut lists = Vec::new();
        let mut of_keys = redis::Pipeline::new();
        let mut groups = Vec::new();
        for name in names(on.ask("ZRANGE", (self.lists(), 0, MOST_GROUPS - 1)).await)? {
            // The name of a group is that of its list with an empty key.
            match List::parse(&name) {
                Some(list) if list.key().is_some() => {
                    of_keys
                        .cmd("ZRANGE")
                        .arg(format!("{}:keys:{name}", self.keys.jobs))
                        .arg(0)
                        .arg(-1);
                    groups.push(name);
                }
                Some(list) if list.has_limits() => lists.push(list),
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

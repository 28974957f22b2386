//! The limits of all job types of a program, as a worker tells the server.

use super::{AtOnce, Limit, Rate};
use crate::fnv;

/// A queue serves no more lists whose jobs have limits, without their keys.
const MOST_LISTS: usize = 64;

/// What code says of limits.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DeclaredLimits {
    /// Of all fields: another program, or another version of it, may say something else.
    pub(crate) name: String,
    /// The fields where the server keeps what is in force, with their values: `-` for how many at once where nothing bounds it, or
    /// arguments do; an empty rate says that there is none.
    pub(crate) fields: Vec<(String, String)>,
}

impl DeclaredLimits {
    /// Of job types, each with its name. Says what is wrong if they do not fit together.
    pub(crate) fn of<'a>(
        types: impl Iterator<Item = (&'a str, &'a [Limit])>,
        problems: &mut Vec<String>,
    ) -> Self {
        let mut known: Vec<(String, &str, &Limit)> = Vec::new();
        let mut lists = Vec::new();
        for (job, limits) in types {
            for limit in limits {
                let name = limit.kept_as();
                match known.iter().find(|(other, ..)| *other == name) {
                    Some((_, other, same))
                        if (same.at_once, same.rate) != (limit.at_once, limit.rate) =>
                    {
                        problems.push(format!(
                            "the jobs `{other}` and `{job}` say different things of the limit `{}`; write the same for both, or give one \
                             another name",
                            limit.name
                        ));
                    }
                    Some(_) => {}
                    None => known.push((name, job, limit)),
                }
            }
            let list: Vec<_> = limits.iter().map(Limit::kept_as).collect();
            if !list.is_empty() && !lists.contains(&list) {
                lists.push(list);
            }
        }
        if lists.len() > MOST_LISTS {
            problems.push(format!(
                "the job types have {} different sets of limits, and a queue serves {MOST_LISTS}; let some share a limit by its name",
                lists.len()
            ));
        }
        let mut fields = Vec::new();
        for (name, _, limit) in known {
            let at_once = match limit.at_once {
                AtOnce::Of(most) => most.to_string(),
                AtOnce::Any | AtOnce::OfArguments => "-".to_owned(),
            };
            fields.push((format!("limit:{name}"), at_once));
            fields.push((format!("rate:{name}"), limit.rate.map_or_else(String::new, Rate::kept)));
        }
        fields.sort_unstable();
        let name = if fields.is_empty() {
            String::new()
        } else {
            format!("{:016x}", fnv::hash(format!("{fields:?}").as_bytes()))
        };
        Self { name, fields }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Scope, WhenFull};
    use super::*;

    fn limit(name: &'static str, scope: Scope, most: u32) -> Limit {
        let at_once = AtOnce::Of(most);
        Limit {
            name,
            scope,
            at_once,
            rate: None,
            when_full: WhenFull::Wait,
            max_waiting: None,
            halts: false,
        }
    }

    #[test]
    fn one_name_has_one_limit() {
        let (all, key) = (Scope::All, Scope::Key);
        let one = [limit("db", all, 3), limit("db", key, 1)];
        let mut problems = Vec::new();
        let types = [("a", &one[..]), ("b", &one[..1])];
        let declared = DeclaredLimits::of(types.into_iter(), &mut problems);
        assert_eq!((declared.fields.len(), problems.len()), (4, 0), "{declared:?}");
        let none = [Limit { at_once: AtOnce::Any, ..limit("all", key, 1) }];
        let fair = DeclaredLimits::of([("a", &none[..])].into_iter(), &mut problems);
        assert_eq!(fair.fields[0], ("limit:all=".to_owned(), "-".to_owned()), "it can be found");
        let other = [limit("db", all, 4)];
        let types = [("a", &one[..]), ("b", &other[..])];
        let changed = DeclaredLimits::of(types.into_iter(), &mut problems);
        assert!(problems.len() == 1 && problems[0].contains("`a` and `b`"), "{problems:?}");
        assert_eq!(changed, declared, "the first is kept");
        assert_eq!(
            DeclaredLimits::of(std::iter::empty(), &mut problems),
            DeclaredLimits::default()
        );
    }

    #[test]
    fn control_43_a_queue_serves_64_lists_with_limits() {
        // Job types, each with a limit of its own -> 64 are fine, and 65 are one problem, which says both numbers.
        // Guard: `MOST_LISTS`.
        let of_type = |number: usize| [limit(format!("limit-{number}").leak(), Scope::All, 1)];
        let all: Vec<_> = (0..65).map(of_type).collect();
        let problems_of = |count: usize| {
            let mut problems = Vec::new();
            let types = all[..count].iter().map(|own| (own[0].name, &own[..]));
            DeclaredLimits::of(types, &mut problems);
            problems
        };
        assert_eq!(problems_of(64), [""; 0]);
        let problems = problems_of(65);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("65") && problems[0].contains("64"), "{problems:?}");
    }
}

//! The filter of a list of jobs as it is written, condition by condition.

/// The conditions of a filter, as they are written.
pub(super) fn conditions(filter: &str) -> Vec<String> {
    let (mut all, mut one) = (Vec::new(), String::new());
    let (mut is_quoted, mut is_escaped) = (false, false);
    for c in filter.chars() {
        if c.is_whitespace() && !is_quoted {
            if !one.is_empty() {
                all.push(std::mem::take(&mut one));
            }
            continue;
        }
        is_quoted ^= c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped && is_quoted;
        one.push(c);
    }
    if !one.is_empty() {
        all.push(one);
    }
    all
}

/// The name of a condition with its sign, and what is asked of it.
pub(super) fn halves(condition: &str) -> (&str, &str) {
    let sign = condition.find([':', '=', '~', '<', '>']);
    sign.map_or((condition, ""), |at| {
        let (name, value) = condition.split_at(at);
        (name, value.strip_prefix(':').unwrap_or(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_taken_apart_at_spaces_that_are_not_quoted() {
        let filter = r#"job:a  error:"timed \" out" args.user_id=42"#;
        let all = conditions(filter);
        assert_eq!(all, ["job:a", r#"error:"timed \" out""#, "args.user_id=42"]);
        assert_eq!(conditions(&all.join(" ")), all);
        assert!(conditions(" ").is_empty());
        assert_eq!(halves("job:a:b"), ("job", "a:b"));
        assert_eq!((halves("age>2h"), halves("x")), (("age", ">2h"), ("x", "")));
    }
}

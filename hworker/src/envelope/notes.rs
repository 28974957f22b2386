//! What a producer notes beside the arguments: tags, and `meta`.

/// A job has at most this many tags.
const TAGS: usize = 16;

/// A tag has at most this many bytes.
const TAG_BYTES: usize = 64;

/// What is noted in `meta` has at most this many bytes of JSON.
const META_BYTES: usize = 4096;

/// Says what is wrong with tags, if anything is.
pub(crate) fn check_tags(tags: &[String]) -> Result<(), String> {
    if tags.len() > TAGS {
        return Err(format!("{} tags are too many; a job has at most {TAGS}", tags.len()));
    }
    let fits = |tag: &String| {
        (1..=TAG_BYTES).contains(&tag.len()) && !tag.contains(|c: char| c.is_control())
    };
    match tags.iter().find(|tag| !fits(tag)) {
        Some(tag) => Err(format!(
            "the tag {tag:?} is not of 1 to {TAG_BYTES} bytes without control characters"
        )),
        None => Ok(()),
    }
}

/// Says what is wrong with the JSON of `meta`, if anything is.
pub(crate) fn check_meta(json: &str) -> Result<(), String> {
    if json.len() > META_BYTES {
        return Err(format!("meta has {} bytes of JSON; it has at most {META_BYTES}", json.len()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_bounded() {
        let tags = |tag: &str, count: usize| check_tags(&vec![tag.to_owned(); count]);
        assert!(
            tags("eu", 16).is_ok() && tags(&"x".repeat(64), 1).is_ok() && tags("eu", 0).is_ok()
        );
        assert!(tags("eu", 17).is_err() && tags("", 1).is_err() && tags("a\n", 1).is_err());
        assert!(tags(&"x".repeat(65), 1).is_err());
        assert!(check_meta(&"x".repeat(4096)).is_ok() && check_meta(&"x".repeat(4097)).is_err());
    }
}

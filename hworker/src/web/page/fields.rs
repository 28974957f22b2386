//! What a form sent.

use axum::extract::{Form, FromRequest, Request};

use crate::envelope::JobId;
use crate::web::act::Which;
use crate::web::problem::Problem;

/// The fields of a form, in their order.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields(pub(super) Vec<(String, String)>);

impl<S: Send + Sync> FromRequest<S> for Fields {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let read = Form::<Vec<(String, String)>>::from_request(request, state).await;
        read.map(|Form(fields)| Self(fields))
            .map_err(|refused| Problem::of_rejection(refused.status(), refused.body_text()))
    }
}

impl Fields {
    /// The value of the first field of this name; nothing where there is none.
    pub(super) fn one<'a>(&'a self, name: &str) -> &'a str {
        self.all(name).next().unwrap_or_default()
    }

    /// The same without spaces around; `None` where nothing is left.
    pub(super) fn given<'a>(&'a self, name: &str) -> Option<&'a str> {
        Some(self.one(name).trim()).filter(|value| !value.is_empty())
    }

    pub(super) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(is, _)| is == name).map(|(_, value)| &**value)
    }

    /// A number, where one was given.
    pub(super) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Problem> {
        let Some(text) = self.given(name) else { return Ok(None) };
        let wrong = |_| Problem::invalid(format!("`{name}` is a number, and `{text}` is none"));
        text.replace(',', "").parse().map(Some).map_err(wrong)
    }

    /// A span of time, where one was given.
    pub(super) fn span(&self, name: &str) -> Result<Option<std::time::Duration>, Problem> {
        let Some(text) = self.given(name) else { return Ok(None) };
        crate::time::parse_duration(&text.replace(' ', "").replace("min", "m"))
            .map(Some)
            .map_err(Problem::invalid)
    }

    /// The chosen jobs: each as `<when it was seen>:<id>`. A button of one row names that alone, whatever else is chosen.
    pub(super) fn jobs(&self) -> Vec<Which> {
        let one = self.one("one").split_once(':').map(|(_, job)| job);
        let jobs: Vec<&str> = one.map_or_else(|| self.all("job").collect(), |job| vec![job]);
        jobs.into_iter().filter_map(which).collect()
    }

    /// What is to be done: a button of one row says it together with the job.
    pub(super) fn action(&self) -> &str {
        let one = self.one("one").split_once(':').map(|(action, _)| action);
        one.unwrap_or_else(|| self.one("action"))
    }
}

/// A job as a form names it.
pub(super) fn pick(at: Option<u64>, id: &str) -> String {
    format!("{}:{id}", at.map_or_else(String::new, |at| at.to_string()))
}

fn which(pick: &str) -> Option<Which> {
    let (seen, id) = pick.split_once(':').filter(|(_, id)| !id.is_empty())?;
    Some(Which { id: JobId::from(id), seen: seen.parse().ok() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(all: &[(&str, &str)]) -> Fields {
        Fields(all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn jobs_are_named_with_the_time_at_which_they_were_seen() {
        let chosen = fields(&[
            ("action", "retry"),
            ("job", &pick(Some(7), "a:b")),
            ("job", &pick(None, "c")),
            ("job", "x"),
        ]);
        let jobs = chosen.jobs();
        let jobs: Vec<_> = jobs.iter().map(|which| (which.id.as_str(), which.seen)).collect();
        assert_eq!(jobs, [("a:b", Some(7)), ("c", None)]);
        assert_eq!(chosen.action(), "retry");
        let row = fields(&[("job", "1:a"), ("one", "delete:2:b"), ("action", "")]);
        assert_eq!((row.action(), row.jobs().len(), row.jobs()[0].id.as_str()), ("delete", 1, "b"));
    }

    #[test]
    fn values_are_read_as_people_write_them() {
        let given = fields(&[("grace", " 1 min "), ("jobs", "1,000"), ("none", " ")]);
        assert_eq!(given.span("grace").unwrap(), Some(std::time::Duration::from_secs(60)));
        assert_eq!(given.number::<u32>("jobs").unwrap(), Some(1_000));
        assert_eq!((given.given("none"), given.one("other")), (None, ""));
        assert!(given.number::<u32>("grace").is_err());
    }
}

//! Return types that say nothing, at the return type.

struct NotAnError;
struct NotSerialised;
type Hidden = Result<(), NotAnError>;
type HiddenOutcome = Result<hworker::Outcome, NotAnError>;

#[hworker::job]
async fn error() -> Result<(), NotAnError> {
    Ok(())
}

#[hworker::job]
async fn hidden_error() -> Hidden {
    Ok(())
}

#[hworker::job]
fn hidden_error_of_an_outcome() -> HiddenOutcome {
    Ok(hworker::Outcome::Success)
}

#[hworker::job]
async fn value() -> NotSerialised {
    NotSerialised
}

#[hworker::job]
fn value_in_a_result() -> Result<NotSerialised, String> {
    Ok(NotSerialised)
}

#[hworker::job]
fn error_inside() -> Result<Hidden, String> {
    Ok(Ok(()))
}

fn main() {}

//! The jobs. SQLite blocks, so they are functions that are not async, each on a thread of its own.

use std::thread::sleep;
use std::time::Duration;

use hworker::{BoxError, Context, State};

use crate::bank::Bank;

/// How long a job takes between its steps.
#[derive(Debug, Clone)]
pub struct Dawdle(pub Duration);

/// Moves money from one account to another, once.
#[hworker::job]
pub fn transfer(
    from: String,
    to: String,
    cents: i64,
    bank: State<Bank>,
    dawdle: State<Dawdle>,
    context: Context,
) -> Result<(), BoxError> {
    if bank.transfer(context.id().as_str(), &from, &to, cents)? {
        println!("{cents} cents from {from} to {to}: booked");
    } else {
        println!("{cents} cents from {from} to {to}: was booked by an earlier run");
    }
    // Who is killed here has moved the money, and nobody has told Redis: the job runs again.
    sleep(dawdle.0.0);
    Ok(())
}

/// Writes down how much an account has. That takes a while.
#[hworker::job]
pub fn write_statement(
    account: String,
    bank: State<Bank>,
    dawdle: State<Dawdle>,
    context: Context,
) -> Result<(), BoxError> {
    let cents = bank.balance(&account)?;
    println!("statement of {account}: reads {cents} cents, under token {}", context.token());
    // Who is stopped here may lose the lease, and wakes up with what is no longer true.
    sleep(dawdle.0.0);
    if bank.write_statement(&account, cents, i64::try_from(context.token())?)? {
        println!("statement of {account}: {cents} cents, written");
    } else {
        println!("statement of {account}: {cents} cents, refused: a younger lease has written it");
    }
    Ok(())
}

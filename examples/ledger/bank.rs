//! The accounts, in an SQLite file. Any database with transactions serves as well, and the statements hardly differ.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

const SCHEMA: &str = "
    create table if not exists accounts (name text primary key, cents integer not null);
    -- One row for each transfer that was booked: the id of its job is the key.
    create table if not exists transfers (
        job text primary key, from_account text not null, to_account text not null, cents integer not null
    );
    -- The last statement of each account, and the token under which it was written.
    create table if not exists statements (
        account text primary key, cents integer not null, token integer not null
    );";

/// Where the accounts are. Cheap to clone; each use opens a connection of its own.
#[derive(Debug, Clone)]
pub struct Bank(PathBuf);

impl Bank {
    pub fn open(file: &Path) -> rusqlite::Result<Self> {
        let bank = Self(file.to_owned());
        bank.connect()?.execute_batch(SCHEMA)?;
        Ok(bank)
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        let connection = Connection::open(&self.0)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        Ok(connection)
    }

    pub fn deposit(&self, account: &str, cents: i64) -> rusqlite::Result<()> {
        let deposit = "insert into accounts values (?1, ?2)
            on conflict do update set cents = cents + excluded.cents";
        self.connect()?.execute(deposit, params![account, cents]).map(drop)
    }

    /// Moves money. Says whether it did: a job that was booked already is not booked again, however often it runs.
    pub fn transfer(&self, job: &str, from: &str, to: &str, cents: i64) -> rusqlite::Result<bool> {
        let mut connection = self.connect()?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let first = transaction.execute(
            "insert into transfers values (?1, ?2, ?3, ?4) on conflict do nothing",
            params![job, from, to, cents],
        )? == 1;
        if first {
            let add = "update accounts set cents = cents + ?2 where name = ?1";
            transaction.execute(add, params![from, -cents])?;
            transaction.execute(add, params![to, cents])?;
        }
        // The row of the job and the money are there together, or neither is.
        transaction.commit()?;
        Ok(first)
    }

    /// Replaces the statement of an account. Says whether it did: where one was written under a higher token, this lease
    /// was lost meanwhile, and what it knows is old.
    pub fn write_statement(&self, account: &str, cents: i64, token: i64) -> rusqlite::Result<bool> {
        let write = "insert into statements values (?1, ?2, ?3)
            on conflict do update set cents = excluded.cents, token = excluded.token
            where excluded.token >= statements.token";
        Ok(self.connect()?.execute(write, params![account, cents, token])? == 1)
    }

    pub fn balance(&self, account: &str) -> rusqlite::Result<i64> {
        let balance = "select cents from accounts where name = ?1";
        self.connect()?.query_row(balance, [account], |row| row.get(0))
    }

    /// What the last statement of an account says, if there is one.
    pub fn statement(&self, account: &str) -> rusqlite::Result<Option<i64>> {
        let statement = "select cents from statements where account = ?1";
        self.connect()?.query_row(statement, [account], |row| row.get(0)).optional()
    }

    pub fn transfers(&self) -> rusqlite::Result<i64> {
        self.connect()?.query_row("select count(*) from transfers", [], |row| row.get(0))
    }
}

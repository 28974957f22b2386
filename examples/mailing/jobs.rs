//! The job of the mailing: one personal mail.

use std::net::SocketAddr;

use anyhow::Context as _;
use hworker::{Context, State};
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::PoolConfig;
use lettre::transport::smtp::extension::ClientId;
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};

use crate::members::Member;

const LETTER: &str = include_str!("letter.txt");

/// The way to the mail server, with connections that the jobs share.
pub type Mailer = AsyncSmtpTransport<Tokio1Executor>;

pub fn mailer(smtp: SocketAddr, connections: u32) -> Mailer {
    // `relay(host)` and `credentials(..)` for a mail server that deserves them.
    Mailer::builder_dangerous(smtp.ip().to_string())
        .port(smtp.port())
        .hello_name(ClientId::Domain("localhost".into()))
        .pool_config(PoolConfig::new().max_size(connections))
        .build()
}

/// Sends one member the letter.
#[hworker::job(timeout = "1m", max_attempts = 10)]
pub async fn send_letter(
    member: Member,
    mailer: State<Mailer>,
    context: Context,
) -> anyhow::Result<()> {
    // What is wrong with an address today will be wrong tomorrow.
    let message = letter(&member, &context.id().to_string()).map_err(hworker::fail)?;
    match mailer.send(message).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_permanent() => Err(hworker::fail(error).into()),
        Err(error) => Err(error.into()),
    }
}

/// The mail of one member. All attempts of a job give it the same Message-ID: a mailbox that gets it twice, since a
/// worker was killed between sending it and saying so, can tell that it is one mail.
fn letter(member: &Member, job: &str) -> anyhow::Result<Message> {
    let Member { email, first_name, last_name, book, meetings } = member;
    let address = email.parse().with_context(|| format!("the address {email:?}"))?;
    let text = LETTER
        .replace("{first_name}", first_name)
        .replace("{book}", book)
        .replace("{meetings}", &meetings.to_string());
    let message = Message::builder()
        .from("The Reading Club <club@example.org>".parse()?)
        .to(Mailbox::new(Some(format!("{first_name} {last_name}")), address))
        .subject(format!("{first_name}, your seat for {book}"))
        .message_id(Some(format!("<{job}@example.org>")))
        .body(text)?;
    Ok(message)
}

//! A mail server that delivers nothing and remembers what it got: who, and under which Message-ID.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// What has arrived so far; clones share it.
#[derive(Clone, Default)]
pub struct Mailboxes(Arc<Mutex<HashMap<String, Mailbox>>>);

/// What has arrived for one recipient.
#[derive(Default, Clone)]
pub struct Mailbox {
    pub mails: usize,
    pub message_ids: BTreeSet<String>,
}

impl Mailboxes {
    /// How many recipients have got a mail.
    pub fn reached(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
    }

    pub fn of(&self, recipient: &str) -> Mailbox {
        let mailboxes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        mailboxes.get(recipient).cloned().unwrap_or_default()
    }

    fn deliver(&self, recipient: String, message_id: String) {
        let mut mailboxes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mailbox = mailboxes.entry(recipient).or_default();
        mailbox.mails += 1;
        mailbox.message_ids.insert(message_id);
    }
}

/// Takes mail on `listener` for ever.
pub async fn serve(listener: TcpListener, mailboxes: Mailboxes) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let mailboxes = mailboxes.clone();
        // A client that goes away in the middle of a mail has not sent it; there is nothing to do about it here.
        tokio::spawn(async move { Session::new(stream, mailboxes)?.run().await });
    }
}

/// Takes mail for ever and says every second how much it was.
pub async fn serve_and_count(listener: TcpListener) -> anyhow::Result<()> {
    println!("taking mail on {}", listener.local_addr()?);
    let mailboxes = Mailboxes::default();
    tokio::spawn(serve(listener, mailboxes.clone()));
    let mut said = 0;
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let reached = mailboxes.reached();
        if reached != said {
            println!("{reached} recipients have mail");
            said = reached;
        }
    }
}

/// One connection: as much of SMTP as a client needs to hand in mail.
struct Session {
    from_client: BufReader<OwnedReadHalf>,
    to_client: OwnedWriteHalf,
    mailboxes: Mailboxes,
    recipients: Vec<String>,
}

impl Session {
    fn new(stream: TcpStream, mailboxes: Mailboxes) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let (read, to_client) = stream.into_split();
        let from_client = BufReader::new(read);
        Ok(Self { from_client, to_client, mailboxes, recipients: Vec::new() })
    }

    async fn run(mut self) -> io::Result<()> {
        self.reply("220 sink").await?;
        while let Some(line) = self.line().await? {
            let command = line.get(..4).unwrap_or(&line).to_ascii_uppercase();
            match command.as_str() {
                "EHLO" => self.reply("250-sink\r\n250-8BITMIME\r\n250 SMTPUTF8").await?,
                "MAIL" | "RSET" => {
                    self.recipients.clear();
                    self.reply("250 ok").await?;
                }
                "RCPT" => {
                    self.recipients.push(address(&line).to_owned());
                    self.reply("250 ok").await?;
                }
                "DATA" if self.recipients.is_empty() => self.reply("503 to whom?").await?,
                "DATA" => self.mail().await?,
                "HELO" | "NOOP" => self.reply("250 ok").await?,
                "QUIT" => return self.reply("221 bye").await,
                _ => self.reply("502 not known here").await?,
            }
        }
        Ok(())
    }

    /// Reads a mail up to the line with a single dot. It counts once the client was told so, or would have been.
    async fn mail(&mut self) -> io::Result<()> {
        self.reply("354 go on").await?;
        let mut message_id = String::new();
        while let Some(line) = self.line().await? {
            if line == "." {
                for recipient in self.recipients.drain(..) {
                    self.mailboxes.deliver(recipient, message_id.clone());
                }
                return self.reply("250 delivered").await;
            }
            if let Some(id) = line.strip_prefix("Message-ID: ") {
                message_id = id.to_owned();
            }
        }
        Ok(())
    }

    /// The next line without its end, or `None` where the client has gone.
    async fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        let read = self.from_client.read_until(b'\n', &mut line).await?;
        let line = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
        Ok((read > 0).then_some(line))
    }

    async fn reply(&mut self, text: &str) -> io::Result<()> {
        self.to_client.write_all(format!("{text}\r\n").as_bytes()).await
    }
}

/// `ada@example.org` of `RCPT TO:<ada@example.org>`.
fn address(line: &str) -> &str {
    let inside = line.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    inside.map_or(line, |(address, _)| address)
}

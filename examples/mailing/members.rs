//! The members of a reading club, as a CSV file has them.

use std::io::Read;

use serde::{Deserialize, Serialize};

const FIRST: [&str; 25] = [
    "Ada",
    "Björn",
    "Chiara",
    "David",
    "Élodie",
    "Farid",
    "Grace",
    "Hana",
    "Ibrahim",
    "José",
    "Katarzyna",
    "Liam",
    "Mei",
    "Noor",
    "Oksana",
    "Priya",
    "Quentin",
    "Rosa",
    "Sven",
    "Thandi",
    "Uma",
    "Viktor",
    "Wanjiru",
    "Ximena",
    "Zoë",
];
const LAST: [&str; 24] = [
    "Almeida", "Bauer", "Chen", "Dubois", "Eriksson", "Fischer", "García", "Haddad", "Ivanova",
    "Jensen", "Kowalski", "Lovelace", "Müller", "Nakamura", "O'Brien", "Petrov", "Quispe", "Rossi",
    "Singh", "Tanaka", "Uzun", "Virtanen", "Wójcik", "Yilmaz",
];
const BOOKS: [&str; 7] = [
    "Middlemarch",
    "The Left Hand of Darkness",
    "Pedro Páramo",
    "Things Fall Apart",
    "The Master and Margarita",
    "Kokoro",
    "Invisible Cities",
];
const DOMAINS: [&str; 3] = ["example.org", "example.com", "example.net"];

/// One line of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Member {
    pub email: String,
    pub first_name: String,
    pub last_name: String,
    pub book: String,
    pub meetings: u32,
}

/// The same members for the same `count` every time; no two have the same address.
pub fn sample(count: usize) -> impl Iterator<Item = Member> {
    (0..count).map(|number| {
        // The lengths of the lists have no common factor, so the combinations come round late.
        let (first, last) = (FIRST[number % FIRST.len()], LAST[number % LAST.len()]);
        let plain =
            |name: &str| -> String { name.to_lowercase().chars().filter_map(ascii).collect() };
        let domain = DOMAINS[number % DOMAINS.len()];
        Member {
            email: format!("{}.{}.{number}@{domain}", plain(first), plain(last)),
            first_name: first.into(),
            last_name: last.into(),
            book: BOOKS[number % BOOKS.len()].into(),
            meetings: (number % 11) as u32 + 1,
        }
    })
}

/// The letter as an address has it.
fn ascii(letter: char) -> Option<char> {
    match letter {
        'á' => Some('a'),
        'é' | 'ë' => Some('e'),
        'í' => Some('i'),
        'ó' | 'ö' => Some('o'),
        'ü' => Some('u'),
        'a'..='z' => Some(letter),
        _ => None,
    }
}

/// # Errors
/// Where a member cannot be written.
pub fn to_csv(members: impl Iterator<Item = Member>) -> anyhow::Result<Vec<u8>> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    for member in members {
        csv.serialize(member)?;
    }
    Ok(csv.into_inner()?)
}

/// Each line is a member, or an error that says which line is none.
pub fn from_csv(csv: impl Read) -> impl Iterator<Item = Result<Member, csv::Error>> {
    csv::Reader::from_reader(csv).into_deserialize()
}

use proptest::prelude::*;
use serde_json::{Value, json};

use super::cipher::{Key, parse};
use super::{KeyRing, Opened, Owner, Sealed, Unopened, What, is_sealed, open};
use crate::error::Problems;

const OWNER: Owner<'_> = Owner { what: What::Args, job: "send_welcome", id: "order-7-welcome" };

/// The vector of `docs/wire-format.md`, made with libsodium.
const VECTOR: &str = include_str!("../../../tests/golden/encrypted.json");
const PLAIN: &str = r#"{"to":"ada@example.org","user_id":42}"#;

fn counting() -> [u8; 32] {
    std::array::from_fn(|index| index as u8)
}

fn ring(keys: &[(&str, [u8; 32])]) -> KeyRing {
    let mut problems = Problems(Vec::new());
    let keys = keys.iter().map(|(id, key)| Key::new((*id).to_owned(), key)).collect();
    let ring = KeyRing::new(keys, &mut problems).expect("a key");
    assert_eq!(problems.0, [""; 0]);
    ring
}

fn sealed(ring: &KeyRing, args: &Value) -> String {
    let (sealed, _) = ring.seal(args, OWNER).expect("encrypted");
    serde_json::to_string(&sealed).expect("JSON")
}

fn text(opened: Result<Opened, Unopened>) -> String {
    opened.expect("opens").as_str().to_owned()
}

#[test]
fn the_documented_vector_opens_and_is_what_would_be_written() {
    let envelope: Value = serde_json::from_str(VECTOR).expect("JSON");
    let args = envelope["args"].to_string();
    assert!(is_sealed(&args));
    let ring = ring(&[("2026-11", counting())]);
    assert_eq!(text(open(Some(&ring), &args, OWNER)), PLAIN);

    let nonce: [u8; 24] = std::array::from_fn(|index| 0x40 + index as u8);
    let key = Key::new("2026-11".into(), &counting());
    let (nonce, data) =
        key.seal_with(nonce.into(), PLAIN.into(), &OWNER.text()).expect("encrypted");
    assert_eq!(envelope["args"]["$sealed"]["nonce"], nonce);
    assert_eq!(envelope["args"]["$sealed"]["data"], data);
    // Without the padding too.
    let bare = args.replace('=', "");
    assert!(bare.len() < args.len());
    assert_eq!(text(open(Some(&ring), &bare, OWNER)), PLAIN);
}

#[test]
fn old_and_new_keys_open_and_the_first_one_seals() {
    let (old, new) = (("old", [1; 32]), ("new", [2; 32]));
    let before = sealed(&ring(&[old]), &json!({"n": 1}));
    let both = ring(&[new, old]);
    assert_eq!(text(open(Some(&both), &before, OWNER)), r#"{"n":1}"#);
    let after = sealed(&both, &json!({"n": 2}));
    assert!(after.contains(r#""key":"new""#), "{after}");
    // A worker that comes to know the new key before it is used.
    assert_eq!(text(open(Some(&ring(&[old, new])), &after, OWNER)), r#"{"n":2}"#);
    let Err(Unopened::Lacking(why)) = open(Some(&ring(&[old])), &after, OWNER) else {
        panic!("it has no such key")
    };
    assert_eq!(why, "encrypted with the key `new`, unknown here");
    assert!(matches!(open(None, &after, OWNER), Err(Unopened::Lacking(_))));
}

#[test]
fn what_belongs_to_another_job_or_key_does_not_open() {
    let ring = ring(&[("k", [1; 32])]);
    let args = sealed(&ring, &json!({"n": 1}));
    for owner in [
        Owner { id: "order-8-welcome", ..OWNER },
        Owner { job: "send_bill", ..OWNER },
        Owner { what: What::Result, ..OWNER },
        Owner { job: "send_welcome\norder-7", id: "-welcome", ..OWNER },
    ] {
        assert!(matches!(open(Some(&ring), &args, owner), Err(Unopened::Lacking(_))), "{owner:?}");
    }
    let other = super::tests::ring(&[("k", [2; 32])]);
    let Err(Unopened::Lacking(why)) = open(Some(&other), &args, OWNER) else {
        panic!("the key has another value")
    };
    assert!(why.contains("`k`") && why.contains("another value"), "{why}");
}

#[test]
fn only_an_object_is_opened() {
    let ring = ring(&[("k", [1; 32])]);
    for args in [json!([1]), json!("s3cret"), json!(null)] {
        let args = sealed(&ring, &args);
        let Err(Unopened::Refused(why)) = open(Some(&ring), &args, OWNER) else { panic!("{args}") };
        assert!(why.ends_with("are not an object by parameter name"), "{why}");
    }
}

#[test]
fn what_is_no_encrypted_form_is_refused_without_its_values() {
    let ring = ring(&[("k", [1; 32])]);
    for args in [
        r#"{"$sealed":"s3cret"}"#,
        r#"{"$sealed":{"alg":"XC20P","key":"k","nonce":"s3cret"}}"#,
        r#"{"$sealed":{"alg":"XC20P","key":"k","nonce":"s3cret!","data":"s3cret!"}}"#,
        r#"{"$sealed":{"alg":"XC20P","key":"k","nonce":"","data":""}}"#,
        r#"{ "$sealed":{"alg":"XC20P","key":"k","nonce":1,"data":"s3cret"}}"#,
    ] {
        assert!(is_sealed(args));
        let Err(Unopened::Refused(why)) = open(Some(&ring), args, OWNER) else { panic!("{args}") };
        assert!(!why.contains("s3cret"), "{why}");
    }
    for newer in [
        r#"{"$sealed":{"alg":"ML\nX","key":"k","nonce":"","data":""}}"#,
        r#"{"$sealed":{"alg":"ML\nX","keys":[1,2],"nonce":3}}"#,
    ] {
        let Err(Unopened::Lacking(why)) = open(Some(&ring), newer, OWNER) else {
            panic!("{newer}")
        };
        assert_eq!(why, "encrypted in a way (`alg`) unknown here");
    }
    for plain in ["{}", r#"{"a":{"$sealed":1}}"#, r#"{"sealed":1}"#, "{", ""] {
        assert!(!is_sealed(plain), "{plain}");
    }
}

#[test]
fn files_of_keys_are_read_and_what_is_wrong_in_them_is_not_repeated() {
    let good = "# made in November\n\n  new AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=\r\n\
        old\tAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE\n";
    let keys = parse(good).expect("two keys");
    assert_eq!(format!("{keys:?}"), r#"[Key("new"), Key("old")]"#);
    let mut problems = Problems(Vec::new());
    let read = KeyRing::new(keys, &mut problems).expect("keys");
    let args = sealed(&ring(&[("new", [2; 32])]), &json!({}));
    assert_eq!(text(open(Some(&read), &args, OWNER)), "{}");

    for (wrong, why) in [
        ("", "no key"),
        ("# none\n", "no key"),
        ("a AgIC\n", "line 1"),
        ("\nAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=\n", "line 2"),
        ("a AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI= more", "line 1"),
    ] {
        let error = parse(wrong).expect_err("wrong");
        assert!(error.contains(why) && !error.contains("AgIC"), "{error}");
    }
    for (names, why) in
        [(["a", "a"], "two encryption keys of the name `a`"), (["a", "b c"], "of the form")]
    {
        let mut problems = Problems(Vec::new());
        KeyRing::new(names.map(|id| Key::new(id.into(), &[1; 32])).into(), &mut problems);
        assert!(problems.0.len() == 1 && problems.0[0].contains(why), "{problems:?}");
    }
}

#[test]
fn nothing_of_a_key_is_in_debug() {
    let ring = ring(&[("k", [171; 32])]);
    assert_eq!(format!("{ring:?}"), r#"[Key("k")]"#);
    let args = sealed(&ring, &json!({"a": "s3cret"}));
    assert!(!args.contains("s3cret"));
    assert_eq!(format!("{:?}", open(Some(&ring), &args, OWNER)), "Ok(Opened)");
}

proptest! {
    #[test]
    fn what_is_sealed_opens_as_it_was_and_not_with_any_bit_changed(
        key: [u8; 32],
        args in prop::collection::btree_map(".{0,8}", ".{0,40}", 0..4),
        flipped: prop::sample::Index,
        bit in 0..8_u8,
    ) {
        let ring = ring(&[("k", key)]);
        let args = json!(args);
        let sealed = sealed(&ring, &args);
        prop_assert_eq!(text(open(Some(&ring), &sealed, OWNER)), args.to_string());
        let mut bytes = sealed.clone().into_bytes();
        bytes[flipped.index(sealed.len())] ^= 1 << bit;
        // In what is not text any more, or not this form, nothing is to be opened.
        if let Ok(changed) = str::from_utf8(&bytes) {
            prop_assert!(!is_sealed(changed) || open(Some(&ring), changed, OWNER).is_err());
        }
    }

    #[test]
    fn no_two_are_alike(args in ".{0,40}") {
        let ring = ring(&[("k", [1; 32])]);
        let args = json!({ "a": args });
        prop_assert!(sealed(&ring, &args) != sealed(&ring, &args));
        let (form, _): (Sealed<'_>, bool) = ring.seal(&args, OWNER).expect("encrypted");
        prop_assert_eq!(form.parts.nonce.len(), 32);
    }
}

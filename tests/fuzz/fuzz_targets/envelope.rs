//! Payloads: what is read of them, and what is written back.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hworker::properties::envelope(data));

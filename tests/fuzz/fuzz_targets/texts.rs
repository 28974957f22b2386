//! Durations, backoffs and the names of leases.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hworker::properties::texts(data));

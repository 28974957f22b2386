//! JSON that is written with a check for floats.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hworker::properties::json(data));

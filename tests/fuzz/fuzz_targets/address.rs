//! URLs of servers, which may hold a password.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hworker::properties::address(data));

//! When the address of the probes is free again. In a program of its own: a test beside it that starts a process keeps
//! what is open here open until that process runs its own program.

use std::net::TcpListener;

use hworker_tests::{TestServer, act};

#[tokio::test(flavor = "multi_thread")]
async fn the_address_is_free_once_the_worker_has_ended() {
    // A worker that ends, and the next one in the same process at the same address, many times -> none finds it taken.
    // Guard: whoever drops the `Endpoint` waits for its thread.
    let server = TestServer::start();
    let address = TcpListener::bind("127.0.0.1:0").and_then(|found| found.local_addr());
    let address = address.expect("a port that is free");
    for _ in 0..50 {
        let worker = server.worker().register::<act>().health(address).build().expect("a worker");
        let handle = worker.handle();
        handle.stop();
        worker.run_until(std::future::pending()).await.expect("the address is free");
    }
}

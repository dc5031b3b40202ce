//! Any bytes on the service's socket. Whatever they are, the service says something of its health afterwards.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use sarouter_fuzz::Service;

static SERVICE: LazyLock<Service> = LazyLock::new(Service::start);

const HEALTH: &[u8] = b"GET /v1/health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

fuzz_target!(init: { LazyLock::force(&SERVICE); }, |request: &[u8]| {
    SERVICE.tell("api.sock", request);
    let health = SERVICE.ask("api.sock", HEALTH);
    assert!(health.starts_with(b"HTTP/1.1 "), "{}", String::from_utf8_lossy(&health));
});

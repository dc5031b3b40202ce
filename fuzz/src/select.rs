//! Any bytes on the socket of the plugin that chooses nodes. A question afterwards is answered.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use sarouter_fuzz::Service;

static SERVICE: LazyLock<Service> = LazyLock::new(Service::start);

fuzz_target!(init: { LazyLock::force(&SERVICE); }, |lines: &[u8]| {
    SERVICE.tell("select.sock", lines);
    let said = SERVICE.tell("select.sock", b"1 77 2 prefer\n");
    assert!(said.starts_with(b"1 77 n"), "{}", String::from_utf8_lossy(&said));
});

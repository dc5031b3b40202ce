//! What hostile users do to a service, over and over: slow, huge, nested, half-closed, smuggled, replayed, many.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

/// A token that may read.
pub const TOKEN: &str = "0123456789abcdef-read";

/// Whom to attack.
pub struct Target {
    /// Its socket.
    pub socket: PathBuf,
    /// Its port.
    pub port: u16,
}

impl Target {
    fn connect(&self) -> std::io::Result<UnixStream> {
        let stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        Ok(stream)
    }

    fn tcp(&self) -> std::io::Result<TcpStream> {
        TcpStream::connect(("127.0.0.1", self.port))
    }

    /// Sends, says that no more comes, and reads all.
    fn tell(&self, bytes: &[u8]) -> std::io::Result<()> {
        let mut stream = self.connect()?;
        stream.write_all(bytes)?;
        stream.shutdown(Shutdown::Write)?;
        std::io::copy(&mut stream, &mut std::io::sink()).map(drop)
    }
}

fn request(method: &str, path: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}");
    format!("{head}content-length: {length}\r\n\r\n{body}").into_bytes()
}

fn get(path: &str) -> Vec<u8> {
    request("GET", path, "", "")
}

fn many(path: &str) -> Vec<u8> {
    get(path).repeat(100)
}

/// What it is, and one go.
pub type Attack = (&'static str, fn(&Target) -> std::io::Result<()>);

/// Ways of strangers to keep a service busy. Nothing of it is answered with more than it should.
pub const ATTACKS: &[Attack] = &[
    ("health, pipelined", |t| t.tell(&many("/v1/health"))),
    ("metrics, pipelined", |t| t.tell(&many("/metrics"))),
    ("the page, pipelined", |t| t.tell(&many("/page.js"))),
    ("the document, pipelined", |t| t.tell(&many("/v1/openapi.json"))),
    ("all looks", |t| t.tell(&get("/v1/snapshots?last=100000"))),
    ("all epochs", |t| t.tell(&get("/v1/epochs?limit=10000"))),
    ("an epoch", |t| t.tell(&get("/v1/epochs/current"))),
    ("tables as a file", |t| t.tell(&get("/v1/epochs/1/files/lft.bin"))),
    ("a name that all have", |t| t.tell(&get("/v1/find?what=n"))),
    ("loads", |t| t.tell(&get("/v1/load?against=opensm"))),
    ("jobs", |t| t.tell(&get("/v1/jobs?against=opensm"))),
    ("other engines", |t| t.tell(&request("POST", "/v1/engines/nue", "", ""))),
    ("nodes", |t| t.tell(&get("/v1/place?nodes=100"))),
    ("a table", |t| t.tell(&get("/v1/epochs/1/switches/0x200000"))),
    ("dry runs", |t| t.tell(&request("POST", "/v1/plan", "", r#"{"jobs": "7 n[1-1000]\n8 n[1-8]"}"#))),
    ("long dry runs", |t| {
        let jobs = "7 n[1-9]\\n".repeat(90_000);
        t.tell(&request("POST", "/v1/plan", "", &format!("{{\"jobs\": \"{jobs}\"}}")))
    }),
    ("deep bodies", |t| t.tell(&request("POST", "/v1/plan", "", &"[".repeat(1 << 20)))),
    ("pictures, hung up", |t| t.connect()?.write_all(&get("/v1/load?against=opensm"))),
    ("connections", |t| t.connect().map(drop)),
    ("connections that stay", |t| {
        let _there = t.connect()?;
        sleep(Duration::from_millis(200));
        Ok(())
    }),
    ("half a request", |t| {
        t.connect()?.write_all(b"GET /v1/health HTTP/1.1\r\nhost: lo")?;
        Ok(())
    }),
    ("answers not read", |t| {
        let mut stream = t.connect()?;
        stream.set_write_timeout(Some(Duration::from_secs(1)))?;
        while stream.write_all(&many("/v1/openapi.json")).is_ok() {}
        Ok(())
    }),
    ("refused", |t| t.tell(&request("POST", "/v1/look", "", ""))),
    ("long paths", |t| t.tell(&get(&format!("/{}", "a%2f".repeat(4000))))),
    ("many headers", |t| t.tell(&request("GET", "/v1/health", &"x: y\r\n".repeat(90), ""))),
    ("too many headers", |t| t.tell(&request("GET", "/v1/health", &"x: y\r\n".repeat(5000), ""))),
    ("small chunks", |t| {
        let head = "POST /v1/plan HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
        t.tell(format!("{head}{}0\r\n\r\n", "1\r\n \r\n".repeat(20_000)).as_bytes())
    }),
    ("smuggled", |t| {
        let inner = "POST /v1/look HTTP/1.1\r\nhost: localhost\r\n\r\n";
        let head = "POST /v1/plan HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n";
        t.tell(format!("{head}content-length: 4\r\n\r\n0\r\n\r\n{inner}").as_bytes())
    }),
    ("TCP connections", |t| t.tcp().map(drop)),
    ("wrong tokens", |t| {
        t.tcp()?.write_all(&request("GET", "/v1/health", "authorization: Bearer no\r\n", ""))?;
        Ok(())
    }),
    ("a token, pipelined", |t| {
        let mut stream = t.tcp()?;
        let asked = request("GET", "/metrics", &format!("authorization: Bearer {TOKEN}\r\n"), "");
        stream.write_all(&asked.repeat(100))?;
        stream.shutdown(Shutdown::Write)?;
        std::io::copy(&mut stream, &mut std::io::sink()).map(drop)
    }),
    ("noise", |t| {
        t.tell(&(0..1 << 16).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect::<Vec<u8>>())
    }),
];

//! Chromium without a screen, told what to do over WebDriver (Debian's chromium-driver), and the
//! port through which it reaches a unix socket, as `ssh -L PORT:SOCKET` makes one.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::spawn;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use super::testbed::await_some;

/// Sends what comes to a free port of loopback to a unix socket. Returns the port; goes on until
/// the process ends.
pub fn forward(socket: PathBuf) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    spawn(move || {
        for near in listener.incoming().flatten() {
            let Ok(far) = UnixStream::connect(&socket) else { continue };
            let (mut a, mut b) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            spawn(move || io::copy(&mut a, &mut b).and_then(|_| b.shutdown(Shutdown::Write)));
            let (mut a, mut b) = (far, near);
            spawn(move || io::copy(&mut a, &mut b).and_then(|_| b.shutdown(Shutdown::Write)));
        }
    });
    port
}

/// A browser with one window. Ends when dropped.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

/// Starts a driver; its port, unless it has ended without one.
fn driver() -> Option<(Child, u16)> {
    let mut driver = Command::new("chromedriver")
        .arg("--port=0")
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("chromedriver, of Debian's chromium-driver");
    let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines().map_while(Result::ok);
    let port =
        lines.find_map(|line| line.split("successfully on port ").nth(1)?.trim_end_matches('.').parse().ok());
    if port.is_none() {
        let _ = driver.kill();
        let _ = driver.wait();
    }
    Some((driver, port?))
}

impl Browser {
    /// Starts one that finds no host but loopback.
    pub fn start(width: u32, height: u32) -> Self {
        let profile = tempfile::tempdir().unwrap();
        // It ends where somebody else takes the port that it has chosen.
        let (driver, port) = (0..5).find_map(|_| driver()).expect("a port for chromedriver");
        let mut browser = Self { driver, port, session: String::new(), _profile: profile };
        let mut arguments: Vec<String> = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        ]
        .map(String::from)
        .to_vec();
        arguments.push(format!("--window-size={width},{height}"));
        arguments.push(format!("--user-data-dir={}", browser._profile.path().display()));
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}}});
        let answer = browser.tell("POST", "/session", Some(&wanted));
        browser.session = answer["sessionId"].as_str().expect("a session").to_string();
        browser
    }

    /// One WebDriver command; panics with the driver's words if it fails.
    fn tell(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let value = self.ask(method, path, body);
        assert!(value.get("error").is_none(), "{method} {path} {body:?}: {value}");
        value
    }

    /// One WebDriver command, and what the driver says of it.
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost:{}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let (mut line, mut length) = (String::new(), 0);
        while reader.read_line(&mut line).unwrap() > 2 {
            if let Some((_, value)) = line.to_ascii_lowercase().split_once("content-length:") {
                length = value.trim().parse().unwrap();
            }
            line.clear();
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer).unwrap();
        let mut answer: Value = serde_json::from_slice(&answer).unwrap();
        answer["value"].take()
    }

    fn here(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        self.tell(method, &format!("/session/{}{path}", self.session), body.as_ref())
    }

    /// Goes to an address and waits until the page is loaded.
    pub fn go(&self, url: &str) {
        self.here("POST", "/url", Some(json!({"url": url})));
    }

    /// The value of a JavaScript expression.
    pub fn eval(&self, expression: &str) -> Value {
        let value = self.attempt(expression);
        assert!(value.get("error").is_none(), "{expression}: {value}");
        value
    }

    /// The value of a JavaScript expression, or what it threw.
    fn attempt(&self, expression: &str) -> Value {
        let path = format!("/session/{}/execute/sync", self.session);
        self.ask("POST", &path, Some(&json!({"script": format!("return {expression}"), "args": []})))
    }

    /// Gives what is seen of the page another size. Of a window without a screen all is page.
    pub fn resize(&self, width: u64, height: u64) {
        let params = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        let command = json!({"cmd": "Emulation.setDeviceMetricsOverride", "params": params});
        self.here("POST", "/goog/cdp/execute", Some(command));
    }

    /// Waits until a JavaScript expression is true. One that throws is not true yet: the element that it reads may
    /// still be to come.
    pub fn until(&self, expression: &str) {
        await_some(expression, || {
            let value = self.attempt(expression);
            match value["error"].as_str() {
                None | Some("javascript error") => (value == true).then_some(()),
                Some(_) => panic!("{expression}: {value}"),
            }
        });
    }

    fn element(&self, css: &str) -> String {
        let found = self.here("POST", "/element", Some(json!({"using": "css selector", "value": css})));
        let id = found.as_object().and_then(|o| o.values().next()).and_then(Value::as_str);
        id.unwrap_or_else(|| panic!("{css}: {found}")).to_string()
    }

    /// Clicks as a person does: it must be visible and not covered. A page that still moves, as answers come, is aimed
    /// at again.
    pub fn click(&self, css: &str) {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let path = format!("/session/{}/element/{}/click", self.session, self.element(css));
            let value = self.ask("POST", &path, Some(&json!({})));
            match value["error"].as_str() {
                None => return,
                Some("element click intercepted" | "stale element reference") if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                Some(_) => panic!("click {css}: {value}"),
            }
        }
    }

    /// Replaces what is in a field.
    pub fn write(&self, css: &str, text: &str) {
        let element = self.element(css);
        self.here("POST", &format!("/element/{element}/clear"), Some(json!({})));
        self.here("POST", &format!("/element/{element}/value"), Some(json!({"text": text})));
    }

    /// Moves the mouse to a place of the window, or presses and lets go its left button there: `mouseMoved`,
    /// `mousePressed`, `mouseReleased`. While it moves the button may be `held`.
    pub fn mouse(&self, kind: &str, [x, y]: [f64; 2], held: bool) {
        let button = if kind == "mouseMoved" && !held { "none" } else { "left" };
        let buttons = u8::from(held || kind == "mousePressed");
        let params =
            json!({"type": kind, "x": x, "y": y, "button": button, "buttons": buttons, "clickCount": 1});
        let command = json!({"cmd": "Input.dispatchMouseEvent", "params": params});
        self.here("POST", "/goog/cdp/execute", Some(command));
    }

    /// What the person's system prefers: `light` or `dark`.
    pub fn prefer(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        let command = json!({"cmd": "Emulation.setEmulatedMedia", "params": {"features": features}});
        self.here("POST", "/goog/cdp/execute", Some(command));
    }

    /// Has a script run in each page that is loaded from now on, before its own.
    pub fn before_all(&self, script: &str) {
        let params = json!({"source": script});
        let command = json!({"cmd": "Page.addScriptToEvaluateOnNewDocument", "params": params});
        self.here("POST", "/goog/cdp/execute", Some(command));
    }

    /// For which medium the page is laid out: `print`, or nothing for the screen.
    pub fn media(&self, medium: &str) {
        let command = json!({"cmd": "Emulation.setEmulatedMedia", "params": {"media": medium}});
        self.here("POST", "/goog/cdp/execute", Some(command));
    }

    /// Complaints of the browser since the last call: failed requests, what the policy forbids, errors. A late answer about
    /// the baseline is none: a busy machine has them, and the page asks again.
    pub fn complaints(&self) -> Vec<Value> {
        let log = self.here("POST", "/se/log", Some(json!({"type": "browser"})));
        // A warning is advice for programmers: that the tests read the picture's pixels brings one.
        let late = |entry: &Value| {
            let says = |what: &str| entry["message"].as_str().is_some_and(|text| text.contains(what));
            says("against=opensm") && says("504 (Gateway Timeout)")
        };
        let severe = |entry: &Value| entry["level"] == "SEVERE" && !late(entry);
        log.as_array().unwrap().iter().filter(|e| severe(e)).cloned().collect()
    }

    /// A picture of the window as PNG, in the directory that `SAROUTER_SCREENSHOTS` names, if any.
    pub fn screenshot(&self, name: &str) {
        let Some(directory) = std::env::var_os("SAROUTER_SCREENSHOTS") else { return };
        let text = self.here("GET", "/screenshot", None);
        let file = Path::new(&directory).join(format!("{name}.png"));
        std::fs::write(file, base64(text.as_str().unwrap())).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.here("DELETE", "", None);
        }
        // The browser is a process of the driver's group and would outlive it.
        let _ = kill_process_group(Pid::from_child(&self.driver), Signal::KILL);
        let _ = self.driver.wait();
    }
}

/// Bytes of base64 text.
fn base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits: Vec<u32> =
        text.bytes().filter_map(|c| ALPHABET.iter().position(|a| *a == c)).map(|d| d as u32).collect();
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for four in digits.chunks(4) {
        let bits = four.iter().fold(0, |bits, d| bits << 6 | d) << (6 * (4 - four.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..four.len()]);
    }
    bytes
}

//! The web page in Chromium: who is signed in, by which right, and what is said to whoever is not.

use super::browser::Browser;
use super::page::{READ, Site, WRITE, text};

fn sign_in(browser: &Browser, token: &str) {
    browser.until("document.getElementById('login').checkVisibility()");
    browser.write("#token", token);
    browser.click("#login button");
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn a_wrong_token_is_said_to_be_wrong_and_a_right_one_says_who_is_signed_in() {
    let (site, far) = Site::with_tokens("fattree:10x18,5", &["1 n[1-60]\n".to_string()]);
    let near = site.address();
    let browser = Browser::start(1400, 1000);
    browser.go(&far);
    browser.until("document.getElementById('state')?.textContent === 'not signed in'");
    assert_eq!(text(&browser, "login-said"), "", "no token was tried");
    sign_in(&browser, "0123456789abcdef-wrong");
    browser.until("document.getElementById('login-said').textContent !== ''");
    assert_eq!(
        text(&browser, "login-said"),
        "The service does not accept this token: it is wrong, or it has expired."
    );
    assert_eq!(
        browser.eval("[sessionStorage.getItem('token'), $('token').value, $('sign-out').hidden]"),
        serde_json::json!([null, "", true])
    );

    sign_in(&browser, READ);
    browser.until("document.getElementById('who').textContent === 'signed in as reader'");
    browser.until("document.querySelectorAll('#jobs tr').length === 1");
    assert_eq!(browser.eval("$('login').checkVisibility()"), false);
    // What is beyond its right is no reason to sign in again.
    let hold = "carryOut({ title: 'Hold', name: 'hold', path: 'v1/hold', body: (reason) => ({ reason }), done: () => 'held' }, 'x', false)";
    browser.eval(&format!("inTurn(() => {hold}) && true"));
    browser.until("document.getElementById('health').textContent.includes('not done (hold): this token may not do this, ')");
    assert_eq!(browser.eval("$('login').checkVisibility()"), false);
    assert!(!text(&browser, "health").contains("HELD"));

    browser.click("#sign-out");
    browser.until("document.getElementById('state')?.textContent === 'not signed in'");
    assert_eq!(browser.eval("document.querySelectorAll('#jobs tr').length"), 0, "nothing stays");
    assert_eq!(text(&browser, "who"), "");
    sign_in(&browser, WRITE);
    browser.until("document.getElementById('who').textContent === 'signed in as operator'");
    browser.until("document.querySelector('#hand [data-act=hold]') !== null");

    // Over the socket the kernel knows who asks: there is nothing to sign out of.
    browser.go(&near);
    browser.until("document.querySelectorAll('#jobs tr').length === 1");
    assert_eq!(
        (text(&browser, "who"), browser.eval("$('sign-out').checkVisibility()")),
        (String::new(), false.into())
    );
}

#[test]
#[ignore = "needs Debian's chromium-driver"]
fn a_token_stays_that_is_given_while_an_answer_without_it_is_on_its_way() {
    let (_site, far) = Site::with_tokens("fattree:10x18,5", &["1 n[1-60]\n".to_string()]);
    let browser = Browser::start(1400, 1000);
    browser.go(&far);
    browser.until("document.getElementById('login').checkVisibility()");
    browser.eval(
        "(window.held = [], window.sent = fetch, window.fetch = (path, how) => sent(path, how).then((answer) =>
            new Promise((go) => held.push(() => go(answer))))) && inTurn(refresh) && true",
    );
    browser.until("held.length >= 2");
    sign_in(&browser, READ);
    browser.eval("(window.fetch = sent, held.forEach((go) => go())) || true");
    browser.until("document.getElementById('who').textContent === 'signed in as reader'");
    assert_eq!(text(&browser, "login-said"), "");
}

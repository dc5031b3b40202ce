//! The prolog and the epilog of a controller on another machine than the service, of nodes that the fabric does not have, and
//! of jobs that want no start without routes.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use crate::prolog::{prolog, site};
use crate::site::{Serving, free_port};

const TOKEN: &str = "0123456789abcdef-write";

#[test]
fn a_controller_elsewhere_announces_jobs_with_a_token() {
    let site = site("deadline_seconds = 100\naway_seconds = 1");
    let port = free_port();
    site.replace("tokens", &format!("{TOKEN} write\n0123456789abcdef-reads read\n"));
    for (name, text) in [("token", TOKEN), ("reads", "0123456789abcdef-reads"), ("open", TOKEN)] {
        site.replace(name, text);
    }
    for (name, mode) in [("tokens", 0o600), ("token", 0o600), ("reads", 0o600), ("open", 0o644)] {
        std::fs::set_permissions(site.path(name), Permissions::from_mode(mode)).unwrap();
    }
    site.settings(&format!("[api]\ntcp = \"127.0.0.1:{port}\"\ntoken_file = \"tokens\"\n"));
    let serving = Serving::start(&site);
    serving.line();
    let url = format!("http://127.0.0.1:{port}");
    let path = |name: &str| site.path(name).display().to_string();
    let ask = |url: &str, token: &str| {
        prolog(&site, &["--job", "7", "--nodes", "n[2,6]", "--service", url, "--token-file", &path(token)])
    };
    let (code, answer, said) = ask(&url, "token");
    assert_eq!((code, &answer["outcome"]), (0, &"in_force".into()), "{answer} {said}");
    assert_eq!(serving.line()["epoch"]["jobs_added"], 1);
    // Without the right to write, with a secret that all may read, and over a network in the clear: the job starts.
    let closed = free_port();
    let away = format!("http://127.0.0.1:{closed}");
    for (url, token, why) in [
        (url.as_str(), "reads", "403"),
        (&url, "open", "600"),
        ("http://192.0.2.1:6830", "token", "in the clear"),
        (&away, "token", "cannot be reached"),
    ] {
        let (code, answer, said) = ask(url, token);
        assert_eq!(code, 0);
        assert!(answer["outcome"].is_null() && said.contains(why), "{why}: {answer} {said}");
    }
    let end = ["epilog", "--job", "7", "--service", &url, "--token-file", &path("token")];
    assert_eq!(site.run(&end).0, 0);
    assert_eq!(serving.stop(), 0);
    let handoff = &site.health()["handoff"];
    assert_eq!((&handoff["announced"], &handoff["ended"]), (&1.into(), &1.into()), "{handoff}");
}

#[test]
fn nodes_that_the_fabric_does_not_have_are_no_job_on_one_switch() {
    let site = site("deadline_seconds = 100");
    let serving = Serving::start(&site);
    serving.line();
    for nodes in ["zz[1-4]", "n1,zz2"] {
        let ask = |more: &[&str]| prolog(&site, &[&["--job", "9", "--nodes", nodes], more].concat());
        let (code, answer, _) = ask(&[]);
        assert_eq!((code, &answer["outcome"]), (0, &"unknown".into()), "{nodes}: {answer}");
        assert_eq!(ask(&["--strict"]).0, 1, "{nodes}");
        let told = std::fs::read_to_string(site.path("state/jobs/9/routing.env")).unwrap();
        assert!(told.contains("SAROUTER_ROUTED=no"), "{nodes}: {told}");
    }
    // Who is there gets routes.
    let (code, answer, _) = prolog(&site, &["--job", "10", "--nodes", "n[2,6],zz1", "--strict"]);
    assert_eq!((code, &answer["outcome"]), (0, &"in_force".into()), "{answer}");
    assert_eq!(serving.stop(), 0);
}

#[test]
fn a_job_that_requires_routes_does_not_start_while_passes_fail() {
    let site = site("deadline_seconds = 3");
    let serving = Serving::start(&site);
    serving.line();
    site.replace("fabric.net", "no fabric\n");
    let (code, answer, _) = prolog(&site, &["--job", "7", "--nodes", "n[2,6]", "--strict"]);
    assert_eq!((code, &answer["outcome"]), (1, &"deadline".into()), "{answer}");
    assert_eq!(serving.stop(), 0);
}

//! The HTTP responses of the page at /__sandbox/docs. `make test-browser` tests the page in a browser.

use crate::support::{Received, send};
use dealkit_server::{Sandbox, SandboxBuilder};

fn get(sandbox: &Sandbox, path: &str, headers: &str) -> Received {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
    send(sandbox, &request)
}

fn start(configure: impl Fn(SandboxBuilder) -> SandboxBuilder) -> Sandbox {
    configure(Sandbox::builder()).start().unwrap()
}

/// Returns the file names in a text: the text from each `before` to the next quotation mark.
fn named<'t>(text: &'t str, before: &'t str) -> impl Iterator<Item = &'t str> {
    text.split(before)
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
}

#[test]
fn the_page_and_its_files_have_a_strict_policy() {
    let sandbox = start(|builder| builder);
    let mut wanted = vec!["/__sandbox/docs".to_owned()];
    let mut seen = Vec::new();
    while let Some(path) = wanted.pop() {
        if seen.contains(&path) {
            continue;
        }
        let response = get(&sandbox, &path, "");
        assert_eq!(response.status, 200, "{path}");
        let media_type = match path.rsplit_once('.') {
            None => "text/html; charset=utf-8",
            Some((_, "css")) => "text/css; charset=utf-8",
            Some((_, "js")) => "text/javascript; charset=utf-8",
            Some((_, "svg")) => "image/svg+xml",
            Some(_) => panic!("{path}"),
        };
        assert_eq!(response.header("content-type"), Some(media_type), "{path}");
        let policy = response.header("content-security-policy").unwrap();
        let directives: Vec<&str> = policy.split("; ").collect();
        for directive in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(directives.contains(&directive), "{path}: {policy}");
        }
        assert!(
            !policy.contains("unsafe") && !policy.contains("http"),
            "{policy}"
        );
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(response.header(name), Some(value), "{path}: {name}");
        }
        let text = String::from_utf8(response.body.to_vec()).unwrap();
        // The XML namespace of an SVG is a URL that browsers do not load.
        let text_without_xmlns = text.replace("http://www.w3.org/2000/svg", "");
        assert!(
            !text_without_xmlns.contains("http:") && !text_without_xmlns.contains("https:"),
            "{path}"
        );
        assert!(!text.contains(" style=") && !text.contains("{{"), "{path}");
        wanted.extend(named(&text, "\"docs/").map(|name| format!("/__sandbox/docs/{name}")));
        wanted.extend(named(&text, "from \"./").map(|name| format!("/__sandbox/docs/{name}")));
        seen.push(path);
    }
    assert!(seen.len() > 8, "{seen:?}");
    assert_eq!(get(&sandbox, "/__sandbox/docs/main.rs", "").status, 404);
}

#[test]
fn the_page_contains_the_default_key_only() {
    for (key, shown) in [("sandbox-key", "sandbox-key"), ("hunter2", "")] {
        let sandbox = start(|builder| builder.service_key(key).admin_token("hunter2"));
        let page = get(&sandbox, "/__sandbox/docs", "").body;
        let page = str::from_utf8(&page).unwrap();
        let is_shown = page.contains(&format!(r#"id="service-key" value="{shown}""#));
        assert!(is_shown && !page.contains("hunter2"), "{page}");
    }
}

#[test]
fn the_page_needs_no_token_but_an_open_interface() {
    let sandbox = start(|builder| builder.admin_token("a-token"));
    // The page contains no secret, so a link on another page may open it.
    assert_eq!(
        get(
            &sandbox,
            "/__sandbox/docs",
            "sec-fetch-site: cross-site\r\n"
        )
        .status,
        200
    );
    assert_eq!(get(&sandbox, "/__sandbox/requests", "").status, 401);

    let off = start(|builder| builder.admin(false));
    let elsewhere = start(|builder| builder.listen(([0, 0, 0, 0], 0)).service_key("chosen-key"));
    for path in ["/__sandbox/docs", "/__sandbox/docs/main.js"] {
        assert_eq!(get(&off, path, "").status, 404, "{path}");
        let mut address = elsewhere.address();
        address.set_ip([127, 0, 0, 1].into());
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        assert_eq!(send(address, &request).status, 403, "{path}");
    }
}

//! Creating an agent: the SDK and the server find the same violations, and the agent matches the request.

use bytes::Bytes;
use dealkit::{Agent, CreateAgent, Json, Problem, UnknownFields, Violation};
use dealkit_server::Service;

use crate::sandbox;

/// Sends any bytes as the body of "Create agent".
pub fn create_agent(data: &[u8]) {
    thread_local! {
        static SERVICES: [(UnknownFields, Service); 2] = [
            (UnknownFields::Ignore, sandbox::service(Vec::new(), |builder| builder)),
            (UnknownFields::Reject, sandbox::service(Vec::new(), |builder| builder.strict(true))),
        ];
    }
    SERVICES.with(|services| {
        for (unknown, service) in services {
            create(data, *unknown, service);
        }
    });
}

fn create(data: &[u8], unknown: UnknownFields, service: &Service) {
    // For a document that the server rejects as JSON, check only that the SDK does not panic.
    let by_sdk = std::str::from_utf8(data)
        .ok()
        .and_then(|text| Json::parse(text).ok())
        .map(|body| CreateAgent::from_json(&body, unknown));

    let request = sandbox::request("POST", "/v1/agents").header("content-type", "application/json");
    let response = service.handle(request.body(Bytes::copy_from_slice(data)).unwrap());
    let status = sandbox::check(&response, false);
    if status == 400 {
        let problem = sandbox::problem(&response);
        return check_position(data, problem["detail"].as_str().unwrap());
    }
    match by_sdk.expect("the SDK accepts the JSON that the server accepts") {
        Ok(request) => {
            assert_eq!(status, 201, "{}", String::from_utf8_lossy(response.body()));
            request.validate().unwrap();
            let again = CreateAgent::from_json(request.to_json(), unknown).unwrap();
            assert!(again == request, "{} is another request", request.to_json());
            let agent = Agent::from_json(response.body()).unwrap();
            assert!(!agent.id.as_str().is_empty());
            assert!(
                service.agents() == [agent],
                "the service remembers another agent"
            );
            service.reset();
            assert!(service.agents().is_empty());
        }
        Err(error) => {
            assert_eq!(status, 422);
            let by_server = Problem::from_json(response.body()).unwrap();
            let by_client = error.violations().iter().take(Problem::MAX_ERRORS);
            assert!(by_server.errors.iter().eq(by_client));
            // Details show the type and the length of a value, but not the value.
            for Violation { detail, .. } in by_server.errors {
                assert!(detail.is_ascii() && detail.len() < 120, "{detail}");
            }
        }
    }
}

/// Checks that the detail ends with a position, `at line L column C`, that exists in the text.
fn check_position(data: &[u8], detail: &str) {
    let (_, position) = detail.rsplit_once(" at line ").unwrap();
    let (line, column) = position.split_once(" column ").unwrap();
    let (line, column): (usize, usize) = (line.parse().unwrap(), column.parse().unwrap());
    let mut lines = data.split(|byte| *byte == b'\n');
    let line = lines.nth(line - 1).expect("the line is there");
    let characters = line.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
    assert!((1..=characters + 1).contains(&column), "{detail}");
}

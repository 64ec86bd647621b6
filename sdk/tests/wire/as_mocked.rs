//! Calls to a service that a mocking library imitates, as in a program's own tests.

use httpmock::{
    Method::{GET, POST},
    MockServer,
};
use serde_json::json;

use crate::peer::{AGENT, KEY, ada, client};

#[tokio::test]
async fn an_agent_is_created_and_a_deal_is_read() {
    let service = MockServer::start_async().await;
    let create = service.mock(|when, then| {
        when.method(POST)
            .path("/v1/agents")
            .header("x-service-key", KEY)
            .header("content-type", "application/json")
            .json_body_includes(json!({"email": "ada@example.com"}).to_string());
        then.status(201).body(AGENT);
    });
    let retrieve = service.mock(|when, then| {
        when.method(GET)
            .path("/v1/deals/d_1")
            .header("x-service-key", KEY);
        then.status(200).body(r#"{"id": "d_1"}"#);
    });
    let client = client(service.base_url());
    let agent = client.agents().create(ada()).await.unwrap();
    let deal = client.deals().retrieve("d_1").await.unwrap();
    assert_eq!((agent.id.as_str(), deal.id.as_str()), ("a_1", "d_1"));
    create.assert();
    retrieve.assert();
}

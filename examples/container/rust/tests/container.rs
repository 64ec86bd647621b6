//! The sandbox in a container, for programs that cannot embed it.

use dealkit::blocking::Client;
use testcontainers::{
    GenericImage, ImageExt,
    core::{IntoContainerPort, WaitFor},
    runners::SyncRunner,
};

const KEY: &str = "key-for-tests";

#[test]
fn a_deal_can_be_read() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = GenericImage::new("dealkit-server", "latest")
        .with_exposed_port(8080.tcp())
        .with_wait_for(WaitFor::message_on_stdout("listening on"))
        .with_env_var("DEALKIT_SERVER_SERVICE_KEY", KEY)
        .start()?;
    let (host, port) = (sandbox.get_host()?, sandbox.get_host_port_ipv4(8080)?);
    let client = Client::builder()
        .base_url(format!("http://{host}:{port}"))
        .service_key(KEY)
        // In a container, the test reaches the sandbox over Docker's network.
        .allow_http(true)
        .build()?;

    let deal = client.deals().retrieve("d_1").send()?;
    assert_eq!(deal.status.ok_or("no status")?, "CLOSED");
    Ok(())
}

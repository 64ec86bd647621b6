"""The sandbox in a container, for programs that cannot embed it: `pip install testcontainers`."""

from collections.abc import Iterator

import pytest
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from dealkit import Client

KEY = "key-for-tests"


@pytest.fixture(scope="session")
def client() -> Iterator[Client]:
    container = DockerContainer("dealkit-server").with_env("DEALKIT_SERVER_SERVICE_KEY", KEY).with_exposed_ports(8080)
    with container.waiting_for(LogMessageWaitStrategy("listening on")) as sandbox:
        url = f"http://{sandbox.get_container_host_ip()}:{sandbox.get_exposed_port(8080)}"
        # In a container, the test reaches the sandbox over Docker's network.
        with Client(base_url=url, service_key=KEY, allow_http=True) as client:
            yield client


def test_a_deal_can_be_read(client: Client) -> None:
    assert client.deals.retrieve("d_1").status == "CLOSED"

import pytest

from tests.contract import api_servers


@pytest.fixture
def cluster():
    """The API server under test, started and stopped for one test."""
    place = (
        api_servers.Real(api_servers.KUBECONFIG) if api_servers.KUBECONFIG else api_servers.Simulated()
    ).start()
    yield place
    place.stop()

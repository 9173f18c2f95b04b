import pytest

from tests.contract import api_servers, google_exchanges


@pytest.fixture
def cluster():
    """The API server under test, started and stopped for one test."""
    place = (
        api_servers.Real(api_servers.KUBECONFIG) if api_servers.KUBECONFIG else api_servers.Simulated()
    ).start()
    yield place
    place.stop()


@pytest.fixture
def google():
    """The simulated Google APIs, started and stopped for one test."""
    services = google_exchanges.Services().start()
    yield services
    services.stop()

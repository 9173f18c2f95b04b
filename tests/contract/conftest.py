import pytest

from tests.contract import api_servers, google_exchanges, kubectl_runner


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


# The real kubectl, for modules that say in POOLS how many node pools they need.


@pytest.fixture(scope="module")
def sim(request):
    with kubectl_runner.simulated(request.module.POOLS) as running:
        yield running


@pytest.fixture(scope="module")
def kubeconfig(sim, tmp_path_factory):
    return sim.kubeconfig(tmp_path_factory.mktemp("kubeconfig") / "config")


@pytest.fixture
def kubectl(kubeconfig, tmp_path):
    kubectl = kubectl_runner.Kubectl(kubeconfig, tmp_path)
    yield kubectl
    kubectl.stop()

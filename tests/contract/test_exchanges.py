"""Runs the scenarios of the YAML files beside this one."""

import pytest

from tests.contract import api_servers, exchanges

ALL = list(exchanges.scenarios())


def _marks(scenario):
    """Against a real server, every scenario is `real`, and those it cannot play are skipped."""
    if not api_servers.KUBECONFIG:
        return ()
    if scenario.get("sim_only"):
        return (pytest.mark.real, pytest.mark.skip(reason="needs the simulator"))
    return (pytest.mark.real,)


@pytest.mark.parametrize(
    "scenario",
    [pytest.param(item, id=f"{name}: {item['title']}", marks=_marks(item)) for name, item in ALL],
)
def test_scenario(cluster, scenario):
    runner = exchanges.Runner(cluster)
    try:
        runner.run(scenario["steps"])
    finally:
        for path in scenario.get("cleanup", ()):
            url = f"{cluster.url}{path}"
            cluster.session.delete(url, headers=cluster.headers("admin"), timeout=exchanges.TIMEOUT_S)


def test_titles_are_unique():
    titles = [(name, scenario["title"]) for name, scenario in ALL]
    assert len(titles) == len(set(titles))

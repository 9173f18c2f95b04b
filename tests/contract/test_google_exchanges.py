"""Runs the scenarios about GKE and Compute Engine, of the YAML files beside this one."""

import pytest

from tests.contract import exchanges, google_exchanges

ALL = list(exchanges.scenarios(google=True))


@pytest.mark.parametrize(
    "scenario", [pytest.param(item, id=f"{name}: {item['title']}") for name, item in ALL]
)
def test_scenario(google, scenario):
    google_exchanges.Runner(google).run(scenario["steps"])


def test_titles_are_unique():
    titles = [(name, scenario["title"]) for name, scenario in ALL]
    assert len(titles) == len(set(titles))


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({"id": 7}, "id"),
        ({"count": "16"}, "count"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_body_the_client_would_write_otherwise_is_noticed(body, complaint):
    with pytest.raises(Exception, match=complaint):
        google_exchanges.check_readable(body, "compute_v1.ReservationSubBlock")

"""Contexts: what no fleet can have is refused when the value is made."""

from __future__ import annotations

import pytest

from tests.cloud import scripted
from tpuctl.cloud import connect
from tpuctl.model import errors
from tpuctl.ops import context as contexts


def make(**changes):
    values = {"name": "n", "project": "p", "location": "l", "zone": "us-central1-c", "cluster": "c"}
    return contexts.Context(**(values | changes))


def test_region_is_the_zone_without_its_last_part():
    assert make().region == "us-central1"
    assert make(zone="simzone").region == "simzone"


def test_fleet_name():
    assert make().fleet == "p/l/c"


@pytest.mark.parametrize("field", ["name", "project", "location", "zone", "cluster"])
def test_needed_fields(field):
    with pytest.raises(errors.UsageError, match=f"no {field}"):
        make(**{field: ""})


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8080",
        "http://localhost:1",
        "http://[::1]:8",
        "https://gke.example:443/",
        "https://h",
    ],
)
def test_endpoints_that_are_fine(url):
    assert make(endpoint_container=url).endpoint_container == url


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("http://example.com", "readable on the way"),
        ("http://127.0.0.1.example.com", "readable on the way"),
        ("ftp://localhost", "not a URL"),
        ("localhost:80", "not a URL"),
        ("https://", "not a URL"),
        ("https://h:99999", "not a URL"),
        ("https://h/v1", "more than a host"),
        ("https://h?x=1", "more than a host"),
        ("", "not a URL"),
    ],
)
@pytest.mark.parametrize("field", ["endpoint_kubernetes", "endpoint_container", "endpoint_compute"])
def test_endpoints_that_are_refused(url, rule, field):
    with pytest.raises(errors.UsageError, match=rule):
        make(**{field: url})


def test_a_password_in_an_endpoint_is_refused_and_not_repeated():
    with pytest.raises(errors.UsageError) as caught:
        make(endpoint_compute="https://admin:hunter2@host")
    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize("scale", [-1.0, float("nan"), float("inf")])
def test_clock_scale_must_be_a_number_of_seconds(scale):
    with pytest.raises(errors.UsageError, match="clock scale"):
        make(clock_scale=scale)


def test_connecting_contacts_nobody(tmp_path):
    ports = connect.connect(scripted.context("http://127.0.0.1:1", tmp_path, clock_scale=0.0))
    assert ports.clock.monotonic_s() <= ports.clock.monotonic_s()

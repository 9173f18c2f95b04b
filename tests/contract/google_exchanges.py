"""Exchanges with the two Google APIs, GKE and Compute Engine, as the simulator serves them over HTTP.

The steps are those of `exchanges`. What a step may expect here:

    expect:
      code: 404
      status: NOT_FOUND        # canonical word; GKE has it, Compute Engine must not
      reason: notFound         # of the one entry of `errors`
      message: a pattern
      read_as: container_v1.NodePool    # the client's type that must take the whole body as it is
      body: {...}
"""

import json
import re

import requests
from google.cloud import compute_v1, container_v1
from google.protobuf import json_format

from tests.contract import exchanges
from tpuctl.sim import ready, simulator
from tpuctl.sim.googleapis import projects

SETTINGS = simulator.Settings(cubes=3, ready_cubes=1)
CLIENTS = {"compute_v1": compute_v1, "container_v1": container_v1}


class Services:
    """A fresh simulator with one ready cube of three, as a client of the Google APIs sees it."""

    def __init__(self):
        self._simulator = simulator.Simulator(SETTINGS)
        self.session = requests.Session()

    def start(self):
        self._simulator.start()
        return self

    def stop(self):
        self.session.close()
        self._simulator.stop()

    @property
    def url(self):
        return self._simulator.url

    def headers(self, token):
        """Credentials: the `admin` of the simulator, of nobody (`none`), or made up (`wrong`)."""
        tokens = {"admin": self._simulator.token, "wrong": "made-up"}
        return {} if token == "none" else {"Authorization": f"Bearer {tokens[token]}"}

    def advance(self, seconds):
        self._simulator.advance(seconds)

    def names(self):
        """What scenarios call the simulated project, its places and what is ready in it."""
        project, location = SETTINGS.project, SETTINGS.location
        compute = f"/compute/v1/projects/{project}"
        cube = next(iter(self._simulator.world.hardware.subblocks()))
        return {
            "project": project,
            "number": projects.number(project),
            "location": location,
            "zone_name": SETTINGS.zone,
            "gke": f"/v1/projects/{project}/locations/{location}",
            "cluster": f"/v1/projects/{project}/locations/{location}/clusters/{SETTINGS.cluster}",
            "zone": f"{compute}/zones/{SETTINGS.zone}",
            "region": f"{compute}/regions/{location}",
            "reservation": SETTINGS.reservation,
            "block": cube.block.name,
            "cube": cube.name,
            "pool": ready.pool_name(cube),
            "policy": ready.POLICY,
        }


class Runner(exchanges.Runner):
    """Runs the steps of one scenario against Google's APIs."""

    def __init__(self, services):
        super().__init__(services, saved=services.names())

    def usual(self, method):
        """These APIs answer 200 to every method that succeeds."""
        return {}

    def compare(self, answer, expected):
        compare(answer, expected)


def compare(answer, expected):
    """Assert that an answer is as expected, in all that is named."""
    unknown = expected.keys() - {"code", "status", "reason", "message", "body", "read_as"}
    assert not unknown, f"a scenario expects {unknown}"
    assert answer.status_code == expected.get("code", 200), answer.text
    assert answer.headers["Content-Type"] == "application/json; charset=UTF-8"
    body = answer.json()
    if answer.status_code >= 400:
        compare_error(body, answer.status_code, expected)
    problems = list(exchanges.differences(body, expected.get("body", {}), "body"))
    assert not problems, (problems, body)
    if "read_as" in expected:
        check_readable(body, expected["read_as"])


def compare_error(body, code, expected):
    """A refusal says its code, one message in two places, and why in one word, or two for GKE."""
    error = body["error"]
    assert list(body) == ["error"]
    assert error["code"] == code
    assert error["errors"] == [
        {"domain": "global", "message": error["message"], "reason": expected["reason"]},
    ]
    assert error.keys() == {"code", "errors", "message"} | ({"status"} if "status" in expected else set())
    assert error.get("status") == expected.get("status")
    assert re.search(expected["message"], error["message"]), error["message"]


def check_readable(body, name):
    """Assert that the type of Google's client holds the body as it is.

    Every field and every word of an enumeration is known to it, and every value has the form that it writes
    itself: 64-bit numbers are strings, smaller ones are not.
    """
    package, _, message = name.partition(".")
    kind = getattr(CLIENTS[package], message).pb()
    again = json_format.MessageToDict(json_format.Parse(json.dumps(body), kind()))
    problems = list(exchanges.differences(body, again, message))
    assert not problems, (problems, body)

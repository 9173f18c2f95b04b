"""Metrics and probes: counted from the last view, answered where asked and nowhere else."""

from __future__ import annotations

import datetime
import socket
import urllib.error
import urllib.request

import pytest
from prometheus_client import parser

from tests import builders
from tpuctl.cli import metrics, probes
from tpuctl.model import declared, errors, health, reconciling

ACTION = reconciling.ActionKind
AT_S = builders.NOW.timestamp()


class Clock:
    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


def spec(**changes):
    return declared.FleetSpec(
        name="f",
        reservations=(declared.ReservationSpec(name="r", blocks=(declared.BlockSpec(name="b1", spares=1),)),),
        **changes,
    )


def cycle(snapshot=None, *, memory=None, results=(), waiting=(), repairs=None, seen_s=1000.0, **declares):
    decision = reconciling.Decision(
        actions=(), guards=(), memory=memory or reconciling.Memory(), waiting=waiting, sentence="fine."
    )
    return metrics.Cycle(
        at=builders.NOW,
        seen_s=seen_s,
        duration_s=0.7,
        spec=spec(**declares),
        snapshot=snapshot or builders.fleet_of(builders.cube("a"), builders.cube("b")),
        decision=decision,
        results=results,
        repairs=repairs or {},
    )


def values(made):
    """(name, sorted labels) -> value, as Prometheus itself reads it."""
    text, content_type = made.exposition("text/plain")
    assert content_type.startswith("text/plain")
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in parser.text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def make(clock):
    return metrics.Metrics(health.DEFAULT_POLICY, clock)


def test_before_the_first_full_cycle_nothing_is_said_of_the_fleet(clock):
    names = {key[0] for key in values(make(clock))}
    assert "tpuctl_leads" in names
    assert not names & {"tpuctl_cubes", "tpuctl_slices", "tpuctl_chips", "tpuctl_view_age_seconds"}


def test_gauges_are_those_of_the_last_view(clock):
    """NVSentinel#753: a gauge that was kept by hand counted marks that were no more."""
    made = make(clock)
    running = (builders.slice_of("x", "4x4x4", "a"),)
    made.note(cycle(builders.fleet_of(builders.cube("a"), builders.cube("b"), slices=running)))
    clock.now_s += 12
    found = values(made)
    assert found["tpuctl_cubes", ("verdict", "healthy")] == 2
    assert found["tpuctl_cubes", ("verdict", "unknown")] == 0
    assert found["tpuctl_slices", ("state", "ACTIVE")] == 1
    assert found["tpuctl_chips", ("class", "productive")] == 64
    assert found["tpuctl_chips", ("class", "spare")] == 64
    assert found["tpuctl_view_age_seconds",] == 12
    assert found["tpuctl_last_full_cycle_timestamp_seconds",] == AT_S
    made.note(cycle(builders.fleet_of(builders.cube("a", hosts=13)), seen_s=clock.now_s))
    found = values(made)
    # Nothing of the earlier view is left over.
    assert found["tpuctl_cubes", ("verdict", "healthy")] == 0
    assert found["tpuctl_cubes", ("verdict", "incomplete")] == 1
    assert found["tpuctl_slices", ("state", "ACTIVE")] == 0
    assert sum(value for key, value in found.items() if key[0] == "tpuctl_chips") == 64
    assert found["tpuctl_view_age_seconds",] == 0


def test_actions_and_durations_add_up_over_cycles(clock):
    made = make(clock)
    for _ in range(2):
        made.note(cycle(results=[(ACTION.FORM, "done"), (ACTION.SWAP, "failed"), (ACTION.FORM, "done")]))
    made.note_failure()
    found = values(made)
    assert found["tpuctl_actions_total", ("kind", "form"), ("result", "done")] == 4
    assert found["tpuctl_actions_total", ("kind", "swap"), ("result", "failed")] == 2
    assert found["tpuctl_cycle_duration_seconds_count",] == 2
    assert found["tpuctl_cycle_duration_seconds_sum",] == pytest.approx(1.4)
    assert found["tpuctl_cycle_duration_seconds_bucket", ("le", "0.5")] == 0
    assert found["tpuctl_cycle_duration_seconds_bucket", ("le", "1.0")] == 2
    assert found["tpuctl_failed_cycles_total",] == 1
    assert not any(key[0].endswith("_created") for key in found)


def test_budget_breaker_repairs_and_what_waits(clock):
    made, budgets = make(clock), declared.Budgets(disrupted_chips_per_hour=1000)
    now = builders.NOW
    memory = reconciling.Memory(
        disruptions=(
            reconciling.Disruption(now - datetime.timedelta(minutes=61), 500, "swap/old"),
            reconciling.Disruption(now - datetime.timedelta(minutes=59), 300, "swap/new"),
        ),
        tripped=reconciling.Tripped(now, "5 of 8 cubes are in trouble"),
    )
    waiting, open_repairs = (("big", "no room"),), {"proposed": 2, "approved": 1}
    made.note(cycle(memory=memory, waiting=waiting, repairs=open_repairs, budgets=budgets))
    found = values(made)
    assert found["tpuctl_budget_left_chips",] == 700
    assert found["tpuctl_breaker_tripped",] == 1
    assert found["tpuctl_wanted_slices_waiting",] == 1
    assert found["tpuctl_repairs", ("state", "proposed")] == 2
    spent = reconciling.Memory(disruptions=(reconciling.Disruption(now, 5000, "grow/x"),))
    made.note(cycle(memory=spent, budgets=budgets))
    found = values(made)
    assert (found["tpuctl_budget_left_chips",], found["tpuctl_breaker_tripped",]) == (0, 0)
    assert ("tpuctl_repairs", ("state", "proposed")) not in found


def test_what_is_left_is_left_of_what_was_declared_in_that_cycle(clock):
    made = make(clock)
    for chips in (1000, 64):
        made.note(cycle(budgets=declared.Budgets(disrupted_chips_per_hour=chips)))
        assert values(made)["tpuctl_budget_left_chips",] == chips


def test_a_standby_exports_no_fleet(clock):
    made = make(clock)
    made.note(cycle())
    assert values(made)["tpuctl_leads",] == 1
    made.stand_by()
    found = values(made)
    assert found["tpuctl_leads",] == 0
    assert not any(key[0] == "tpuctl_cubes" for key in found)


def test_a_view_is_counted_once_however_often_it_is_asked_for(clock, monkeypatch):
    made, calls = make(clock), []
    count = metrics.gauges.count
    monkeypatch.setattr(metrics.gauges, "count", lambda *given: calls.append(given) or count(*given))
    made.note(cycle())
    assert values(made) == values(made)
    assert len(calls) == 1


# -- probes ----------------------------------------------------------------------------------------------


def test_alive_as_long_as_something_happens(clock):
    """kopf#1276: a loop can be deaf and look alive; what counts is the last full cycle."""
    made = probes.Probes(clock, 100)
    assert made.alive()[0]
    assert made.ready() == (False, "no full cycle yet")
    clock.now_s += 101
    assert made.alive() == (False, "last start 101 s ago, limit 100 s")
    made.sign("progress")
    assert (made.alive()[0], made.ready()[0]) == (True, False)
    made.sign("cycle")
    assert made.ready()[0]
    clock.now_s += 101
    assert made.alive()[0] is made.ready()[0] is False
    made.sign("standby")
    assert made.alive()[0] is made.ready()[0] is True


def get(where, path):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{where.host}:{where.port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode(), answer.headers["Content-Type"]
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), error.headers["Content-Type"]


def test_one_address_answers_for_all(clock):
    made, signs = make(clock), probes.Probes(clock, 100)
    made.note(cycle())
    with probes.served(probes.Address("127.0.0.1", 0), made, signs) as where:
        assert get(where, "/healthz")[:2] == (200, "ok: last start 0 s ago, limit 100 s\n")
        assert get(where, "/readyz")[:2] == (503, "not ok: no full cycle yet\n")
        signs.sign("cycle")
        assert get(where, "/readyz")[0] == 200
        clock.now_s += 101
        assert get(where, "/healthz")[0] == 503
        status, text, content_type = get(where, "/metrics?x=1")
        assert (status, content_type.startswith("text/plain")) == (200, True)
        assert 'tpuctl_cubes{verdict="healthy"} 2.0' in text.splitlines()
        assert get(where, "/")[0] == 404
    with pytest.raises(OSError), socket.create_connection(where, timeout=5):
        pass


def test_an_address_that_cannot_be_had_is_an_error_before_anything_begins(clock):
    def serve(where):
        return probes.served(where, make(clock), probes.Probes(clock, 1))

    with (
        serve(probes.Address("127.0.0.1", 0)) as where,
        pytest.raises(errors.TpuctlError, match=r"cannot listen on 127\.0\.0\.1:\d+: Address already in use"),
        serve(where),
    ):
        raise AssertionError("two servers on one address")
    foreign = probes.Address("192.0.2.1", 0)
    with pytest.raises(errors.TpuctlError, match=r"cannot listen on 192\.0\.2\.1:0: "), serve(foreign):
        raise AssertionError("an address of no interface of ours")


@pytest.mark.parametrize(
    ("text", "found"),
    [("127.0.0.1:9464", ("127.0.0.1", 9464)), ("[::1]:80", ("::1", 80)), ("h:0", ("h", 0))],
)
def test_addresses(text, found):
    assert probes.address(text) == found


@pytest.mark.parametrize("text", ["9464", ":9464", "h:", "h:x", "h:70000", "h:-1", "", "h:٣"])
def test_what_is_no_address(text):
    with pytest.raises(errors.UsageError, match="no address to listen on"):
        probes.address(text)

"""Reports of faulty hosts keep the service's rules, and look again before they act."""

import dataclasses

import pytest

from tests.ops import conftest
from tpuctl.cli import rehearsal
from tpuctl.model import errors, topology
from tpuctl.ops import fault_reports, forming
from tpuctl.ops import ports as ports_module

Rehearsal = rehearsal.Rehearsal
CHIP = fault_reports.Behavior.CHIP_ERROR
NOW, LATER = fault_reports.Disruption.IMMEDIATE, fault_reports.Disruption.FUTURE


def prepare(
    scene: Rehearsal,
    host: str,
    *,
    reason: str = "self-test fails",
    disruption: fault_reports.Disruption = NOW,
) -> fault_reports.Prepared:
    return fault_reports.prepare(scene.ports, host, behavior=CHIP, reason=reason, disruption=disruption)


@pytest.fixture
def host(scene: Rehearsal) -> str:
    return conftest.whole(scene).cubes[0].hosts[7].name


def instance_of(scene: Rehearsal, name: str) -> ports_module.Instance:
    hosts = (host for cube in conftest.whole(scene).cubes for host in cube.hosts)
    found = scene.ports.instances.get(next(host.provider_id for host in hosts if host.name == name))
    assert found is not None
    return found


def test_a_report_is_started_and_its_repair_takes_days(
    scene: Rehearsal, host: str, reporter: conftest.Recorder
) -> None:
    """report-host-as-faulty limits: the VM stays down for days."""
    outcome = fault_reports.execute(scene.ports, reporter, prepare(scene, host))
    assert outcome.waited_s is None
    assert outcome.operation.status is ports_module.OperationStatus.RUNNING
    scene.simulator.advance(800)
    instance = instance_of(scene, host)
    assert instance.status == "REPAIRING"
    scene.simulator.advance(6 * 86_400)
    assert prepare(scene, host).instance.status == "RUNNING"


def test_waiting_takes_what_the_service_takes(
    scene: Rehearsal, host: str, reporter: conftest.Recorder
) -> None:
    outcome = fault_reports.execute(scene.ports, reporter, prepare(scene, host), wait=True)
    assert outcome.operation.status is ports_module.OperationStatus.DONE
    assert outcome.waited_s is not None
    assert 600 <= outcome.waited_s <= 720
    assert reporter.remote == ""


def test_waiting_ends_in_time_and_says_what_goes_on(
    scene: Rehearsal, host: str, reporter: conftest.Recorder
) -> None:
    with pytest.raises(errors.TimedOut, match="still runs"):
        fault_reports.execute(scene.ports, reporter, prepare(scene, host), wait=True, timeout_s=60)
    assert "do not delete the VM" in reporter.remote


def test_a_stopped_vm_is_refused_with_the_rule(scene: Rehearsal, host: str) -> None:
    """report-host-as-faulty limits: only a running VM."""
    scene.simulator.inject("host-down", host)
    with pytest.raises(errors.Conflict, match="only a running VM"):
        prepare(scene, host)


def test_a_second_report_is_refused_while_the_first_runs(
    scene: Rehearsal, host: str, reporter: conftest.Recorder
) -> None:
    """report-host-as-faulty limits: a report that is pending."""
    fault_reports.execute(scene.ports, reporter, prepare(scene, host))
    with pytest.raises(errors.Conflict, match="is reported already") as refused:
        prepare(scene, host)
    assert "3 to 14 days" in (refused.value.hint or "")
    instance = instance_of(scene, host)
    assert len(scene.ports.instances.reports(instance)) == 1


def test_a_report_that_fails_says_why(scene: Rehearsal, host: str, reporter: conftest.Recorder) -> None:
    class Vanishing:
        """The VM is deleted as soon as its report runs."""

        def __init__(self, inner: ports_module.Instances) -> None:
            self._inner = inner

        def report_faulty(
            self, instance: ports_module.Instance, report: ports_module.FaultReport
        ) -> ports_module.Operation:
            operation = self._inner.report_faulty(instance, report)
            scene.simulator.inject("host-gone", host)
            return operation

        def __getattr__(self, name: str) -> object:
            return getattr(self._inner, name)

    ports = dataclasses.replace(scene.ports, instances=Vanishing(scene.ports.instances))
    with pytest.raises(errors.TpuctlError, match="was deleted"):
        fault_reports.execute(ports, reporter, prepare(scene, host), wait=True)


def test_a_vm_that_is_not_bound_to_the_reservation_is_refused(scene: Rehearsal, host: str) -> None:
    class Spot:
        def get(self, _provider_id: str) -> ports_module.Instance:
            return ports_module.Instance("p", "z", host, "RUNNING", "SPOT")

    ports = dataclasses.replace(scene.ports, instances=Spot())
    with pytest.raises(errors.Conflict, match="SPOT"):
        fault_reports.prepare(ports, host, behavior=CHIP, reason="x", disruption=NOW)


def test_hosts_that_are_not_there_and_reasons_that_say_nothing(scene: Rehearsal, host: str) -> None:
    with pytest.raises(errors.NotFound, match="no host 'ghost'"):
        prepare(scene, "ghost")
    with pytest.raises(errors.UsageError, match="reason is empty"):
        prepare(scene, host, reason="  ")


def test_what_it_hits_is_the_whole_slice_and_a_slice_that_came_later_is_a_conflict(
    scene: Rehearsal, host: str, reporter: conftest.Recorder
) -> None:
    """draino#50: no second look before the act."""
    before = prepare(scene, host, disruption=LATER)
    assert (before.radius.slices, before.radius.hosts) == ((), 1)
    cubes = [cube.id for cube in conftest.whole(scene).cubes[:2]]
    wish = forming.request(topology.parse("4x4x8"), cubes=cubes)
    forming.form(scene.ports, reporter, "train", wish)
    with pytest.raises(errors.Conflict, match="more than was shown") as moved:
        fault_reports.execute(scene.ports, reporter, before)
    assert moved.value.details == ("slice train",)
    instance = instance_of(scene, host)
    assert scene.ports.instances.reports(instance) == ()
    after = prepare(scene, host)
    assert (after.radius.slices, after.radius.hosts, after.radius.chips) == (("train",), 32, 128)

"""Who acts, and which holders are dead: never one whose pid means something else here."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from tpuctl.cloud import identity

NOBODY = "2147483647"
"""A pid beyond what Linux gives."""


class Named(identity.KubeIdentity):
    """Somebody whom no server was asked about."""

    _name = "alice@example.com"

    def __init__(self) -> None:
        pass


@pytest.fixture
def facts(tmp_path, monkeypatch):
    """What the system tells of boot and PID namespace, to be changed."""
    boot, namespace = tmp_path / "boot_id", tmp_path / "pid"
    boot.write_text("0b1f6cf4-3a3e-4d0f-9f0e-3f9d4b8f6a11\n")
    namespace.touch()
    monkeypatch.setattr(identity, "BOOT_ID", boot)
    monkeypatch.setattr(identity, "PID_NAMESPACE", namespace)
    return boot, namespace


def place_and_pid(holder):
    name_and_place, _, pid = holder.rpartition(":")
    return name_and_place.rpartition("@")[2], pid


def dead(actor):
    """The same actor as a process that is no more."""
    return f"{actor.rpartition(':')[0]}:{NOBODY}"


def test_a_holder_reads_as_name_host_and_process(facts):
    found = Named().actor()
    place, pid = place_and_pid(found)
    host, _, where = place.partition("/")
    assert found.startswith("alice@example.com@")
    assert (host, pid) == (socket.gethostname(), str(os.getpid()))
    assert len(where) == 8, "short enough to be read in a table"
    assert Named().actor() == found


def test_only_a_process_of_ours_that_is_no_more_is_dead(facts):
    who = Named()
    assert not who.is_dead(who.actor())
    assert who.is_dead(dead(who.actor()))
    assert not who.is_dead(f"{who.actor().rpartition(':')[0]}:1")


def test_after_a_boot_nothing_is_known_of_processes_before_it(facts):
    boot, _ = facts
    before = dead(Named().actor())
    boot.write_text("1b1f6cf4-3a3e-4d0f-9f0e-3f9d4b8f6a11\n")
    assert not Named().is_dead(before)


def test_nothing_is_known_of_another_pid_namespace_on_a_host_of_the_same_name(facts, tmp_path, monkeypatch):
    """Pods with the host's network, containers that share the host's name, machines all called `runner`."""
    there = dead(Named().actor())
    other = tmp_path / "other"
    other.touch()
    monkeypatch.setattr(identity, "PID_NAMESPACE", other)
    assert not Named().is_dead(there)


def test_locks_of_earlier_versions_are_left_to_expire(facts):
    assert not Named().is_dead(f"alice@{socket.gethostname()}:{NOBODY}")


@pytest.mark.parametrize("text", ["", "alice", ":", "@:", f"@x/00000000:{NOBODY}", f"bob@:{NOBODY}"])
def test_what_is_no_holder_of_ours_is_not_dead(facts, text):
    assert not Named().is_dead(text)


@pytest.mark.parametrize("missing", [0, 1, None])
def test_a_system_that_does_not_tell_never_calls_anybody_dead(facts, missing):
    """Without /proc; the number of the first PID namespace alone is the same on every machine."""
    if missing is None:
        facts[0].write_text("\n")
    else:
        facts[missing].unlink()
    found = Named().actor()
    assert found == f"alice@example.com@{socket.gethostname()}:{os.getpid()}"
    assert not Named().is_dead(dead(found))


@pytest.mark.skipif(not identity.PID_NAMESPACE.exists(), reason="needs /proc")
def test_a_process_that_has_just_ended_is_dead():
    place = place_and_pid(Named().actor())[0]
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert not Named().is_dead(f"bob@{place}:{process.pid}")
        process.communicate(b"\n")
    assert Named().is_dead(f"bob@{place}:{process.pid}")

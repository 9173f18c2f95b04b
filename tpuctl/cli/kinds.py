"""Kinds of values in files about slices; each reader raises ValueError with what was expected."""

from __future__ import annotations

from typing import Any

from tpuctl.cli import config_file, durations
from tpuctl.model import errors, names, topology
from tpuctl.ops import capacity


def shape(value: Any) -> topology.Topology:
    """A legal shape, `AxBxC` in chips."""
    try:
        return topology.parse(config_file.text(value))
    except topology.TopologyError as error:
        raise ValueError(f"{error.message} ({error.hint})" if error.hint else error.message) from error


def chips(value: Any) -> topology.Topology:
    """The most cubic legal shape of so many chips."""
    try:
        return capacity.most_cubic(whole(value))
    except errors.UsageError as error:
        raise ValueError(f"{error.message} ({error.hint})") from error


def whole(value: Any) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("expected a whole number")  # noqa: TRY004 - all kinds complain alike
    return value


def count(value: Any) -> int:
    """A whole number of at least 1."""
    if whole(value) < 1:
        raise ValueError("expected a whole number of at least 1")
    return int(value)


def slice_name(value: Any) -> str:
    """A name that a Slice can have."""
    try:
        return names.check_slice_name(config_file.text(value))
    except errors.UsageError as error:
        raise ValueError(error.message) from error


def span(value: Any) -> float:
    """Seconds, from a span of time such as `90s`, `10m`, `2h` or `1d`."""
    try:
        return float(durations.parse(value))
    except errors.UsageError as error:
        raise ValueError(f"{error.message}; {error.hint}") from error

"""Faults that can be put into a running simulator, by name.

`table` says which there are, `targets` what they can be aimed at, `actions` what they do, and `book` keeps
those in place. Faults of the APIs themselves are in `tpuctl.sim.api_faults`; `requests` reads both kinds
from what the admin API is sent.
"""

from __future__ import annotations

from tpuctl.sim.faults.actions import BadFault
from tpuctl.sim.faults.book import Entry, Faults, UnknownFault
from tpuctl.sim.faults.requests import NAMES, accepted, is_api_fault
from tpuctl.sim.faults.table import FAULTS, Fault
from tpuctl.sim.faults.targets import Scene, UnknownTarget

__all__ = [
    "FAULTS",
    "NAMES",
    "BadFault",
    "Entry",
    "Fault",
    "Faults",
    "Scene",
    "UnknownFault",
    "UnknownTarget",
    "accepted",
    "is_api_fault",
]

"""Repairs with people in the loop: look, propose, ask, look again, act, and see what came of it.

values      what a review is given and what it gives back
registry    items and the ledger, kept in the cluster
looking     what besides the snapshot has to be known: VMs, remote operations
reviewing   one review, called in each cycle of the loop, or a mere look at what it would come to
executing   carry out one item, step by step
answering   what people say to an item: approve, reject, cancel
"""

from tpuctl.engine.remediation.rules import NOTHING, RULES, Rule
from tpuctl.ops.repairs.answering import Answer, approve, cancel, reject
from tpuctl.ops.repairs.registry import find, list_closed, list_open, list_readable
from tpuctl.ops.repairs.reviewing import SOURCES, look, review
from tpuctl.ops.repairs.values import Executed, Hooks, MayAct, Review, Situation

__all__ = [
    "NOTHING",
    "RULES",
    "SOURCES",
    "Answer",
    "Executed",
    "Hooks",
    "MayAct",
    "Review",
    "Rule",
    "Situation",
    "approve",
    "cancel",
    "find",
    "list_closed",
    "list_open",
    "list_readable",
    "look",
    "reject",
    "review",
]

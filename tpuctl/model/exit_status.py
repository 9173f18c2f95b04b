"""Every code with which tpuctl leaves: one table, printed by `tpuctl help exit-codes`."""

from __future__ import annotations

import enum
from typing import Self


class ExitStatus(enum.IntEnum):
    """Exit codes of the program; `meaning` is the text shown to users."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    OK = 0, "done, or nothing to do"
    FAILED = 1, "failed"
    CHANGES_PENDING = 2, "changes are pending (only where a command says so)"
    DECLINED = 3, "declined, or a confirmation was needed and there is no terminal"
    NOT_PERMITTED = 4, "not authenticated or not permitted"
    NOT_FOUND = 5, "not found"
    CONFLICT = 6, "conflict: the world moved, a lock is held, a partition is taken"
    PARTLY_DONE = 7, "partly done"
    DOES_NOT_FIT = 8, "does not fit"
    GUARD = 9, "stopped by a guard: budget, breaker, hold, stale view"
    TIMED_OUT = 10, "timed out; work goes on remotely"
    TROUBLE_FOUND = 11, "a check found trouble"
    USAGE = 64, "usage error"
    TRY_AGAIN = 75, "try again later (cron)"
    INTERRUPTED = 130, "interrupted"
    TERMINATED = 143, "terminated"

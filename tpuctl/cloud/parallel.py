"""Run blocking calls side by side, in threads that never hold up the end of the program.

Daemon threads rather than an executor: an executor is waited for at exit, and Ctrl-C would seem to hang until
the last request has timed out.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

LOOK_EVERY_S = 1.0
"""Real seconds between calls of `meanwhile`."""


class _Call(threading.Thread, Generic[T]):
    """One call, its result or its error."""

    def __init__(self, call: Callable[[], T]) -> None:
        super().__init__(daemon=True, name="tpuctl-call")
        self._call = call
        self.results: list[T] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.results.append(self._call())
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits, which raises it
            self.error = error


def run_all(
    calls: Sequence[Callable[[], T]],
    *,
    timeout_s: float | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> list[T]:
    """The results in order of `calls`; the first error in that order is raised.

    `timeout_s` are real seconds for each call. Raises TimeoutError; the call itself goes on unheard.
    `meanwhile` is called now and then by the thread that waits; what it raises ends the waiting.
    """
    threads = [_Call(call) for call in calls]
    for thread in threads:
        thread.start()
    results: list[T] = []
    for thread in threads:
        while meanwhile is not None and thread.is_alive():
            thread.join(LOOK_EVERY_S)
            if thread.is_alive():
                meanwhile()
        thread.join(timeout_s)
        if thread.is_alive():
            raise TimeoutError
        if thread.error is not None:
            raise thread.error
        results += thread.results
    return results

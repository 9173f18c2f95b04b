"""What every test starts from."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _pytest.terminal import TerminalReporter

    Tell = Callable[[str], None]


# How long an example takes says nothing on a machine that does other things too.
hypothesis.settings.register_profile("tpuctl", deadline=None)
hypothesis.settings.load_profile("tpuctl")


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_is_heard():
    """A shell starts what it runs in the background with Ctrl-C ignored, and every child inherits that.

    Tests that interrupt a command would wait for ever then (POSIX shell, 2.11 Signals and Error Handling).
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Tell:
    """Says a line in the summary, from whichever process the test runs in."""
    return lambda line: record_property("told", line)


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """What tests have counted, and the sum of the crash matrix."""
    lines = [str(value) for name, value in _properties(terminalreporter) if name == "told"]
    counts = {
        word: sum(int(str(value)) for name, value in _properties(terminalreporter) if name == word)
        for word in ("cases", "failures")
    }
    if counts["cases"]:
        lines.append("crash matrix, in all: {cases} cases, {failures} failures".format(**counts))
    if lines:
        terminalreporter.section("what was counted")
        for line in lines:
            terminalreporter.line(line)


def _properties(terminalreporter: TerminalReporter) -> Iterator[tuple[str, object]]:
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, ()):
            if report.when == "call":
                yield from report.user_properties

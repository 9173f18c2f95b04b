"""What every test starts from."""

from __future__ import annotations

import signal

import pytest


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_is_heard():
    """A shell starts what it runs in the background with Ctrl-C ignored, and every child inherits that.

    Tests that interrupt a command would wait for ever then (POSIX shell, 2.11 Signals and Error Handling).
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)

"""The cycle collector is back afterwards, whatever happens."""

import gc

import pytest

from tpuctl.cloud import collector


def test_it_rests_inside_and_is_back_afterwards():
    assert gc.isenabled()
    with collector.paused():
        assert not gc.isenabled()
        with collector.paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_is_back_after_an_error():
    with pytest.raises(ValueError, match="broken"), collector.paused():
        raise ValueError("broken")
    assert gc.isenabled()

"""Verdicts of cubes as the loop asks for them, again and again: see `tpuctl.engine.health.verdicts`."""

from __future__ import annotations

from tpuctl.engine.health.verdicts import of

__all__ = ["of"]

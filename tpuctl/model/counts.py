"""Numbers of things as people read them."""

from __future__ import annotations


def of(number: int, one: str, many: str = "") -> str:
    """`1 cube`, `2 cubes`, `4,096 chips`; `many` is the plural where it is not `one` with an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"

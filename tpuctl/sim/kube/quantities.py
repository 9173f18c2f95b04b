"""Resource quantities: "4", "500m", "6Gi"."""

from __future__ import annotations

import decimal
import re

PATTERN = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))((?:[KMGTPE]i)|[numkMGTPE]|(?:[eE][+-]?\d+))?")
SCALES = {
    "": decimal.Decimal(1),
    **{
        unit: decimal.Decimal(1000) ** power
        for power, unit in enumerate("numkMGTPE", start=-3)
        if unit in "num"
    },
    **{unit: decimal.Decimal(1000) ** power for power, unit in enumerate("kMGTPE", start=1)},
    **{f"{unit}i": decimal.Decimal(1024) ** power for power, unit in enumerate("KMGTPE", start=1)},
}


def parse(text: str | float) -> decimal.Decimal | None:
    """The value, or None if the text is no quantity."""
    found = PATTERN.fullmatch(str(text))
    if not found:
        return None
    number, suffix = found.group(1), found.group(2) or ""
    if suffix in SCALES:
        return decimal.Decimal(number) * SCALES[suffix]
    return decimal.Decimal(number + suffix)


def is_whole(text: str | float) -> bool:
    value = parse(text)
    return value is not None and value == value.to_integral_value()


def is_extended(resource: str) -> bool:
    """Whether a resource is counted in whole devices: it has a domain, and not one of Kubernetes' own."""
    domain, slash, _ = resource.rpartition("/")
    return bool(slash) and not domain.endswith("kubernetes.io") and not resource.startswith("requests.")

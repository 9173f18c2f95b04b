"""Lines of a log for programs: one JSON object each, the same keys for the same things.

    {"time": "2026-01-31T12:00:00.123Z", "level": "info", "message": "...", "cycle": "...", "plan": "...",
     "object": "slice/train-a"}

`time`, `level` (`debug`, `info`, `warning`, `error`) and `message` are always there, `cycle`, `plan` and
`object` where the line is about one. Further keys: `done` and `total` of a progress, `details` and `hint` of
an error. The time is the machine's: a log is read beside those of other programs.
"""

from __future__ import annotations

import datetime
import json
from typing import Any

from tpuctl.cli import redaction

ABOUT = ("cycle", "plan", "object")
"""Keys that say what a line is about, in the order in which they are written."""


def line(moment_s: float, level: str, message: str, fields: dict[str, Any]) -> str:
    """One line without its end; `moment_s` are seconds since 1970. Empty fields are left out."""
    moment = datetime.datetime.fromtimestamp(moment_s, datetime.UTC)
    record: dict[str, Any] = {
        "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": level,
        "message": redaction.redacted(message),
    }
    named = {key: fields[key] for key in ABOUT if fields.get(key)}
    others = {key: value for key, value in fields.items() if key not in ABOUT and value not in (None, "", ())}
    return json.dumps({**record, **named, **{key: _clean(value) for key, value in others.items()}})


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return redaction.redacted(value)
    return [_clean(item) for item in value] if isinstance(value, (list, tuple)) else value

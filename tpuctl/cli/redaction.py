"""Take secrets out of text that others wrote, before it goes into a log that is kept."""

from __future__ import annotations

import re

_MASK = "***"
_FORMS = (
    # An address with a password in it.
    re.compile(r"(?<=://)[^/@\s]+(?=@)"),
    re.compile(r"(?i)(?<=bearer )[^\s\"',;]+"),
    # Access tokens of Google, and signed tokens such as those of service accounts.
    re.compile(r"\bya29\.[\w.-]+"),
    re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]*"),
    re.compile(
        r"(?i)(?<![\w-])(?:authorization|(?:[\w-]*[_-])?(?:token|password|passwd|secret|api[_-]?key))"
        r"[\"']?\s*[:=]\s*[\"']?(?!bearer\b)(?P<secret>[^\s\"',;&]+)"
    ),
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
)


def redacted(text: str) -> str:
    """`text` with what looks like a secret replaced by `***`; the words around it stay."""
    for form in _FORMS:
        text = form.sub(_masked, text)
    return text


def _masked(found: re.Match[str]) -> str:
    if "secret" not in found.re.groupindex:
        return _MASK
    start, end = found.start("secret") - found.start(), found.end("secret") - found.start()
    return found.group()[:start] + _MASK + found.group()[end:]

"""Names that the services accept, and names that tpuctl makes up.

Slice names: the Slice resource reference (name regex; 49 characters, because the controller appends `-` and
an 8-character cluster hash to name Compute Engine resources of at most 63). Node pools: GKE API, 40.
"""

from __future__ import annotations

import hashlib
import re

from tpuctl.model import errors

MAX_SLICE_NAME = 49
MAX_POOL_NAME = 40
_SLICE_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_DIGEST_LENGTH = 8
_HEAD_SHARE = 6
"""The beginning of a shortened name gets this part of the room."""


def check_slice_name(name: str) -> str:
    """Return `name`; raise UsageError with the broken rule if no Slice can be called so."""
    if not name:
        raise errors.UsageError("a slice name is needed")
    if len(name) > MAX_SLICE_NAME:
        raise errors.UsageError(
            f"slice name '{name}' has {len(name)} characters; at most {MAX_SLICE_NAME} are allowed"
        )
    if not _SLICE_NAME.fullmatch(name):
        raise errors.UsageError(
            f"slice name '{name}' is not allowed: small letters, digits and '-' only, "
            "beginning with a letter and not ending with '-'"
        )
    return name


def shortened(name: str, limit: int) -> str:
    """`name` if it fits, else its beginning, its end (where the numbers stand), and a digest of all of it.

    The result depends on the name alone, so that a second run finds what the first one made; two long names
    stay different.
    """
    if len(name) <= limit:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST_LENGTH]
    room = limit - _DIGEST_LENGTH - 2
    head = name[: room // _HEAD_SHARE].rstrip("-")
    before, tail = name[: len(head) - room], name[len(head) - room :]
    if not before.endswith("-") and "-" in tail:
        tail = tail.partition("-")[2]  # not half a word
    return f"{head}-{tail.lstrip('-')}-{digest}"


def pool_name(sub_block: str, prefix: str = "cube") -> str:
    """The node pool of a sub-block, always the same one: this is what makes set-up repeatable."""
    cleaned = re.sub(r"[^a-z0-9-]+", "-", f"{prefix}-{sub_block}".lower()).strip("-")
    return shortened(cleaned, MAX_POOL_NAME)

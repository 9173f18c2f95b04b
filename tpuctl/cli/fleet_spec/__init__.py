"""The file with a fleet's declared state: `apiVersion: tpuctl/v1`, `kind: Fleet`.

Read strictly, and whole: every fault that is found is told, each with its line. First every value is looked
at by itself (`form`), then the values against each other (`checks`, `fitting`).

Importing this package costs nothing; pydantic and YAML come in with the first file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import TYPE_CHECKING, Any

from tpuctl.model import codec

if TYPE_CHECKING:
    import pathlib

    from tpuctl.model import declared

API_VERSION, KIND = "tpuctl/v1", "Fleet"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Declared:
    """What a file declares."""

    spec: declared.FleetSpec
    digest: str
    """See `digest`."""
    path: pathlib.Path


def read(path: pathlib.Path) -> Declared:
    """Read a file; raises ConfigError with file and line of the first fault, and the others as details."""
    from tpuctl.cli.fleet_spec import reading  # noqa: PLC0415 - pydantic costs a tenth of a second

    spec = reading.read(path)
    return Declared(spec=spec, digest=digest(spec), path=path)


def digest(spec: declared.FleetSpec) -> str:
    """SHA-256 of what is declared, in hex.

    Comments, the order of keys and defaults that are said or not do not change it; every value does.
    """
    text = json.dumps(codec.encode(spec), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def schema() -> dict[str, Any]:
    """The JSON schema of such files, for editors.

    It knows the form and the range of every value; that names fit each other only `read` can tell.
    """
    from tpuctl.cli.fleet_spec import schemas  # noqa: PLC0415 - as above

    return schemas.schema()

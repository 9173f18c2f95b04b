"""OpenAPI of the simulated server: what `kubectl explain` and kubectl's checks before a write read.

Version 3 is what kubectl works with, in JSON. Before some patches it also asks for version 2, in protobuf
only, and goes on without it (seen with 1.31 and 1.37; 1.28 gives up, far too old for a server of 1.36).
"""

from tpuctl.sim.kube.openapi.documents import document, index, media_type, swagger

__all__ = ["document", "index", "media_type", "swagger"]

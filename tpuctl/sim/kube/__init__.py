"""The Kubernetes API of the simulator: REST semantics over the object store."""

"""The simulated GKE v1 REST API: one regional cluster, its node pools and its operations.

`api` speaks HTTP, `shapes` and `requests` check bodies, `pools` lives a pool's life on the hardware,
`operations` keeps long-running operations, `views` writes JSON.
"""

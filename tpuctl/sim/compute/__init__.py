"""The simulated Compute Engine v1 REST API: reservations, resource policies, instances and their groups.

`api` speaks HTTP; `reservations`, `policies`, `instances` and `groups` hold one kind of resource each;
`operations` keeps long-running operations; `listing` cuts lists into pages.
"""

"""What acts by itself in the simulated cluster: nodes, slices, jobs, pods and their events.

Each controller subscribes to the store, plans its next step in the clock's calendar and writes its result
back to the store, as the real ones do; nothing here answers a request.
"""

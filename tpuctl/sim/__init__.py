"""A simulated GKE: Kubernetes API, GKE API, Compute API and the hardware behind them.

Imports nothing else of tpuctl, so that it stays a second opinion.
"""

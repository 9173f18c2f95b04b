"""Operate a fixed fleet of TPU7x on GKE."""

__version__ = "0.1.0"

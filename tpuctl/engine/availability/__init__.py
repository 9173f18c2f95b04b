"""Closed forms and their Monte Carlo twins: what fails, what that costs, how many spares help."""

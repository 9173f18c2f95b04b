"""What the simulated Google REST APIs share: errors, strict bodies, dispatch of requests."""

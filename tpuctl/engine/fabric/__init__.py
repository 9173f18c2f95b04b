"""The optical fabric as an executable model: switches, circuits, twists, distances."""

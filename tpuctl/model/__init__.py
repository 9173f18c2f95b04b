"""What exists: frozen values, parsed once at the edge. Standard library only."""

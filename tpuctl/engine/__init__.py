"""What should happen: pure decisions over model values."""

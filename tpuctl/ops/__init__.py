"""Making it happen: observe, plan, confirm, execute, outcome; through ports."""

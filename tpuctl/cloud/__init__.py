"""The real world: the only room that imports the client libraries."""

"""What an admin types and sees: the only room that imports typer and rich."""

"""Discrete-event runs of one block: how well it is used under different ways of placing and recovering."""

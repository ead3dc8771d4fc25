"""Worlds of teams: several agents, one team reward."""

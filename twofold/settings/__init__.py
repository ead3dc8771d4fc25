"""Settings: declared once with type, bounds and meaning; layers, origin of each value, parts by name."""

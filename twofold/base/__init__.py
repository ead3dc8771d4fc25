"""What everything stands on: errors, how a setting is declared, trees of arrays, signals."""

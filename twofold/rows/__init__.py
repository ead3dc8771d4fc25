"""Single environments as the rows of a world, in this process or in workers; making and checking worlds."""

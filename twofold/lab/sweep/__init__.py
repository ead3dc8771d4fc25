"""A search over settings that ends with a verdict on seeds that the search never saw."""

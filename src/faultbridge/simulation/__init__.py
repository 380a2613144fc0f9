"""A deterministic simulation: the product's own stages and orchestration in a world that breaks by the seed."""

"""Search algorithms as pure functions: no git, no jax, no files but a journal. The caller defines what a point is."""

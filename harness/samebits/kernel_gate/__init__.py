"""A gate for kernels that are written by people or by programs: they are refuted by name, or shown to be right."""

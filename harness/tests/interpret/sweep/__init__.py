"""A sweep over public functions of libraries: which primitives they produce, and which of these are interpreted."""

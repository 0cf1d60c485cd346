"""Properties of one function: what it may read, on which batch its bits depend, and whether it resumes."""

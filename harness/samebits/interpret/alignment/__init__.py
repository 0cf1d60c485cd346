"""Two programs aligned without names: which equations of one compute what the other does not."""

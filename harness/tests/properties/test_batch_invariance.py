"""A row's bits must not depend on its batch."""

"""Compares the defaults of two sources of configuration, such as a schema and a YAML file."""

"""Two sources of configuration held against each other: do a schema and a YAML file agree on every default?"""

"""Claims of documents, the parallelism guide, configuration files, snapshots of verdicts, planted faults."""

"""The HTML report: one self-contained file, made of one section per document."""

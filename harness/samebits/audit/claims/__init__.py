"""The claims of documents, held against what check and compile found: `samebits claims`."""

"""Checks the claims of documents against the results of check and compile: `samebits audit claims`."""

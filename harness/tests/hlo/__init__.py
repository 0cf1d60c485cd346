"""Tests of how compiled programs are read, counted and compared."""

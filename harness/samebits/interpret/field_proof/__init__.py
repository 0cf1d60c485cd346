"""Proofs over finite fields: both programs compute the same formulas."""

"""Proofs about pairs, without running anything."""

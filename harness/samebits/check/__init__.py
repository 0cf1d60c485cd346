"""Execute, compare, judge: one point of a pair at a time."""

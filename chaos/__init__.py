"""Attacks on real clusters, and the judgement of what their clients saw."""

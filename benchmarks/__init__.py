"""Benchmarks: one adapter per competitor, accuracy beside time, one command prints the ratios."""

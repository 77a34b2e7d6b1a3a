"""The per-row mathematics: NumPy reference and fused twin, on plain arrays."""

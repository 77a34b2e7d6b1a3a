"""Moments: chances and means of outcomes, under any rule, of rows of which nothing is recorded.

Predictions and effects ask these, also under another rule than that of the fit, and do not care
whether the index was known.
"""

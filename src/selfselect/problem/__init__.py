"""The problem to solve: model, parameters, observations, and their evaluation."""

"""The paper's own methods, for reference: they are offered by `selfselect.solvers`."""

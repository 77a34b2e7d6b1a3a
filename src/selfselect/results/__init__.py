"""Results: the fit as users read it."""

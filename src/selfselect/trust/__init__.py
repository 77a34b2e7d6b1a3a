"""How far to trust a fit: models of the same rows beside each other, and the fit rehearsed."""

"""A page to explore a fit: computed in the browser, from the estimates and their covariance."""

# The sample of the tests of R's sampleSelection in which a binary outcome is selected, without its
# package mvtnorm. Writes binary_selection_data.csv:
#   Rscript binary_selection.R
set.seed(0)
n <- 500
rho <- 0.7
parts <- eigen(matrix(c(1, rho, rho, 1), 2, 2), symmetric = TRUE)
root <- t(parts$vectors %*% (t(parts$vectors) * sqrt(parts$values)))
noise <- matrix(rnorm(2 * n), nrow = n, byrow = TRUE) %*% root
xs <- runif(n)
selected <- 3 * xs + noise[, 1] > 0
xo <- runif(n)
outcome <- -1 + 2 * xo + noise[, 2] > 0
data <- data.frame(
  xs = signif(xs, 10), xo = signif(xo, 10), ys = as.integer(selected),
  yo = ifelse(selected, as.integer(outcome), NA)
)
write.csv(data, "binary_selection_data.csv", row.names = FALSE, na = "", quote = FALSE)

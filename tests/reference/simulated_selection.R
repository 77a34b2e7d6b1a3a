# Two simulated samples of R's sampleSelection vignette, without its package mvtnorm: an outcome that
# is selected (xs, ys, xo, yo), and two outcomes between which an equation switches (all others).
# Writes simulated_selection_data.csv:
#   Rscript simulated_selection.R
draw <- function(covariance, n = 500) {
  parts <- eigen(covariance, symmetric = TRUE)
  root <- t(parts$vectors %*% (t(parts$vectors) * sqrt(parts$values)))
  matrix(rnorm(n * ncol(covariance)), nrow = n, byrow = TRUE) %*% root
}
set.seed(0)
noise <- draw(matrix(c(1, -0.7, -0.7, 1), 2, 2))
xs <- runif(500)
selected <- xs + noise[, 1] > 0
xo <- runif(500)
yo <- xo + noise[, 2]
set.seed(0)
noise <- draw(matrix(c(1, 0.9, 0.5, 0.9, 1, 0.1, 0.5, 0.1, 1), 3, 3))
z <- runif(500)
second <- z + noise[, 1] > 0
x1 <- runif(500)
y1 <- x1 + noise[, 2]
x2 <- runif(500)
y2 <- x2 + noise[, 3]
data <- data.frame(
  xs = signif(xs, 10), ys = as.integer(selected), xo = signif(xo, 10),
  yo = ifelse(selected, signif(yo, 10), NA),
  z = signif(z, 10), second = as.integer(second), x1 = signif(x1, 10), x2 = signif(x2, 10),
  y = signif(ifelse(second, y2, y1), 10)
)
write.csv(data, "simulated_selection_data.csv", row.names = FALSE, na = "", quote = FALSE)

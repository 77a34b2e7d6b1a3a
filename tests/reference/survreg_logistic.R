# Fits each alternative of survreg_data.csv by R's survival::survreg with logistic noise, as
# survreg.R does with normal noise. Writes survreg_logistic_result.csv. Run beside the files:
# Rscript survreg_logistic.R
library(survival)

data <- read.csv("survreg_data.csv")
control <- survreg.control(rel.tolerance = 1e-14, toler.chol = 1e-14, maxiter = 200)
sides <- c(max = "left", min = "right")
result <- NULL
for (rule in names(sides)) {
  outcome <- data[[paste0("y_", rule)]]
  chosen <- data[[paste0("chosen_", rule)]]
  for (alternative in sort(unique(chosen))) {
    seen <- as.numeric(chosen == alternative)
    response <- Surv(outcome, seen, type = sides[[rule]])
    fit <- survreg(response ~ x1 + x2, data = data, dist = "logistic", control = control)
    # The last parameter of vcov is Log(scale); the standard error of the scale follows from it.
    errors <- sqrt(diag(vcov(fit)))
    result <- rbind(result, data.frame(
      rule = rule,
      alternative = alternative,
      term = c("Intercept", "x1", "x2", "scale", "loglik"),
      estimate = c(coef(fit), fit$scale, fit$loglik[2]),
      std_error = c(errors[1:3], errors[4] * fit$scale, NA)
    ))
  }
}
result$estimate <- sprintf("%.15g", result$estimate)
result$std_error <- sprintf("%.15g", result$std_error)
file <- file("survreg_logistic_result.csv", "w")
writeLines(paste("# R", getRversion(), "survival", packageVersion("survival")), file)
write.csv(result, file, quote = FALSE, row.names = FALSE)
close(file)

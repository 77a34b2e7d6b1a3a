# Fits each alternative of survreg_data.csv by R's survival::survreg with a scale for each sign of
# x2, as strata. Writes survreg_spread_result.csv. Run beside the files: Rscript survreg_spread.R
library(survival)

data <- read.csv("survreg_data.csv")
data$region <- ifelse(data$x2 > 0, "south", "north")
control <- survreg.control(rel.tolerance = 1e-14, toler.chol = 1e-14, maxiter = 200)
sides <- c(max = "left", min = "right")
result <- NULL
for (shape in c("gaussian", "logistic")) {
  for (rule in names(sides)) {
    outcome <- data[[paste0("y_", rule)]]
    chosen <- data[[paste0("chosen_", rule)]]
    for (alternative in sort(unique(chosen))) {
      seen <- as.numeric(chosen == alternative)
      response <- Surv(outcome, seen, type = sides[[rule]])
      fit <- survreg(response ~ x1 + x2 + strata(region), data = data, dist = shape,
                     control = control)
      scale <- log(fit$scale)
      # The last two parameters of vcov are the log scales of north and south.
      covariance <- vcov(fit)
      errors <- sqrt(diag(covariance))
      apart <- sqrt(covariance[4, 4] + covariance[5, 5] - 2 * covariance[4, 5])
      result <- rbind(result, data.frame(
        shape = shape,
        rule = rule,
        alternative = alternative,
        term = c("Intercept", "x1", "x2", "log scale: Intercept", "log scale: C(region)[T.south]",
                 "loglik"),
        estimate = c(coef(fit), scale[1], scale[2] - scale[1], fit$loglik[2]),
        std_error = c(errors[1:4], apart, NA)
      ))
    }
  }
}
result$estimate <- sprintf("%.15g", result$estimate)
result$std_error <- sprintf("%.15g", result$std_error)
file <- file("survreg_spread_result.csv", "w")
writeLines(paste("# R", getRversion(), "survival", packageVersion("survival")), file)
write.csv(result, file, quote = FALSE, row.names = FALSE)
close(file)

# Fits each alternative of survreg_data.csv by R's survival::survreg with extreme-value noise, as
# survreg.R does with normal noise: of minima (shape gumbel_min), and of maxima (shape gumbel), which
# are minima of minus the outcome. Intercepts are those of means: survreg's location of minima less
# Euler's constant times the scale. Writes survreg_extreme_result.csv. Run beside the files:
# Rscript survreg_extreme.R
library(survival)

euler <- -digamma(1)
data <- read.csv("survreg_data.csv")
control <- survreg.control(rel.tolerance = 1e-14, toler.chol = 1e-14, maxiter = 200)
sides <- c(max = "left", min = "right")
mirrored <- c(left = "right", right = "left")
result <- NULL
for (shape in c("gumbel", "gumbel_min")) {
  for (rule in names(sides)) {
    sign <- if (shape == "gumbel") -1 else 1
    side <- if (shape == "gumbel") mirrored[[sides[[rule]]]] else sides[[rule]]
    outcome <- sign * data[[paste0("y_", rule)]]
    chosen <- data[[paste0("chosen_", rule)]]
    for (alternative in sort(unique(chosen))) {
      seen <- as.numeric(chosen == alternative)
      response <- Surv(outcome, seen, type = side)
      fit <- survreg(response ~ x1 + x2, data = data, dist = "extreme", control = control)
      # The last parameter of vcov is Log(scale); a mean is the location less euler times the scale.
      jacobian <- diag(4)
      jacobian[4, 4] <- fit$scale
      jacobian[1, 4] <- -euler * fit$scale
      errors <- sqrt(diag(jacobian %*% vcov(fit) %*% t(jacobian)))
      means <- coef(fit) - c(euler * fit$scale, 0, 0)
      result <- rbind(result, data.frame(
        shape = shape,
        rule = rule,
        alternative = alternative,
        term = c("Intercept", "x1", "x2", "scale", "loglik"),
        estimate = c(sign * means, fit$scale, fit$loglik[2]),
        std_error = c(errors, NA)
      ))
    }
  }
}
result$estimate <- sprintf("%.15g", result$estimate)
result$std_error <- sprintf("%.15g", result$std_error)
file <- file("survreg_extreme_result.csv", "w")
writeLines(paste("# R", getRversion(), "survival", packageVersion("survival")), file)
write.csv(result, file, quote = FALSE, row.names = FALSE)
close(file)

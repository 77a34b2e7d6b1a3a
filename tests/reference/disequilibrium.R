# A market in disequilibrium with correlated shocks, by R's optim: Rscript disequilibrium.R
# The quantity is the smaller of demand and supply (Maddala and Nelson 1974), and nobody recorded
# which. Written from the formula, not from this package. Writes disequilibrium_result.csv.
data <- read.csv("market_data.csv")
demand <- cbind(1, data$rate, data$stock)
supply <- cbind(1, data$rate, data$deposits)
q <- data$quantity
minus_loglik <- function(p) {
  s1 <- exp(p[7]); s2 <- exp(p[8]); r <- tanh(p[9])
  a1 <- (q - demand %*% p[1:3]) / s1
  a2 <- (q - supply %*% p[4:6]) / s2
  root <- sqrt(1 - r^2)
  one <- dnorm(a1) / s1 * pnorm((a2 - r * a1) / root, lower.tail = FALSE)
  two <- dnorm(a2) / s2 * pnorm((a1 - r * a2) / root, lower.tail = FALSE)
  -sum(log(one + two))
}
best <- NULL
for (start in c(-0.4, 0, 0.4)) {
  found <- optim(c(1, -0.8, 1.2, 0.8, 0.5, 1.1, log(0.7), log(0.9), start), minus_loglik,
                 method = "BFGS", control = list(maxit = 2000, reltol = 1e-15))
  found <- optim(found$par, minus_loglik, method = "BFGS",
                 control = list(maxit = 2000, reltol = 1e-15))
  if (is.null(best) || found$value < best$value) best <- found
}
p <- best$par
names <- c("demand:Intercept", "demand:rate", "demand:stock", "supply:Intercept", "supply:rate",
           "supply:deposits", "demand:scale", "supply:scale", "correlation", "loglik")
values <- c(p[1:6], exp(p[7:8]), tanh(p[9]), -best$value)
write.csv(data.frame(name = names, value = sprintf("%.12g", values)),
          "disequilibrium_result.csv", row.names = FALSE, quote = FALSE)

# Multinomial switching in base R: a logit by Newton's method, the corrections of Lee, Dubin and
# McFadden (three) and Dahl written out from their formulas, with the integral of dmf2 by
# integrate(), and least squares by lm(). Once with all alternatives on every menu, once with c
# only where open_c is 1. Writes multinomial_result.csv. Run beside the files:
#   Rscript multinomial.R
data <- read.csv("multinomial_data.csv")
labels <- c("a", "b", "c")
z <- cbind(1, data$x, data$z1, data$z2)

chances <- function(gamma, open) {
  utility <- cbind(0, z %*% matrix(gamma, ncol = 2))
  e <- exp(utility) * open
  e / rowSums(e)
}

logit <- function(chosen, open) {
  gamma <- rep(0, 8)
  for (step in 1:50) {
    p <- chances(gamma, open)
    d <- outer(chosen, labels, "==") - p
    gradient <- c(t(z) %*% d[, 2], t(z) %*% d[, 3])
    block <- function(m, l) t(z) %*% (z * (p[, m] * ((m == l) - p[, l])))
    information <- rbind(cbind(block(2, 2), block(2, 3)), cbind(block(3, 2), block(3, 3)))
    gamma <- gamma + solve(information, gradient)
  }
  gamma
}

normal_mean <- function(p) {
  if (p == 0) return(0)
  integrate(function(w) qnorm(w^p), 0, 1, rel.tol = 1e-12, subdivisions = 5000L)$value
}

regressors <- function(p, j, correction) {
  rest <- setdiff(1:3, j)
  gumbel <- ifelse(p > 0, p * log(p) / (1 - p), 0)
  if (correction == "dmf1") {
    made <- gumbel
    made[, j] <- -log(p[, j])
    return(made)
  }
  if (correction == "dmf0") return(gumbel[, rest] + log(p[, j]))
  if (correction == "dmf2") {
    m <- apply(p, c(1, 2), normal_mean)
    made <- -m * p / (1 - p)
    made[, j] <- m[, j]
    return(made)
  }
  if (correction == "lee") return(cbind(-dnorm(qnorm(p[, j])) / p[, j]))
  q <- apply(p[, rest], 1, max)
  own <- p[, j]
  cbind(own, q, own^2, own * q, q^2)
}

rows <- list()
for (menu in c("all", "some")) {
  chosen <- if (menu == "all") data$job else data$menu_job
  y <- if (menu == "all") data$y else data$menu_y
  open <- matrix(1, nrow(data), 3)
  if (menu == "some") open[, 3] <- data$open_c
  gamma <- logit(chosen, open)
  p <- chances(gamma, open)
  add <- function(correction, equation, values) {
    rows[[length(rows) + 1]] <<- data.frame(
      menu = menu, correction = correction, equation = equation,
      place = seq_along(values), value = unname(values)
    )
  }
  add("logit", "b", gamma[1:4])
  add("logit", "c", gamma[5:8])
  for (correction in c("dmf0", "dmf1", "dmf2", "lee", "dahl")) {
    for (j in 1:3) {
      own <- chosen == labels[j]
      made <- regressors(p[own, ], j, correction)
      add(correction, labels[j], coef(lm(y[own] ~ data$x[own] + made)))
    }
  }
}
result <- do.call(rbind, rows)
result$value <- sprintf("%.15g", result$value)
write.csv(result, "multinomial_result.csv", row.names = FALSE)

# The sample of R's sampleSelection vignette in which the noise of selection and outcome is the
# same (a tobit model written as sample selection). Writes perfect_correlation_data.csv:
#   Rscript perfect_correlation.R
set.seed(0)
x <- runif(1000)
y <- x + rnorm(1000)
data <- data.frame(x = signif(x, 10), y = ifelse(y > 0, signif(y, 10), NA))
write.csv(data, "perfect_correlation_data.csv", row.names = FALSE, na = "", quote = FALSE)

// Shapes of the noise other than the normal one, whose terms are elementary functions. The oracles
// are the files of `noises/shapes/`.
#pragma once

#include "blocks.hpp"

namespace {

// A logarithm and its first two derivatives in a.
struct ShapeTerm {
    double value, slope, bend;
};

// log(1 + f) for f in [-1/2, 1], right to all digits of an f however small.
inline double log_of_one_and(double f) {
    const bool large = f > 0.41421356237309503, small = f < -UPPER_HALVES;
    const double top = large ? f - 1.0 : small ? 1.0 + 2.0 * f : f;
    const double bottom = large ? f + 3.0 : small ? 3.0 + 2.0 * f : 2.0 + f;
    return (large ? LN2 : small ? -LN2 : 0.0) + log_of_quotient(top / bottom);
}

// tanh(y)/y for |y| <= 1/8 in powers of y^2, constant first.
constexpr double TANH[7] = {
    1.0,
    -0.3333333333333333,
    0.13333333333333333,
    -0.05396825396825397,
    0.021869488536155203,
    -0.008863235529902197,
    0.003592128036572481,
};

// Logistic: with t = e^-|a|, everything is a quotient in t.
inline ShapeTerm logistic_at(double a, double code) {
    const double x = __builtin_fabs(a), t = exponential(-x);
    const double inverse = 1.0 / (1.0 + t), logarithm = log_of_one_and(t);
    const double density = t * inverse * inverse;
    const double half = 0.5 * x, square = half * half;
    double series = TANH[6];
#pragma GCC unroll 8
    for (int i = 5; i >= 0; --i) series = series * square + TANH[i];
    // For a small |a| the difference 1 - t has few digits.
    const double tanh = x < 0.25 ? half * series : (1.0 - t) * inverse;
    const bool observed = code == OBSERVED;
    const double turn = code == BELOW ? 1.0 : -1.0, at = turn * a;
    const double beyond = at > 0.0 ? t * inverse : inverse;
    return {observed ? -x - 2.0 * logarithm : (at < 0.0 ? at : 0.0) - logarithm,
            observed ? -__builtin_copysign(tanh, a) : turn * beyond,
            observed ? -2.0 * density : -density};
}

// B_{2n}/(2n)!, n = 1, 2, ...: E/(1 - e^-E) = 1 + E/2 + these times E^2, E^4, ...
constexpr double BERNOULLI[10] = {
    0.08333333333333333,
    -0.001388888888888889,
    3.306878306878307e-05,
    -8.267195767195768e-07,
    2.08767569878681e-08,
    -5.284190138687493e-10,
    1.3382536530684679e-11,
    -3.3896802963225827e-13,
    8.586062056277845e-15,
    -2.174868698558062e-16,
};

constexpr double EULER_GAMMA = 0.5772156649015329;
constexpr double GUMBEL_FARTHEST = -100.0;  // as in `gumbel.py`

// Gumbel noise of maxima: with E = e^-t, t = a + Euler's number, log F = -E. Beyond the farthest t
// the power goes on as its quadratic expansion.
inline ShapeTerm gumbel_at(double a, double code) {
    const double t = a + EULER_GAMMA;
    const double within = t >= GUMBEL_FARTHEST ? t : GUMBEL_FARTHEST;
    double beyond = GUMBEL_FARTHEST - t;
    beyond = beyond > 0.0 ? (beyond < 1e90 ? beyond : 1e90) : 0.0;
    const double small = exponential(-__builtin_fabs(within));
    const double second = within >= 0.0 ? small : 1.0 / small;
    const double first = second * (1.0 + beyond);
    const double power = second * (1.0 + beyond + 0.5 * beyond * beyond);

    // Above: log(1 - e^-E), with the excess of E/(1 - e^-E) over one.
    const double faded = exponential(-power), square = power * power;
    const bool few = power < 1.0;
    double series = BERNOULLI[9];
    const double bounded = few ? square : 0.0;
#pragma GCC unroll 10
    for (int i = 8; i >= 0; --i) series = series * bounded + BERNOULLI[i];
    const double excess =
        few ? power * 0.5 + bounded * series : power / (1.0 - (few ? 0.0 : faded)) - 1.0;
    const double logarithm = log_of_one_and(few ? excess : -faded);
    const double ratio = (1.0 + excess) * faded;

    const bool observed = code == OBSERVED, below = code == BELOW;
    return {observed ? -t - power : below ? -power : few ? -t - logarithm : logarithm,
            observed ? first - 1.0 : below ? first : -ratio,
            observed || below ? -second : -ratio * excess};
}

// Gumbel noise of minima is minus one of maxima.
inline ShapeTerm gumbel_min_at(double a, double code) {
    const ShapeTerm term = gumbel_at(-a, code == BELOW ? ABOVE : code == ABOVE ? BELOW : code);
    return {term.value, -term.slope, term.bend};
}

// Turn a block's a into weighted residuals, curvatures (sign turned) and log-likelihoods.
template <ShapeTerm (*term_at)(double, double)>
inline void shape_terms(const double* __restrict a, const double* __restrict codes,
                        const double* __restrict weight, double* __restrict residual,
                        double* __restrict curvature, double* __restrict loglik,
                        double* __restrict observed_weight) {
    for (Index r = 0; r < BLOCK; ++r) {
        const ShapeTerm term = term_at(a[r], codes[r]);
        const double w = codes[r] <= ABOVE ? weight[r] : 0.0;
        residual[r] = -w * term.slope;
        curvature[r] = -w * term.bend;
        loglik[r] = w * term.value;
        observed_weight[r] = codes[r] == OBSERVED ? w : 0.0;
    }
}

}  // namespace

// Student's t, by Chebyshev series of what is left of its tails without their powers. The oracle is
// `_student.py` of `noises/shapes/`, which also makes the series and says what they are.
#pragma once

#include "blocks.hpp"
#include "shapes.hpp"

namespace {

using selfselect::Student;

constexpr double LARGEST_ROOT = 1e150;  // whose square does not overflow, as in `_student.py`

// Values of a Chebyshev series at half of each `doubled`.
inline void series_at(const double* series, Index size, const double* doubled, double* out) {
    for (Index r = 0; r < BLOCK; r += 4 * LANES) {
        Lanes x[4], last[4] = {}, before[4] = {};
        for (int i = 0; i < 4; ++i) x[i] = lanes(doubled + r + i * LANES);
        for (Index m = size - 1; m > 0; --m)
            for (int i = 0; i < 4; ++i) {
                const Lanes next = x[i] * last[i] + (series[m] - before[i]);
                before[i] = last[i];
                last[i] = next;
            }
        for (int i = 0; i < 4; ++i)
            *reinterpret_cast<Lanes*>(out + r + i * LANES) =
                0.5 * x[i] * last[i] + (series[0] - before[i]);
    }
}

// The terms of a block under Student's t, and their derivatives in the degrees of freedom.
struct StudentBlock {
    explicit StudentBlock(Index length)
        : doubled(BLOCK), inverse(BLOCK), root(BLOCK), power(BLOCK), scaled(BLOCK), slope(BLOCK),
          odds(BLOCK), first(BLOCK), second(BLOCK), by(BLOCK), twice(BLOCK), mixed(BLOCK),
          along(length) {}
    Doubles doubled, inverse, root, power, scaled, slope, odds;
    Doubles first, second, by, twice, mixed, along;

    // Turn a block's a into weighted residuals, curvatures (sign turned) and log-likelihoods.
    void evaluate(const Student& student, Index which, const double* __restrict a,
                  const double* __restrict codes, const double* __restrict weight,
                  double* __restrict residual, double* __restrict curvature,
                  double* __restrict loglik, double* __restrict observed_weight) {
        const double* level = student.levels + which * selfselect::STUDENT_LEVELS;
        const double* series = student.series + which * 3 * student.n_terms;
        const double nu = level[0], of_density = level[1], of_tail = level[2];
        const double inverse_nu = 1.0 / nu, more = nu + 1.0;
        double* __restrict inverses = inverse;
        double* __restrict roots = root;
        double* __restrict powers = power;
        double* __restrict places = doubled;
        for (Index r = 0; r < BLOCK; ++r) {
            const double far = __builtin_fabs(a[r]);
            const double x = far < LARGEST_ROOT ? far : LARGEST_ROOT;
            const double bottom = nu + x * x;
            roots[r] = __builtin_sqrt(bottom);
            inverses[r] = 1.0 / bottom;
            powers[r] = logarithm(bottom * inverse_nu);
            places[r] = 4.0 * (x / roots[r]) - 2.0;
        }
        series_at(series, student.n_terms, doubled, scaled);
        const double* __restrict tails = scaled;
        double* __restrict slopes = slope;
        double* __restrict chances = odds;
        for (Index r = 0; r < BLOCK; ++r) {
            const bool observed = codes[r] == OBSERVED;
            const double turn = codes[r] == BELOW ? 1.0 : -1.0;
            const bool left = turn * a[r] <= 0.0;
            const double fall = -more * a[r] * inverses[r];
            const double bent = -inverses[r] * (more + 2.0 * a[r] * fall);
            const double outer = of_tail - 0.5 * nu * powers[r] - logarithm(tails[r]);
            const double mass = exponential(outer), against = mass / (1.0 - mass);
            const double ratio = tails[r] / roots[r] * (left ? 1.0 : against);
            const double value = left ? outer : log_of_one_and(-mass);
            const double w = codes[r] <= ABOVE ? weight[r] : 0.0;
            residual[r] = -w * (observed ? fall : turn * ratio);
            curvature[r] = -w * (observed ? bent : ratio * (turn * fall - ratio));
            loglik[r] = w * (observed ? of_density - 0.5 * more * powers[r] : value);
            observed_weight[r] = observed ? w : 0.0;
            slopes[r] = turn * ratio;
            chances[r] = left ? -1.0 : against;
        }
        if (student.score) differentiate(student, which, a, codes, weight);
    }

    // Weighted derivatives in the degrees of freedom: first, second, and in a and these.
    void differentiate(const Student& student, Index which, const double* __restrict a,
                       const double* __restrict codes, const double* __restrict weight) {
        const double* level = student.levels + which * selfselect::STUDENT_LEVELS;
        const double* series = student.series + which * 3 * student.n_terms;
        const double nu = level[0], of_first = level[3], of_second = level[4];
        const double inverse_nu = 1.0 / nu, more = nu + 1.0, half = 0.5 * more * inverse_nu;
        series_at(series + student.n_terms, student.n_terms, doubled, first);
        series_at(series + 2 * student.n_terms, student.n_terms, doubled, second);
        const double* __restrict inverses = inverse;
        const double* __restrict powers = power;
        const double* __restrict slopes = slope;
        const double* __restrict chances = odds;
        const double* __restrict firsts = first;
        const double* __restrict seconds = second;
        double* __restrict by_degrees = by;
        double* __restrict by_both = mixed;
        double* __restrict bends = twice;
        for (Index r = 0; r < BLOCK; ++r) {
            const bool observed = codes[r] == OBSERVED, left = chances[r] < 0.0;
            const double share = 1.0 - nu * inverses[r];
            const double by_density = of_first - 0.5 * powers[r] + half * share;
            const double near = firsts[r] - 0.5 * powers[r], once = -chances[r] * near;
            const double bend = left ? seconds[r]
                                     : -chances[r] * (seconds[r] + near * near) - once * once;
            const double bend_of_density =
                of_second + share * (inverse_nu - half * (inverse_nu + inverses[r]));
            const double w = codes[r] <= ABOVE ? weight[r] : 0.0;
            by_degrees[r] = w * (observed ? by_density : once);
            bends[r] = w * (observed ? bend_of_density : bend);
            by_both[r] = w * (observed ? a[r] * inverses[r] * (more * inverses[r] - 1.0)
                                   : slopes[r] * (by_density - once));
        }
    }

    // Add what concerns the degrees of freedom.
    void add(const Student& student, Index which, const Rows& rows, Plan& plan, Index j,
             const double* block, bool curved) {
        student.score[which] += total(by);
        if (!curved) return;
        student.hessian[which] += total(twice);
        const double* terms = mixed;
        for (Index p = 0; p < plan.padded; ++p) along[p] = 0.0;
        for (Index p = 0; p < plan.tiled(j); p += TILE) {
            const double* x[TILE];
            for (Index i = 0; i < TILE; ++i) x[i] = block + plan.sources(j)[p + i] * STRIDE;
            tile_part<1>(x, &terms, along + p, 1);
        }
        // a falls along the columns.
        double* out = student.mixed + j * (rows.width + 1);
        for (Index p = 0; p < plan.tiled(j); ++p) out[plan.places(j)[p]] -= along[p];
        if (plan.constant(j) >= 0) out[plan.constant(j)] -= total(mixed);
    }
};

}  // namespace

// Terms of single rows, for tests, robust and clustered covariances, residuals and memberships; and
// normal tails as functions of arrays.
#pragma once

#include "interval.hpp"
#include "known.hpp"
#include "unknown.hpp"

namespace {

using selfselect::Intervals;
using selfselect::KnownRows;
using selfselect::Memberships;
using selfselect::Tails;

// Beyond this Phi is one, and infinity itself would make 0 * infinity of the terms.
constexpr double FAR_RIGHT = 1e150;

bool evaluate_tails(const Tails& tails, GoOn go_on) {
    Doubles a(BLOCK), gaps(BLOCK), densities(BLOCK), log_cdf(BLOCK), ratio(BLOCK), slope(BLOCK);
    for (Index start = 0, number = 1; start < tails.n; start += BLOCK, ++number) {
        if (number % BLOCKS_PER_QUESTION == 0 && !go_on()) return false;
        const Index left = tails.n - start, filled = left < BLOCK ? left : BLOCK;
        const double* from = tails.a + start;
        for (Index r = 0; r < filled; ++r) a[r] = from[r] > FAR_RIGHT ? FAR_RIGHT : from[r];
        gaps_at(a, gaps);
        densities_at(a, densities);
        const double *__restrict at = a, *__restrict gap = gaps, *__restrict density = densities;
        double *__restrict first = log_cdf, *__restrict second = ratio, *__restrict third = slope;
        for (Index r = 0; r < BLOCK; ++r) {
            const Tail tail = tail_at(at[r], gap[r], density[r]);
            first[r] = at[r] == -__builtin_inf() ? at[r] : tail.log_cdf;
            second[r] = tail.ratio;
            third[r] = tail.slope;
        }
        std::memcpy(tails.log_cdf + start, log_cdf, sizeof(double) * filled);
        std::memcpy(tails.ratio + start, ratio, sizeof(double) * filled);
        std::memcpy(tails.slope + start, slope, sizeof(double) * filled);
    }
    return true;
}

// The same as `interval_at` for a block, without branches, but for narrow intervals, which are left to
// that. Ends are reflected so that the nearer one comes first.
inline void wide_intervals(const double* __restrict lower, const double* __restrict upper,
                           double* __restrict log_mass, double* __restrict at_low,
                           double* __restrict at_high) {
    for (Index r = 0; r < BLOCK; ++r) {
        const bool reflect = lower[r] + upper[r] < 0.0;
        const double near = reflect ? -upper[r] : lower[r], far = reflect ? -lower[r] : upper[r];
        const double near_size = __builtin_fabs(near), far_size = __builtin_fabs(far);
        const double near_ratio = near_size + gap_at(near_size);
        const double far_ratio = far_size + gap_at(far_size);
        const double near_phi = exponential(-0.5 * near * near) * INV_SQRT_TWO_PI;
        const double far_phi = exponential(-0.5 * far * far) * INV_SQRT_TWO_PI;
        const double kept = exponential(-0.5 * (far - near) * (far + near));

        // Around zero the mass is what two tails leave; else it is their difference over phi(near).
        const bool around = near < 0.0;
        const double outside = near_phi / near_ratio + far_phi / far_ratio;
        const double mass = around ? 1.0 - outside : 1.0 / near_ratio - kept / far_ratio;
        const double near_density = (around ? near_phi : 1.0) / mass;
        const double far_density = (around ? far_phi : kept) / mass;

        // Where little lies outside its logarithm starts from that.
        double mantissa, twos;
        split(mass, mantissa, twos);
        const bool little = around && outside < UPPER_HALVES;
        const double top = little ? -outside : mantissa - 1.0;
        const double bottom = little ? 2.0 - outside : mantissa + 1.0;
        const double logarithm = (little ? 0.0 : twos * LN2) + log_of_quotient(top / bottom);
        log_mass[r] = around ? logarithm : -0.5 * near * near - HALF_LOG_TWO_PI + logarithm;
        at_low[r] = reflect ? far_density : near_density;
        at_high[r] = reflect ? near_density : far_density;
    }
}

// Not so for ends that change places, or are not numbers: those are left to `interval_at`, too.
inline bool is_wide(double lower, double upper) {
    const double width = upper - lower;
    return width >= NARROW || 0.5 * width * __builtin_fabs(upper + lower) >= NARROW;
}

bool evaluate_intervals(const Intervals& intervals, GoOn go_on) {
    Doubles lower(BLOCK), upper(BLOCK), log_mass(BLOCK), at_low(BLOCK), at_high(BLOCK);
    for (Index start = 0, number = 1; start < intervals.n; start += BLOCK, ++number) {
        if (number % BLOCKS_PER_QUESTION == 0 && !go_on()) return false;
        const Index left = intervals.n - start, filled = left < BLOCK ? left : BLOCK;
        std::memcpy(lower, intervals.lower + start, sizeof(double) * filled);
        std::memcpy(upper, intervals.upper + start, sizeof(double) * filled);
        wide_intervals(lower, upper, log_mass, at_low, at_high);
        for (Index r = 0; r < filled; ++r) {
            if (is_wide(lower[r], upper[r])) continue;
            const Interval mass = interval_at(lower[r], upper[r]);
            log_mass[r] = mass.log_mass;
            at_low[r] = mass.lower_density;
            at_high[r] = mass.upper_density;
        }
        std::memcpy(intervals.log_mass + start, log_mass, sizeof(double) * filled);
        std::memcpy(intervals.lower_density + start, at_low, sizeof(double) * filled);
        std::memcpy(intervals.upper_density + start, at_high, sizeof(double) * filled);
    }
    return true;
}

// The terms of one alternative; see `known_index.py`.
bool evaluate_known_rows(const KnownRows& rows, GoOn go_on) {
    Doubles codes(BLOCK), limit(BLOCK), location(BLOCK), a(BLOCK), gaps(BLOCK), densities(BLOCK);
    Doubles weight(BLOCK), residual(BLOCK), curvature(BLOCK), loglik(BLOCK), observed(BLOCK);
    const double h = rows.h, level = log(h) - HALF_LOG_TWO_PI;
    fill(weight, 1.0);
    for (Index start = 0, number = 1; start < rows.n; start += BLOCK, ++number) {
        if (number % BLOCKS_PER_QUESTION == 0 && !go_on()) return false;
        const Index left = rows.n - start, filled = left < BLOCK ? left : BLOCK;
        for (Index r = 0; r < filled; ++r) {
            codes[r] = rows.status.data[(start + r) * rows.status.row];
            location[r] = rows.location.data[(start + r) * rows.location.row];
            const double bound = rows.limit.data[(start + r) * rows.limit.row];
            limit[r] = codes[r] <= ABOVE ? bound : 0.0;
        }
        for (Index r = filled; r < BLOCK; ++r) codes[r] = UNKNOWN;
        for (Index r = 0; r < BLOCK; ++r) a[r] = h * limit[r] - location[r];
        gaps_at(a, gaps);
        densities_at(a, densities);
        known_terms(a, gaps, densities, codes, weight, residual, curvature, loglik, observed);
        for (Index r = 0; r < filled; ++r) {
            // One limit c moves only a = h c - g'x, so derivatives in h are those in g times -c.
            const Index i = start + r;
            const double c = limit[r];
            rows.loglik[i] = loglik[r] + (observed[r] != 0.0 ? level : 0.0);
            rows.residual[i] = residual[r];
            rows.score_h[i] = (observed[r] != 0.0 ? 1.0 / h : 0.0) - residual[r] * c;
            rows.curvature[i] = -curvature[r];
            rows.curvature_gh[i] = curvature[r] * c;
            rows.curvature_hh[i] = -curvature[r] * c * c - (observed[r] != 0.0 ? 1.0 / (h * h) : 0.0);
        }
        for (Index r = 0; rows.upper.data && r < filled; ++r) {
            if (codes[r] != BETWEEN) continue;
            const Index i = start + r;
            const BetweenTerms terms =
                between_at(location[r], h, rows.limit.data[i * rows.limit.row],
                           rows.upper.data[i * rows.upper.row]);
            rows.loglik[i] = terms.loglik;
            rows.residual[i] = terms.residual;
            rows.score_h[i] = terms.score_h;
            rows.curvature[i] = terms.curvature;
            rows.curvature_gh[i] = terms.curvature_gh;
            rows.curvature_hh[i] = terms.curvature_hh;
        }
    }
    return true;
}

// What rows say of their own index; see `unknown_index.py`.
bool evaluate_memberships(const Memberships& rows, GoOn go_on) {
    const Index k = rows.k;
    Together together;
    Doubles codes(BLOCK), limit(BLOCK), a(k * BLOCK), gaps(BLOCK), densities(BLOCK);
    Doubles ratio(k * BLOCK), excess(k * BLOCK), share(k * BLOCK);
    for (Index start = 0, number = 1; start < rows.n; start += BLOCK, ++number) {
        if (number % BLOCKS_PER_QUESTION == 0 && !go_on()) return false;
        const Index left = rows.n - start, filled = left < BLOCK ? left : BLOCK;
        for (Index r = 0; r < filled; ++r) limit[r] = rows.limit.data[(start + r) * rows.limit.row];
        fill(together.nearest, CLOSED);
        for (Index j = 0; j < k; ++j) {
            double* at = a + j * BLOCK;
            for (Index r = 0; r < filled; ++r) {
                const Index i = start + r;
                const double location =
                    rows.location.data[i * rows.location.row + j * rows.location.column];
                at[r] = rows.side * (rows.h[j] * limit[r] - location);
                rows.a[i * k + j] = at[r];
                const bool open =
                    !rows.candidate.data ||
                    rows.candidate.data[i * rows.candidate.row + j * rows.candidate.column];
                codes[r] = open ? MAYBE : UNKNOWN;
            }
            for (Index r = filled; r < BLOCK; ++r) at[r] = 0.0;
            close_alternative(at, codes, together.nearest);
        }
        together.begin();
        for (Index j = 0; j < k; ++j) {
            gaps_at(a + j * BLOCK, gaps);
            relative_densities(a + j * BLOCK, together.nearest, densities);
            unknown_tails(a + j * BLOCK, gaps, densities, together.common, rows.h[j],
                          ratio + j * BLOCK, excess + j * BLOCK, share + j * BLOCK,
                          together.product, together.total, together.value);
            if (j % FACTORS == FACTORS - 1) together.take_logarithm();
        }
        together.conclude();
        std::memcpy(rows.loglik + start, together.value, sizeof(double) * filled);
        for (Index j = 0; j < k; ++j) {
            for (Index r = 0; r < filled; ++r) {
                const Index at = (start + r) * k + j;
                rows.chance[at] = share[j * BLOCK + r] * together.inverse[r];
                rows.ratio[at] = ratio[j * BLOCK + r];
                rows.slope[at] = ratio[j * BLOCK + r] * excess[j * BLOCK + r];
            }
        }
    }
    return true;
}

}  // namespace

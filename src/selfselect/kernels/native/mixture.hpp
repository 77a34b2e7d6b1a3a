// Mixtures of normal distributions: terms of an alternative's rows, and the sum of their second
// derivatives in the components. Rows between two limits, or silent, add nothing here. The oracle is `mixture.py`.
#pragma once

#include "blocks.hpp"

namespace {

using selfselect::MixtureRows;

// Component by component: the logarithm of its term, and its first two derivatives in z.
inline void mixture_component(const double* __restrict a, const double* __restrict codes,
                              double density_level, double tail_level, double mean, double inverse,
                              double* __restrict z, double* __restrict gaps,
                              double* __restrict densities, double* __restrict logs,
                              double* __restrict slope, double* __restrict bend) {
    for (Index r = 0; r < BLOCK; ++r) z[r] = (a[r] - mean) * inverse;
    gaps_at(z, gaps);
    densities_at(z, densities);
    for (Index r = 0; r < BLOCK; ++r) {
        const bool seen = codes[r] == SEEN;
        const double turn = codes[r] == BELOW ? 1.0 : -1.0;
        const Tail tail = tail_at(turn * z[r], gaps[r], densities[r]);
        logs[r] = seen ? density_level - 0.5 * z[r] * z[r] : tail_level + tail.log_cdf;
        slope[r] = seen ? -z[r] : turn * tail.ratio;
        bend[r] = seen ? -1.0 : -tail.slope;
    }
}

bool evaluate_mixture(const MixtureRows& rows, GoOn go_on) {
    const Index m_all = rows.n_components, width = 3 * m_all, n = rows.n;
    Doubles a(BLOCK), weight(BLOCK), codes(BLOCK), own(BLOCK), counted(BLOCK), gaps(BLOCK), densities(BLOCK), largest(BLOCK), sum(BLOCK);
    Doubles value(BLOCK), along(BLOCK), bent(BLOCK), product(BLOCK);
    Doubles z(m_all * BLOCK), chance(m_all * BLOCK), slope(m_all * BLOCK), bend(m_all * BLOCK);
    Doubles by(width * BLOCK), mixed(width * BLOCK);
    Doubles density_levels(m_all), tail_levels(m_all);
    for (Index m = 0; m < m_all; ++m) {
        const double* component = rows.components + 3 * m;
        tail_levels[m] = log(component[0]);
        density_levels[m] = tail_levels[m] - HALF_LOG_TWO_PI - log(component[2]);
    }
    for (Index start = 0, number = 1; start < n; start += BLOCK, ++number) {
        if (number % BLOCKS_PER_QUESTION == 0 && !go_on()) return false;
        const Index left = n - start, filled = left < BLOCK ? left : BLOCK;
        for (Index r = 0; r < filled; ++r) {
            codes[r] = rows.status.data[(start + r) * rows.status.row];
            counted[r] = codes[r] <= ABOVE ? 1.0 : 0.0;
            own[r] = codes[r] == SEEN ? 1.0 : 0.0;
            // What means nothing may be anything, and 0 * nan is not 0.
            a[r] = codes[r] <= ABOVE ? rows.a[start + r] : 0.0;
            weight[r] = counted[r] * rows.weights[start + r];
        }
        for (Index r = filled; r < BLOCK; ++r) {
            a[r] = weight[r] = own[r] = counted[r] = 0.0;
            codes[r] = UNKNOWN;
        }
        for (Index m = 0; m < m_all; ++m) {
            const double* component = rows.components + 3 * m;
            mixture_component(a, codes, density_levels[m], tail_levels[m], component[1],
                              1.0 / component[2], z + m * BLOCK, gaps, densities,
                              chance + m * BLOCK, slope + m * BLOCK, bend + m * BLOCK);
        }
        for (Index r = 0; r < BLOCK; ++r) largest[r] = chance[r];
        for (Index m = 1; m < m_all; ++m)
            for (Index r = 0; r < BLOCK; ++r) {
                const double other = chance[m * BLOCK + r];
                largest[r] = other > largest[r] ? other : largest[r];
            }
        fill(sum, 0.0);
        for (Index m = 0; m < m_all; ++m)
            for (Index r = 0; r < BLOCK; ++r) {
                chance[m * BLOCK + r] = exponential(chance[m * BLOCK + r] - largest[r]);
                sum[r] += chance[m * BLOCK + r];
            }
        for (Index r = 0; r < BLOCK; ++r) {
            value[r] = counted[r] * (largest[r] + logarithm(sum[r]));
            sum[r] = counted[r] / sum[r];
        }
        fill(along, 0.0);
        for (Index m = 0; m < m_all; ++m) {
            const double* component = rows.components + 3 * m;
            const double over_share = 1.0 / component[0], inverse = 1.0 / component[2];
            double *__restrict share = by + 3 * m * BLOCK, *__restrict mean = share + BLOCK,
                   *__restrict spread = mean + BLOCK;
            double* __restrict part = chance + m * BLOCK;
            const double *__restrict at = z + m * BLOCK, *__restrict once = slope + m * BLOCK;
            for (Index r = 0; r < BLOCK; ++r) {
                part[r] *= sum[r];
                const double by_a = once[r] * inverse;
                share[r] = part[r] * over_share;
                mean[r] = -part[r] * by_a;
                spread[r] = -part[r] * (once[r] * at[r] + own[r]) * inverse;
                along[r] += part[r] * by_a;
            }
        }
        std::memcpy(rows.terms + start, value, sizeof(double) * filled);
        std::memcpy(rows.terms + n + start, along, sizeof(double) * filled);
        for (Index i = 0; i < width; ++i)
            std::memcpy(rows.terms + (3 + i) * n + start, by + i * BLOCK, sizeof(double) * filled);
        if (!rows.curved) continue;
        for (Index r = 0; r < BLOCK; ++r) bent[r] = -along[r] * along[r];
        for (Index m = 0; m < m_all; ++m) {
            const double* component = rows.components + 3 * m;
            const double over_share = 1.0 / component[0], inverse = 1.0 / component[2];
            const double *__restrict part = chance + m * BLOCK, *__restrict at = z + m * BLOCK;
            const double *__restrict once = slope + m * BLOCK, *__restrict second = bend + m * BLOCK;
            const double* __restrict own_by = by + 3 * m * BLOCK;
            double* __restrict to = mixed + 3 * m * BLOCK;
            double sums[5] = {};
            double* __restrict scratch = product;
            for (Index r = 0; r < BLOCK; ++r) {
                const double by_a = once[r] * inverse;
                const double by_spread = -(once[r] * at[r] + own[r]) * inverse;
                const double twice = second[r] * inverse * inverse + by_a * by_a;
                const double cross =
                    -(second[r] * at[r] + once[r]) * inverse * inverse + by_a * by_spread;
                bent[r] += part[r] * twice;
                to[r] = part[r] * by_a * over_share - along[r] * own_by[r];
                to[BLOCK + r] = -part[r] * twice - along[r] * own_by[BLOCK + r];
                to[2 * BLOCK + r] = part[r] * cross - along[r] * own_by[2 * BLOCK + r];
            }
            // Weighted sums of the component's own second derivatives, the share's being zero.
            for (Index r = 0; r < BLOCK; ++r)
                scratch[r] = -weight[r] * part[r] * once[r] * inverse * over_share;
            sums[0] = total(product);
            for (Index r = 0; r < BLOCK; ++r)
                scratch[r] = -weight[r] * part[r] * (once[r] * at[r] + own[r]) * inverse * over_share;
            sums[1] = total(product);
            for (Index r = 0; r < BLOCK; ++r)
                scratch[r] = weight[r] * part[r] * inverse * inverse *
                             (second[r] + once[r] * once[r]);
            sums[2] = total(product);
            for (Index r = 0; r < BLOCK; ++r)
                scratch[r] = weight[r] * part[r] * inverse * inverse *
                             (second[r] * at[r] + once[r] + once[r] * (once[r] * at[r] + own[r]));
            sums[3] = total(product);
            for (Index r = 0; r < BLOCK; ++r) {
                const double lean = once[r] * at[r] + own[r];
                scratch[r] = weight[r] * part[r] * inverse * inverse *
                             (second[r] * at[r] * at[r] + 2.0 * once[r] * at[r] + own[r] + lean * lean);
            }
            sums[4] = total(product);
            double* block = rows.twice + 3 * m * width + 3 * m;
            block[1] += sums[0];
            block[2] += sums[1];
            block[width + 1] += sums[2];
            block[width + 2] += sums[3];
            block[2 * width + 2] += sums[4];
        }
        // Less the products of the gradient with itself.
        for (Index i = 0; i < width; ++i) {
            const double* __restrict left_by = by + i * BLOCK;
            double* __restrict scratch = product;
            for (Index r = 0; r < BLOCK; ++r) scratch[r] = weight[r] * left_by[r];
            for (Index j = i; j < width; ++j)
                rows.twice[i * width + j] -= weighted_total(by + j * BLOCK, product);
        }
        std::memcpy(rows.terms + 2 * n + start, bent, sizeof(double) * filled);
        for (Index i = 0; i < width; ++i)
            std::memcpy(rows.terms + (3 + width + i) * n + start, mixed + i * BLOCK,
                        sizeof(double) * filled);
    }
    for (Index i = 0; i < width; ++i)
        for (Index j = 0; j < i; ++j) rows.twice[i * width + j] = rows.twice[j * width + i];
    return true;
}

}  // namespace

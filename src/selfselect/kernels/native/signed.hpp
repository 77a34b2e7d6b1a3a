// Sums over rows of log Phi(a), with a = v'b: of rows whose columns are known already, each with the
// sign of what was recorded. The oracle is `mills_sums.py`.
#pragma once

#include "rows.hpp"

namespace {

using selfselect::SignedRows;

// a = v'b of a block.
inline void argue_signed(const double* block, const double* direction, Index m, double* __restrict a) {
    fill(a, 0.0);
    for (Index p = 0; p < m; ++p) {
        const double* __restrict x = block + p * STRIDE;
        const double b = direction[p];
        for (Index r = 0; r < BLOCK; ++r) a[r] += b * x[r];
    }
    for (Index r = 0; r < BLOCK; ++r) a[r] = a[r] > FAR_RIGHT ? FAR_RIGHT : a[r];
}

// The weighted log Phi, lambda and d of a block.
inline void signed_terms(const double* __restrict a, const double* __restrict gaps,
                         const double* __restrict densities, const double* __restrict weight,
                         double* __restrict value, double* __restrict ratio,
                         double* __restrict slope) {
    for (Index r = 0; r < BLOCK; ++r) {
        const Tail tail = tail_at(a[r], gaps[r], densities[r]);
        value[r] = weight[r] * tail.log_cdf;
        ratio[r] = weight[r] * tail.ratio;
        slope[r] = weight[r] * tail.slope;
    }
}

bool sum_signed(const SignedRows& rows, double& log_mass, GoOn go_on) {
    // Zeros fill up the block to whole tiles.
    const Index m = rows.m, padded = (m + TILE - 1) / TILE * TILE;
    Integers sources(padded);
    for (Index p = 0; p < padded; ++p) sources[p] = p;
    Gram sums(1, padded);
    Doubles block(padded * STRIDE), weight(BLOCK), a(BLOCK), gaps(BLOCK), densities(BLOCK);
    Doubles value(BLOCK), ratio(BLOCK), slope(BLOCK);
    fill(weight, 1.0);
    double loglik = 0.0;
    for (Index start = 0, number = 1; start < rows.n; start += BLOCK, ++number) {
        if (number % BLOCKS_PER_QUESTION == 0 && !go_on()) return false;
        const Index left = rows.n - start, filled = left < BLOCK ? left : BLOCK;
        const Index size = sizeof(double) * filled, rest = sizeof(double) * (BLOCK - filled);
        for (Index p = 0; p < m; ++p) {
            std::memcpy(block + p * STRIDE, rows.values + p * rows.n + start, size);
            std::memset(block + p * STRIDE + filled, 0, rest);
        }
        if (rows.weights) std::memcpy(weight, rows.weights + start, size);
        std::memset(weight + filled, 0, rest);
        argue_signed(block, rows.direction, m, a);
        gaps_at(a, gaps);
        densities_at(a, densities);
        signed_terms(a, gaps, densities, weight, value, ratio, slope);
        loglik += total(value);
        if (rows.curvature)
            sums.add(0, block, sources, m, nullptr, slope, ratio);
        else
            sums.add_scores(0, block, sources, m, ratio);
    }
    for (Index p = 0; p < m; ++p) {
        rows.pull[p] = sums.score(0)[p];
        for (Index q = 0; rows.curvature && q <= p; ++q)
            rows.curvature[p * m + q] = rows.curvature[q * m + p] =
                sums.gram(0)[p * sums.pitch + q];
    }
    log_mass = loglik;
    return true;
}

}  // namespace

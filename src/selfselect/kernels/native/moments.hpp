// What the summary of a known index sums over rows, in one pass: products of residuals of every pair,
// means of Hermite polynomials of orders 3 and 4, excess variances times covariates, and Gram matrices
// of the covariates of all rows and of those where each alternative is observed. The oracle is `sum_terms`
// of the likelihoods.
#pragma once

#include "known.hpp"

namespace {

using selfselect::MomentSums;

// Turn a block's a into residuals and into weighted moments; rows beyond the last have no weight.
inline void moment_terms(const double* __restrict a, const double* __restrict gaps,
                         const double* __restrict densities, const double* __restrict codes,
                         const double* __restrict weight, double* __restrict residual,
                         double* __restrict third, double* __restrict fourth,
                         double* __restrict excess, double* __restrict observed_weight) {
    for (Index r = 0; r < BLOCK; ++r) {
        const bool observed = codes[r] == OBSERVED, below = codes[r] == BELOW, told = codes[r] <= ABOVE;
        const double turn = below ? 1.0 : -1.0, square = a[r] * a[r];
        const Tail tail = tail_at(turn * a[r], gaps[r], densities[r]);
        const double w = told ? weight[r] : 0.0, cube = a[r] * (square - 3.0);
        const double e = told ? (observed ? a[r] : -turn * tail.ratio) : 0.0;
        residual[r] = e;
        third[r] = w * (observed ? cube : (square - 1.0) * e);
        fourth[r] = w * (observed ? square * (square - 6.0) + 3.0 : cube * e);
        excess[r] = w * (a[r] * e - (observed ? 1.0 : 0.0));
        observed_weight[r] = observed ? w : 0.0;
    }
}

// The first alternative that has the columns of alternative j.
inline Index first_alike(const Rows& rows, Index j) {
    for (Index other = 0; other < j; ++other) {
        bool alike = rows.sizes[other] == rows.sizes[j];
        for (Index p = 0; alike && p < rows.sizes[j]; ++p)
            alike = rows.columns[other * rows.width + p] == rows.columns[j * rows.width + p];
        if (alike) return other;
    }
    return j;
}

// Put sums of d (`plain`), of d z and of d z z' over an alternative's covariates at their places. The
// last column of the tiles is that of the limit, which is left out.
inline void scatter_gram(const Rows& rows, Plan& plan, Index j, double plain, const double* sums,
                         const double* gram, Index pitch, double* out) {
    const std::int64_t* places = plan.places(j);
    const Index constant = plan.constant(j), width = rows.width;
    for (Index p = 0; p + 1 < plan.tiled(j); ++p) {
        for (Index q = 0; q <= p; ++q)
            out[places[p] * width + places[q]] = out[places[q] * width + places[p]] =
                gram[p * pitch + q];
        if (constant >= 0)
            out[places[p] * width + constant] = out[constant * width + places[p]] = sums[p];
    }
    if (constant >= 0) out[constant * width + constant] = plain;
}

bool sum_moments(const Rows& rows, MomentSums& out, GoOn go_on) {
    const Index k = rows.n_alternatives, limit_row = rows.n_covariates + 1;
    Plan plan(rows, 1.0);
    Gram chosen(k, plan.padded), every(out.everywhere ? k : 1, plan.padded);
    Doubles block((rows.n_covariates + 3) * STRIDE);
    Doubles codes(k * BLOCK), residual(k * BLOCK);
    Doubles weight(BLOCK), bounds(BLOCK), a(BLOCK), gaps(BLOCK), densities(BLOCK);
    Doubles third(BLOCK), fourth(BLOCK), excess(BLOCK), observed_weight(BLOCK), weighted(BLOCK);
    Doubles plain(k);
    double all = 0.0;

    for (Index start = 0, number = 1; start < rows.n_rows; start += BLOCK, ++number) {
        if (number % BLOCKS_PER_QUESTION == 0 && !go_on()) return false;
        const Index filled = load_block(rows, start, rows.n_covariates + 3, block, codes, weight);
        for (Index r = filled; r < BLOCK; ++r) weight[r] = 0.0;
        all += total(weight);
        Ahead ahead(rows, start, 2 * k);
        for (Index j = 0; j < k; ++j) {
            const double* code = codes + j * BLOCK;
            double* own = residual + j * BLOCK;
            if (j == 0 || rows.limit.column != 0) load_limit(rows, j, start, filled, bounds);
            double* column = block + limit_row * STRIDE;
            // A limit that means nothing may be anything, and 0 * nan is not 0.
            for (Index r = 0; r < BLOCK; ++r) column[r] = code[r] <= ABOVE ? bounds[r] : 0.0;
            locate(block, plan, j, a);
            ahead.ask();
            gaps_at(a, gaps);
            densities_at(a, densities);
            moment_terms(a, gaps, densities, code, weight, own, third, fourth, excess, observed_weight);
            ahead.ask();
            out.shape[2 * j] += total(third);
            out.shape[2 * j + 1] += total(fourth);
            out.observed[j] += total(observed_weight);
            plain[j] += total(excess);
            for (Index r = 0; r < BLOCK; ++r) weighted[r] = weight[r] * own[r];
            for (Index other = 0; other < j; ++other)
                out.pairs[other * k + j] += weighted_total(weighted, residual + other * BLOCK);
            if (!out.everywhere) {
                chosen.add_scores(j, block, plan.sources(j), plan.tiled(j), excess);
                continue;
            }
            chosen.add(j, block, plan.sources(j), plan.tiled(j), nullptr, observed_weight, excess);
            if (first_alike(rows, j) == j)
                every.add(j, block, plan.sources(j), plan.tiled(j), nullptr, weight, weight);
        }
    }

    const Index width = rows.width;
    for (Index j = 0; j < k; ++j) {
        double* spread = out.spread + j * width;
        for (Index p = 0; p + 1 < plan.tiled(j); ++p) spread[plan.places(j)[p]] = chosen.score(j)[p];
        if (plan.constant(j) >= 0) spread[plan.constant(j)] = plain[j];
        if (!out.everywhere) continue;
        const Index alike = first_alike(rows, j);
        scatter_gram(rows, plan, j, out.observed[j], chosen.curved(j), chosen.gram(j), chosen.pitch,
                     out.where_observed + j * width * width);
        scatter_gram(rows, plan, j, all, every.curved(alike), every.gram(alike), every.pitch,
                     out.everywhere + j * width * width);
    }
    return true;
}

}  // namespace

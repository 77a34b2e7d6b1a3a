// The known index: one pass over the rows, nothing as long as they in memory. The oracle is
// `known_index.py`.
//
// Per block of rows and alternative there are four steps: a; then the residual r, the curvature d
// and the log-likelihood of every row; then d z and the score; then the Gram matrix of z and d z.
#pragma once

#include "blocks.hpp"
#include "interval.hpp"
#include "shapes.hpp"
#include "student.hpp"

namespace {

// Turn a block's a into weighted residuals, curvatures (sign turned) and log-likelihoods.
inline void known_terms(const double* __restrict a, const double* __restrict gaps,
                        const double* __restrict densities, const double* __restrict codes,
                        const double* __restrict weight, double* __restrict residual,
                        double* __restrict curvature, double* __restrict loglik,
                        double* __restrict observed_weight) {
    for (Index r = 0; r < BLOCK; ++r) {
        const bool observed = codes[r] == OBSERVED, below = codes[r] == BELOW;
        const double turn = below ? 1.0 : -1.0;
        const Tail tail = tail_at(turn * a[r], gaps[r], densities[r]);
        const double w = codes[r] <= ABOVE ? weight[r] : 0.0;
        residual[r] = w * (observed ? a[r] : -turn * tail.ratio);
        curvature[r] = w * (observed ? 1.0 : tail.slope);
        loglik[r] = w * (observed ? -0.5 * a[r] * a[r] : tail.log_cdf);
        observed_weight[r] = observed ? w : 0.0;
    }
}

// Rows between two limits. Their derivatives in h are not those in g times -c, so the column of -c
// is zero for them, a is -g'x, and what concerns h is added for itself.
struct Between {
    explicit Between(Index length) : mixed(BLOCK), along(length) {}
    Doubles mixed, along;

    void add(const Rows& rows, Plan& plan, Index j, Index start, const double* codes,
             const double* block, const double* a, const double* weight, double* residual,
             double* curvature, double* loglik, Gram& sums, bool curved) {
        bool any = false;
        for (Index r = 0; r < BLOCK; ++r) any |= codes[r] == BETWEEN;
        if (!any) return;
        const Index at_h = plan.tiled(j) - 1;
        fill(mixed, 0.0);
        for (Index r = 0; r < BLOCK; ++r) {
            if (codes[r] != BETWEEN) continue;
            const Index row = start + r;
            const double low = rows.limit.data[row * rows.limit.row + j * rows.limit.column];
            const double high = rows.upper.data[row * rows.upper.row + j * rows.upper.column];
            const double w = weight[r];
            const BetweenTerms terms =
                between_at(-a[r], rows.h[j], (low - rows.limit_shift) * rows.limit_scale,
                           (high - rows.limit_shift) * rows.limit_scale);
            residual[r] = w * terms.residual;
            curvature[r] = -w * terms.curvature;
            loglik[r] = w * terms.loglik;
            mixed[r] = -w * terms.curvature_gh;
            sums.score(j)[at_h] += w * terms.score_h;
            sums.gram(j)[at_h * sums.pitch + at_h] -= w * terms.curvature_hh;
        }
        if (!curved) return;
        // The tile's last column is that of h, which is zero where `mixed` is not.
        for (Index p = 0; p < plan.padded; ++p) along[p] = 0.0;
        const std::int64_t* sources = plan.sources(j);
        const double* factor = mixed;
        for (Index p = 0; p < plan.tiled(j); p += TILE) {
            const double* x[TILE];
            for (Index i = 0; i < TILE; ++i) x[i] = block + sources[p + i] * STRIDE;
            tile_part<1>(x, &factor, along + p, 1);
        }
        for (Index p = 0; p < at_h; ++p) sums.gram(j)[at_h * sums.pitch + p] += along[p];
        sums.curved(j)[at_h] += total(mixed);
    }
};

constexpr double FARTHEST = 50.0;  // logarithm of what moves a scale, as in `problem.py`

// Rows whose scale moves. With t = log f a row has a = e^t (h c - g'x), so that its term's derivatives
// in t are a and a^2 times those in a.
struct Moved {
    explicit Moved(Index length)
        : log_factor(BLOCK), factor(BLOCK), first(BLOCK), second(BLOCK), cross(BLOCK),
          one(BLOCK), along(length) {}
    Doubles log_factor, factor, first, second, cross, one, along;

    static Index count(const Moving& moving, Index j) {
        Index size = 0;
        while (size < moving.width && moving.columns[j * moving.width + size] >= 0) ++size;
        return size;
    }

    // Multiply a block's a by what moves the scale.
    void locate(const Moving& moving, Index j, const double* block, double* __restrict a) {
        double* __restrict log_f = log_factor;
        double* __restrict f = factor;
        fill(log_f, 0.0);
        for (Index q = 0; q < count(moving, j); ++q) {
            const double delta = moving.delta[j * moving.width + q];
            const double* __restrict z = block + moving.columns[j * moving.width + q] * STRIDE;
            for (Index r = 0; r < BLOCK; ++r) log_f[r] -= delta * z[r];
        }
        for (Index r = 0; r < BLOCK; ++r) {
            log_f[r] = log_f[r] < FARTHEST ? log_f[r] : FARTHEST;
            log_f[r] = log_f[r] > -FARTHEST ? log_f[r] : -FARTHEST;
            const double small = exponential(-__builtin_fabs(log_f[r]));
            f[r] = log_f[r] <= 0.0 ? small : 1.0 / small;
            a[r] *= f[r];
        }
    }

    // Add what concerns delta, and turn residuals and curvatures into those of g and h.
    void add(const Moving& moving, const Rows& rows, Plan& plan, Index j, const double* block,
             const double* a, const double* observed_weight, double* __restrict residual,
             double* __restrict curvature, double* __restrict loglik, bool curved) {
        for (Index r = 0; r < BLOCK; ++r) {
            const double turned = a[r] * residual[r], bent = a[r] * curvature[r], f = factor[r];
            first[r] = observed_weight[r] - turned;
            second[r] = -turned - a[r] * bent;
            cross[r] = f * (residual[r] + bent);
            loglik[r] += observed_weight[r] * log_factor[r];
            residual[r] *= f;
            curvature[r] *= f * f;
        }
        const Index size = count(moving, j), side = rows.width + 1;
        for (Index q = 0; q < size; ++q) {
            const double* z = block + moving.columns[j * moving.width + q] * STRIDE;
            moving.score[j * moving.width + q] -= weighted_total(first, z);
            if (!curved) continue;
            for (Index r = 0; r < BLOCK; ++r) one[r] = second[r] * z[r];
            for (Index p = 0; p <= q; ++p)
                moving.hessian[(j * moving.width + q) * moving.width + p] += weighted_total(
                    one, block + moving.columns[j * moving.width + p] * STRIDE);
            for (Index r = 0; r < BLOCK; ++r) one[r] = cross[r] * z[r];
            double* mixed = moving.mixed + (j * moving.width + q) * side;
            const double* terms = one;
            for (Index p = 0; p < plan.padded; ++p) along[p] = 0.0;
            for (Index p = 0; p < plan.tiled(j); p += TILE) {
                const double* x[TILE];
                for (Index i = 0; i < TILE; ++i) x[i] = block + plan.sources(j)[p + i] * STRIDE;
                tile_part<1>(x, &terms, along + p, 1);
            }
            for (Index p = 0; p < plan.tiled(j); ++p) mixed[plan.places(j)[p]] -= along[p];
            if (plan.constant(j) >= 0) mixed[plan.constant(j)] -= total(one);
        }
    }
};

bool sum_known(const Rows& rows, const Moving& moving, Shape shape, const Student& student,
               bool curved, Sums& out, GoOn go_on) {
    const Index k = rows.n_alternatives, limit_row = rows.n_covariates + 1;
    Plan plan(rows, 1.0);
    Gram sums(k, plan.padded);
    Between between(plan.padded);
    Moved moved(plan.padded);
    StudentBlock of_student(plan.padded);
    Doubles block((rows.n_covariates + 3) * STRIDE);
    Doubles codes(k * BLOCK);
    Doubles weight(BLOCK), bounds(BLOCK), a(BLOCK), residual(BLOCK), curvature(BLOCK), terms(BLOCK);
    Doubles gaps(BLOCK), densities(BLOCK), observed_weight(BLOCK);
    Doubles plain(k), plain_curved(k), observed(k);
    double loglik = 0.0;

    for (Index start = 0, number = 1; start < rows.n_rows; start += BLOCK, ++number) {
        if (number % BLOCKS_PER_QUESTION == 0 && !go_on()) return false;
        const Index filled = load_block(rows, start, rows.n_covariates + 3, block, codes, weight);
        Ahead ahead(rows, start, 2 * k);
        for (Index j = 0; j < k; ++j) {
            const double* code = codes + j * BLOCK;
            if (j == 0 || rows.limit.column != 0) load_limit(rows, j, start, filled, bounds);
            double* column = block + limit_row * STRIDE;
            // A limit that means nothing may be anything, and 0 * nan is not 0.
            for (Index r = 0; r < BLOCK; ++r) column[r] = code[r] <= ABOVE ? bounds[r] : 0.0;
            locate(block, plan, j, a);
            if (moving.width) moved.locate(moving, j, block, a);
            ahead.ask();
            if (shape == Shape::NORMAL) {
                gaps_at(a, gaps);
                densities_at(a, densities);
                known_terms(a, gaps, densities, code, weight, residual, curvature, terms,
                            observed_weight);
            } else if (shape == Shape::STUDENT) {
                const Index which = student.n_sets > 1 ? j : 0;
                of_student.evaluate(student, which, a, code, weight, residual, curvature, terms,
                                    observed_weight);
                if (student.score) of_student.add(student, which, rows, plan, j, block, curved);
            } else {
                const auto evaluate = shape == Shape::LOGISTIC ? shape_terms<logistic_at>
                                      : shape == Shape::GUMBEL ? shape_terms<gumbel_at>
                                                               : shape_terms<gumbel_min_at>;
                evaluate(a, code, weight, residual, curvature, terms, observed_weight);
            }
            if (rows.upper.data)
                between.add(rows, plan, j, start, code, block, a, weight, residual, curvature,
                            terms, sums, curved);
            if (moving.width)
                moved.add(moving, rows, plan, j, block, a, observed_weight, residual, curvature, terms,
                          curved);
            ahead.ask();
            plain[j] += total(residual);
            plain_curved[j] += total(curvature);
            observed[j] += total(observed_weight);
            loglik += total(terms);
            if (curved)
                sums.add(j, block, plan.sources(j), plan.tiled(j), nullptr, curvature, residual);
            else
                sums.add_scores(j, block, plan.sources(j), plan.tiled(j), residual);
        }
    }

    for (Index j = 0; j < k; ++j) {
        scatter_score(rows, plan, j, plain[j], sums.score(j), observed[j], out.score);
        if (curved)
            scatter_hessian(rows, plan, j, plain_curved[j], sums.curved(j), sums.gram(j),
                            sums.pitch, observed[j], out.hessian);
        const double level = shape == Shape::NORMAL ? HALF_LOG_TWO_PI : 0.0;
        if (observed[j] != 0.0) loglik += observed[j] * (log(rows.h[j]) - level);
    }
    out.loglik = loglik;
    return true;
}

}  // namespace

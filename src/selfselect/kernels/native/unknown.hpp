// The unknown index: only the outcome is recorded, not whose it is. The oracle is
// `unknown_index.py`.
//
// A row's alternatives meet in r_j = h_j lambda_j / sum_l h_l lambda_l, so a block is gone through
// three times: for every a; for lambda and d and the sum; for what each alternative adds.
//
// No logarithm is needed to compare the lambda. They are large where a is negative, and underflow
// only where a is positive, like phi(a). So all are taken relative to phi at the row's smallest a,
// called s, or to one where that is negative:
//
//     lambda(a) / exp(-s^2/2) = e lambda(-a) / (lambda(-a) - phi(a)),
//     e = exp(-(a - s)(a + s)/2) / sqrt(2 pi),    phi(a) = e exp(-s^2/2).
//
// The largest is then at least 1/sqrt(2 pi) and nothing that matters underflows, however far out the
// whole row lies. What is exponential in a factors out of log p too, and leaves one logarithm per
// row, that of the product of all Phi and of the sum.
//
// An alternative that is not open to a row is given an a so large that lambda, d and log Phi vanish.
//
// The exact Hessian is one weighted Gram matrix per pair of alternatives. With u = a + lambda and
// the sign of the rule, the scores of j when observed and when not differ by
//
//     D_j = +-u_j z_j,    z_j = (x, -y +- 1/(u_j h_j)),
//
// so the block of j and l is that of z_j and z_l with weight -r_j u_j r_l u_l. The blocks on the
// diagonal keep the column -y, in which the complete data are simple, with r (1 - r) u^2 taken off
// the curvature; what that leaves is +-sum r (1 - r) u (x, -y) / h, which is added to the row and to
// the column of h.
#pragma once

#include "pairs.hpp"

namespace {

// The a of an alternative that is not open: far beyond all others, and its square is finite.
constexpr double CLOSED = 1e100;

// Factors per logarithm: a product of this many stays in range where |a| < 1e30.
constexpr Index FACTORS = 8;

// Let rows to which nothing is open say nothing: their outcome may be anything.
inline void close_rows(const double* codes, Index k, double* __restrict column,
                       double* __restrict weight) {
    for (Index r = 0; r < BLOCK; ++r) {
        bool open = false;
        for (Index j = 0; j < k; ++j) open |= codes[j * BLOCK + r] == MAYBE;
        column[r] = open ? column[r] : 0.0;
        weight[r] = open ? weight[r] : 0.0;
    }
}

// Take an alternative out of the rows to which it is not open; find the smallest a.
inline void close_alternative(double* __restrict a, const double* __restrict codes,
                              double* __restrict nearest) {
    for (Index r = 0; r < BLOCK; ++r) {
        const double at = codes[r] == MAYBE ? a[r] : CLOSED;
        a[r] = at;
        nearest[r] = at < nearest[r] ? at : nearest[r];
    }
}

// What the loops over the alternatives of a block share.
struct Together {
    Together() : nearest(BLOCK), common(BLOCK), product(BLOCK), total(BLOCK), inverse(BLOCK), value(BLOCK) {}
    Doubles nearest, common, product, total, inverse, value;

    // Begin the products and sums over alternatives; what the row's lambda have in common goes out.
    void begin() {
        double* __restrict s = nearest;
        double* __restrict e = common;
        double* __restrict v = value;
        for (Index r = 0; r < BLOCK; ++r) {
            s[r] = s[r] > 0.0 ? s[r] : 0.0;
            v[r] = -0.5 * s[r] * s[r];
            e[r] = exponential(v[r]);
        }
        fill(product, 1.0);
        fill(total, 0.0);
    }

    // Move a product into the log-likelihood.
    void take_logarithm() {
        double* __restrict p = product;
        double* __restrict v = value;
        for (Index r = 0; r < BLOCK; ++r) {
            double mantissa, twos;
            split(p[r], mantissa, twos);
            v[r] += twos * LN2 + log_of_quotient((mantissa - 1.0) / (mantissa + 1.0));
            p[r] = 1.0;
        }
    }

    // Invert the sum of h lambda, and add its logarithm.
    void conclude() {
        const double* __restrict t = total;
        double* __restrict i = inverse;
        double* __restrict p = product;
        double* __restrict v = value;
        for (Index r = 0; r < BLOCK; ++r) {
            // Taking a number apart loses that it is not one, and the sum has to say so.
            v[r] += 0.0 * t[r];
            p[r] *= t[r];
            i[r] = 1.0 / t[r];
        }
        take_logarithm();
    }
};

// phi(a) relative to exp(-s^2/2).
inline void relative_densities(const double* __restrict a, const double* __restrict nearest,
                               double* __restrict densities) {
    for (Index r = 0; r < BLOCK; ++r) {
        const double x = __builtin_fabs(a[r]), s = nearest[r];
        densities[r] = exponential(-0.5 * (x - s) * (x + s)) * INV_SQRT_TWO_PI;
    }
}

// lambda, a + lambda, and h lambda relative to what is common; multiply Phi, add up h lambda and
// log phi.
inline void unknown_tails(const double* __restrict a, const double* __restrict gaps,
                          const double* __restrict densities, const double* __restrict common,
                          double h, double* __restrict ratio, double* __restrict excess,
                          double* __restrict share, double* __restrict product,
                          double* __restrict total, double* __restrict value) {
    for (Index r = 0; r < BLOCK; ++r) {
        const double x = __builtin_fabs(a[r]), gap = gaps[r], density = densities[r];
        const double left_ratio = x + gap;
        const bool left = a[r] <= 0.0;
        const double rest_of_one = left_ratio - density * common[r];
        const double inverse = 1.0 / (rest_of_one * left_ratio);
        const double relative = left ? left_ratio : density * left_ratio * (left_ratio * inverse);
        const double true_ratio = relative * common[r];
        ratio[r] = true_ratio;
        excess[r] = left ? gap : true_ratio + x;
        share[r] = h * relative;
        total[r] += h * relative;
        // Phi is phi/lambda on the left, of which phi goes into the sum, and 1 - phi/lambda(-x) on
        // the right.
        product[r] *= (left ? 1.0 : rest_of_one) * (rest_of_one * inverse);
        value[r] -= left ? 0.5 * x * x + HALF_LOG_TWO_PI : 0.0;
    }
}

// Turn an alternative's share into its chance, weighted residual and curvature; `ratio` becomes the
// residual.
inline void unknown_terms(double* __restrict ratio, const double* __restrict excess,
                          double* __restrict share, const double* __restrict inverse,
                          const double* __restrict weight, double side,
                          double* __restrict curvature) {
    for (Index r = 0; r < BLOCK; ++r) {
        const double chance = share[r] * inverse[r], w = weight[r], at = ratio[r];
        ratio[r] = (side * w) * (chance * excess[r] - at);
        curvature[r] = w * (chance + (1.0 - chance) * (at * excess[r]));
        share[r] = w * chance;
    }
}

// What not knowing the index costs: r, r u, w r (1 - r) u and w r (1 - r) u^2. `column` becomes what
// stands for -y in z; `turn` is side/h.
inline void missing_terms(const double* __restrict excess, const double* __restrict share,
                          const double* __restrict total, const double* __restrict inverse,
                          const double* __restrict weight, const double* __restrict limit,
                          double turn, double* __restrict chances, double* __restrict pull,
                          double* __restrict missing, double* __restrict lost,
                          double* __restrict column) {
    for (Index r = 0; r < BLOCK; ++r) {
        const double u = excess[r], chance = share[r] * inverse[r];
        chances[r] = chance;
        pull[r] = chance * u;
        // Not 1 - r: u^2 may be large where r rounds to one.
        const double rest = weight[r] * (chance * u) * ((total[r] - share[r]) * inverse[r]);
        missing[r] = rest;
        lost[r] = rest * u;
        column[r] = limit[r] + turn / u;
    }
}

inline void subtract(const double* __restrict lost, double* __restrict curvature) {
    for (Index r = 0; r < BLOCK; ++r) curvature[r] -= lost[r];
}

// The weight of a pair's Gram matrix.
inline void pair_weights(const double* __restrict first, const double* __restrict second,
                         const double* __restrict weight, double* __restrict out) {
    for (Index r = 0; r < BLOCK; ++r) out[r] = weight[r] * (first[r] * second[r]);
}

// Add the sums of w r (1 - r) u z, `turn` times, to the row and to the column of h.
inline void scatter_missing(const Rows& rows, Plan& plan, Index j, double plain,
                            const double* products, Index pitch, double turn, double* hessians) {
    const Index side = rows.width + 1, last = rows.width;
    double* hessian = hessians + j * side * side;
    for (Index p = 0; p < plan.tiled(j); ++p) {
        const double here = turn * products[plan.sources(j)[p] * pitch + j];
        hessian[plan.places(j)[p] * side + last] += here;
        hessian[last * side + plan.places(j)[p]] += here;
    }
    if (plan.constant(j) >= 0) {
        hessian[plan.constant(j) * side + last] += turn * plain;
        hessian[last * side + plan.constant(j)] += turn * plain;
    }
}

bool sum_unknown(const Rows& rows, double side, bool complete, bool exact, Sums& out, GoOn go_on) {
    const Index k = rows.n_alternatives, limit_row = rows.n_covariates + 1;
    // Zeros fill up the block to whole tiles, and the residuals likewise. Behind them is what stands
    // for -y in each alternative's z.
    const Index own_row = limit_row + 1 + TILE, pitch = k + TILE;
    Plan plan(rows, side);
    Gram sums(k, plan.padded);
    Pairs pairs(rows, own_row, exact);
    Together together;
    Doubles block((own_row + k) * STRIDE), codes(k * BLOCK), weight(BLOCK);
    Doubles residual(pitch * STRIDE), missing(pitch * STRIDE), pull(k * STRIDE);
    Doubles a(k * STRIDE), excess(k * STRIDE), share(k * STRIDE);
    Doubles curvature(BLOCK), gaps(BLOCK), densities(BLOCK), chances(BLOCK), lost(BLOCK);
    Doubles products((own_row + TILE) * pitch);
    Doubles plain(k), plain_curved(k), plain_missing(k), observed(k), certain(k);
    double loglik = 0.0;

    for (Index start = 0, number = 1; start < rows.n_rows; start += BLOCK, ++number) {
        if (number % BLOCKS_PER_QUESTION == 0 && !go_on()) return false;
        const Index filled = load_block(rows, start, own_row + k, block, codes, weight);
        double* limit = block + limit_row * STRIDE;
        load_limit(rows, 0, start, filled, limit);
        close_rows(codes, k, limit, weight);

        Ahead ahead(rows, start, 2 * k);
        fill(together.nearest, CLOSED);
        for (Index j = 0; j < k; ++j) {
            locate(block, plan, j, a + j * STRIDE);
            close_alternative(a + j * STRIDE, codes + j * BLOCK, together.nearest);
            ahead.ask();
        }
        together.begin();
        for (Index j = 0; j < k; ++j) {
            gaps_at(a + j * STRIDE, gaps);
            relative_densities(a + j * STRIDE, together.nearest, densities);
            unknown_tails(a + j * STRIDE, gaps, densities, together.common, rows.h[j],
                          residual + j * STRIDE, excess + j * STRIDE, share + j * STRIDE,
                          together.product, together.total, together.value);
            if (j % FACTORS == FACTORS - 1) together.take_logarithm();
        }
        together.conclude();
        loglik += weighted_total(together.value, weight);

        for (Index j = 0; j < k; ++j) {
            ahead.ask();
            if (exact)
                missing_terms(excess + j * STRIDE, share + j * STRIDE, together.total,
                              together.inverse, weight, limit, side / rows.h[j], chances,
                              pull + j * STRIDE, missing + j * STRIDE, lost,
                              block + (own_row + j) * STRIDE);
            unknown_terms(residual + j * STRIDE, excess + j * STRIDE, share + j * STRIDE,
                          together.inverse, weight, side, curvature);
            if (exact) {
                subtract(lost, curvature);
                certain[j] += weighted_total(chances, share + j * STRIDE);
                plain_missing[j] += total(missing + j * STRIDE);
            }
            plain[j] += total(residual + j * STRIDE);
            plain_curved[j] += total(curvature);
            observed[j] += total(share + j * STRIDE);
            if (complete)
                sums.add(j, block, plan.sources(j), plan.tiled(j), nullptr, curvature,
                         residual + j * STRIDE);
        }
        for (Index i = 0; i < pairs.count; ++i) {
            pair_weights(pull + pairs.first(i) * STRIDE, pull + pairs.second(i) * STRIDE, weight,
                         curvature);
            pairs.add(i, block, curvature);
        }
        if (exact || !complete) {
            // All columns against four alternatives at a time, whether they enter or not.
            const double* factors = exact ? missing : residual;
            tiles(block, limit_row + 1, factors, k, products, pitch);
        }
    }

    for (Index j = 0; j < k; ++j) {
        if (complete) {
            scatter_hessian(rows, plan, j, plain_curved[j], sums.curved(j), sums.gram(j),
                            sums.pitch, exact ? certain[j] : observed[j], out.hessian);
            if (exact)
                scatter_missing(rows, plan, j, plain_missing[j], products, pitch, side / rows.h[j],
                                out.hessian);
        } else {
            for (Index p = 0; p < plan.tiled(j); ++p)
                sums.score(j)[p] = products[plan.sources(j)[p] * pitch + j];
        }
        scatter_score(rows, plan, j, plain[j], sums.score(j), observed[j], out.score);
    }
    if (exact) pairs.scatter(out.cross);
    out.loglik = loglik;
    return true;
}

}  // namespace

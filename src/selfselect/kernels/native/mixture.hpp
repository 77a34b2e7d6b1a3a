// Mixtures of normal distributions: terms of rows, and one pass over the rows of a known index. The
// oracles are `mixture.py` and `likelihoods/shaped.py`. Rows between two limits, or silent, add
// nothing here.
//
// Component m has the share p, the mean and the spread s; z = (a - mean)/s. The mixture is a sum of
// densities, or of tails Phi(-x) = phi(x)/lambda(-x), of which the largest exponential is taken out:
// so every component takes one exponential, and a row one logarithm.
#pragma once

#include "blocks.hpp"

namespace {

using selfselect::Mixture;
using selfselect::MixtureRows;
using selfselect::MixtureSums;

// The loops over the rows of a block, component by component. Their arrays are arguments: that none of
// them is another is known to the compiler of arguments only.

// Where a component sees the rows, and the largest exponent of a row so far: that of a density, or of
// a tail on its side of zero.
inline void mixture_places(const double* __restrict a, const double* __restrict codes, double mean,
                           double inverse, double* __restrict z, double* __restrict common) {
    for (Index r = 0; r < BLOCK; ++r) {
        z[r] = (a[r] - mean) * inverse;
        const double turned = codes[r] == BELOW ? z[r] : -z[r];
        const double tail = turned > 0.0 ? 0.0 : -0.5 * z[r] * z[r];
        const double exponent = codes[r] == OBSERVED ? -0.5 * z[r] * z[r] : tail;
        common[r] = exponent > common[r] ? exponent : common[r];
    }
}

// A component's term, relative to the largest exponential, and the first two derivatives in z of its
// logarithm; the terms added up, and what lies beyond a limit: one where that is not known to all its
// digits.
inline void mixture_terms(const double* __restrict z, const double* __restrict gaps,
                          const double* __restrict exponents, const double* __restrict codes,
                          double share, double spread, double* __restrict part,
                          double* __restrict once, double* __restrict second,
                          double* __restrict sum, double* __restrict missing) {
    const double level = share / spread;
    for (Index r = 0; r < BLOCK; ++r) {
        const bool observed = codes[r] == OBSERVED;
        const double turn = codes[r] == BELOW ? 1.0 : -1.0;
        const double x = __builtin_fabs(z[r]), lambda = x + gaps[r];
        const bool left = turn * z[r] <= 0.0;
        // On the right the largest exponent is that of one.
        const double on_right = left ? 0.0 : exponents[r];
        const double beyond = observed ? 0.0 : on_right, rest = lambda - beyond;
        const double inverse = 1.0 / (lambda * rest), over = rest * inverse;
        const double ratio = left ? lambda : beyond * lambda * (lambda * inverse);
        const double tail = (left ? exponents[r] : rest) * over;
        const double term = observed ? level * exponents[r] : share * tail;
        part[r] = term;
        once[r] = observed ? -z[r] : turn * ratio;
        second[r] = observed ? -1.0 : -ratio * (left ? gaps[r] : ratio + x);
        sum[r] += term;
        const double lost = left ? 1.0 : share * beyond * over;
        missing[r] += observed ? 1.0 : lost;
    }
}

// The logarithm of the sum, and what turns terms into posterior shares.
inline void mixture_logarithm(const double* __restrict missing, const double* __restrict common,
                              const double* __restrict counted, double* __restrict sum,
                              double* __restrict value) {
    for (Index r = 0; r < BLOCK; ++r) {
        double mantissa, twos;
        split(sum[r], mantissa, twos);
        const double top = missing[r] < UPPER_HALVES ? -missing[r] : mantissa - 1.0;
        const double logarithm = twos * LN2 + log_of_quotient(top / (mantissa + 1.0));
        value[r] = counted[r] * (common[r] + logarithm);
        sum[r] = counted[r] / sum[r];
    }
}

// First derivatives in a, and in a component's share, mean and spread.
inline void mixture_slopes(const double* __restrict z, const double* __restrict once,
                           const double* __restrict own, const double* __restrict sum, double share,
                           double spread, double* __restrict part, double* __restrict by_share,
                           double* __restrict by_mean, double* __restrict by_spread,
                           double* __restrict along) {
    const double over_share = 1.0 / share, inverse = 1.0 / spread;
    for (Index r = 0; r < BLOCK; ++r) {
        const double chance = part[r] * sum[r], by_a = chance * once[r] * inverse;
        part[r] = chance;
        by_share[r] = chance * over_share;
        by_mean[r] = -by_a;
        by_spread[r] = -chance * (once[r] * z[r] + own[r]) * inverse;
        along[r] += by_a;
    }
}

// Second derivatives in a, and in a and a component's share, mean and spread.
inline void mixture_bends(const double* __restrict z, const double* __restrict once,
                          const double* __restrict second, const double* __restrict own,
                          const double* __restrict part, const double* __restrict along,
                          double share, double spread, double* __restrict in_share,
                          double* __restrict in_mean, double* __restrict in_spread,
                          double* __restrict bent) {
    const double over_share = 1.0 / share, inverse = 1.0 / spread, square = inverse * inverse;
    for (Index r = 0; r < BLOCK; ++r) {
        const double by_a = once[r] * inverse, lean = -(once[r] * z[r] + own[r]) * inverse;
        const double twice = second[r] * square + by_a * by_a;
        const double cross = by_a * lean - (second[r] * z[r] + once[r]) * square;
        bent[r] += part[r] * twice;
        in_share[r] = part[r] * over_share * (by_a - along[r]);
        in_mean[r] = part[r] * (along[r] * by_a - twice);
        in_spread[r] = part[r] * (cross - along[r] * lean);
    }
}

inline void relative_exponentials(const double* __restrict z, const double* __restrict common,
                                  double* __restrict out) {
    for (Index r = 0; r < BLOCK; ++r)
        out[r] = exponential(-0.5 * z[r] * z[r] - common[r]) * INV_SQRT_TWO_PI;
}

inline void weigh(const double* __restrict weight, const double* __restrict terms, double sign,
                  double* __restrict out) {
    for (Index r = 0; r < BLOCK; ++r) out[r] = sign * weight[r] * terms[r];
}

class MixtureBlock {
   public:
    explicit MixtureBlock(Index n_components)
        : count(n_components), width(3 * n_components), value(BLOCK), along(BLOCK), bent(BLOCK),
          by(width * STRIDE), mixed(width * STRIDE), z_(count * STRIDE), part_(count * STRIDE),
          once_(count * STRIDE), second_(count * STRIDE), gaps_(BLOCK), exponents_(BLOCK),
          common_(BLOCK), sum_(BLOCK), missing_(BLOCK), own_(BLOCK), counted_(BLOCK),
          components_(nullptr) {}

    const Index count, width;
    // The logarithm and its derivatives in a; those in the components; those in a and components.
    Doubles value, along, bent, by, mixed;

    // Evaluate a block of rows; components (M, 3) are shares, means and spreads.
    void evaluate(const double* a, const double* codes, const double* components) {
        components_ = components;
        fill(common_, -__builtin_inf());
        fill(sum_, 0.0);
        fill(missing_, 0.0);
        fill(along, 0.0);
        for (Index r = 0; r < BLOCK; ++r) {
            own_[r] = codes[r] == OBSERVED ? 1.0 : 0.0;
            counted_[r] = codes[r] <= ABOVE ? 1.0 : 0.0;
        }
        for (Index m = 0; m < count; ++m)
            mixture_places(a, codes, components[3 * m + 1], 1.0 / spread(m), z_ + m * STRIDE, common_);
        for (Index m = 0; m < count; ++m) {
            const double* z = z_ + m * STRIDE;
            gaps_at(z, gaps_);
            relative_exponentials(z, common_, exponents_);
            mixture_terms(z, gaps_, exponents_, codes, share(m), spread(m), part_ + m * STRIDE,
                          once_ + m * STRIDE, second_ + m * STRIDE, sum_, missing_);
        }
        mixture_logarithm(missing_, common_, counted_, sum_, value);
        for (Index m = 0; m < count; ++m) {
            double* to = by + 3 * m * STRIDE;
            mixture_slopes(z_ + m * STRIDE, once_ + m * STRIDE, own_, sum_, share(m), spread(m),
                           part_ + m * STRIDE, to, to + STRIDE, to + 2 * STRIDE, along);
        }
    }

    // Ones where the outcome is observed.
    const double* observed() { return own_; }

    // Second derivatives of the block that was evaluated.
    void bend() {
        weigh(along, along, -1.0, bent);
        for (Index m = 0; m < count; ++m) {
            double* to = mixed + 3 * m * STRIDE;
            mixture_bends(z_ + m * STRIDE, once_ + m * STRIDE, second_ + m * STRIDE, own_,
                          part_ + m * STRIDE, along, share(m), spread(m), to, to + STRIDE,
                          to + 2 * STRIDE, bent);
        }
    }

    // Add weighted sums of the components' own second derivatives, the shares' being zero: the upper
    // triangle of (3 M, 3 M).
    void add_own(const double* weight, double* twice) {
        for (Index m = 0; m < count; ++m) {
            const double inverse = 1.0 / spread(m), over_share = 1.0 / share(m);
            const double square = inverse * inverse;
            const double *part = part_ + m * STRIDE, *at = z_ + m * STRIDE, *once = once_ + m * STRIDE;
            const double *second = second_ + m * STRIDE, *own = own_;
            Lanes sums[5] = {};
            for (Index r = 0; r < BLOCK; r += LANES) {
                const Lanes w = lanes(weight + r) * lanes(part + r), u = lanes(once + r);
                const Lanes t = lanes(at + r), b = lanes(second + r), o = lanes(own + r);
                const Lanes lean = u * t + o, bend = b * t + u;
                sums[0] += w * u;
                sums[1] += w * lean;
                sums[2] += w * (b + u * u);
                sums[3] += w * (bend + u * lean);
                sums[4] += w * (bend * t + lean + lean * lean);
            }
            double* block = twice + 3 * m * width + 3 * m;
            block[1] -= added(sums[0]) * inverse * over_share;
            block[2] -= added(sums[1]) * inverse * over_share;
            block[width + 1] += added(sums[2]) * square;
            block[width + 2] += added(sums[3]) * square;
            block[2 * width + 2] += added(sums[4]) * square;
        }
    }

   private:
    double share(Index m) const { return components_[3 * m]; }
    double spread(Index m) const { return components_[3 * m + 2]; }

    Doubles z_, part_, once_, second_, gaps_, exponents_, common_, sum_, missing_, own_, counted_;
    const double* components_;
};

bool evaluate_mixture(const MixtureRows& rows, GoOn go_on) {
    const Index n = rows.n;
    MixtureBlock block(rows.n_components);
    const Index width = block.width;
    Doubles a(BLOCK), weight(BLOCK), codes(BLOCK), product(BLOCK);
    for (Index start = 0, number = 1; start < n; start += BLOCK, ++number) {
        if (number % BLOCKS_PER_QUESTION == 0 && !go_on()) return false;
        const Index left = n - start, filled = left < BLOCK ? left : BLOCK;
        for (Index r = 0; r < filled; ++r) {
            codes[r] = rows.status.data[(start + r) * rows.status.row];
            // What means nothing may be anything, and 0 * nan is not 0.
            a[r] = codes[r] <= ABOVE ? rows.a[start + r] : 0.0;
            weight[r] = codes[r] <= ABOVE ? rows.weights[start + r] : 0.0;
        }
        for (Index r = filled; r < BLOCK; ++r) {
            a[r] = weight[r] = 0.0;
            codes[r] = UNKNOWN;
        }
        const auto keep = [&](Index row, const double* from) {
            std::memcpy(rows.terms + row * n + start, from, sizeof(double) * filled);
        };
        block.evaluate(a, codes, rows.components);
        keep(0, block.value);
        keep(1, block.along);
        for (Index i = 0; i < width; ++i) keep(3 + i, block.by + i * STRIDE);
        if (!rows.curved) continue;
        block.bend();
        keep(2, block.bent);
        for (Index i = 0; i < width; ++i) keep(3 + width + i, block.mixed + i * STRIDE);
        block.add_own(weight, rows.twice);
        // Less the products of the gradient with itself.
        for (Index i = 0; i < width; ++i) {
            for (Index r = 0; r < BLOCK; ++r) product[r] = weight[r] * block.by[i * STRIDE + r];
            for (Index j = i; j < width; ++j)
                rows.twice[i * width + j] -= weighted_total(block.by + j * STRIDE, product);
        }
    }
    for (Index i = 0; i < width; ++i)
        for (Index j = 0; j < i; ++j) rows.twice[i * width + j] = rows.twice[j * width + i];
    return true;
}

inline void add_scaled(const double* __restrict terms, double factor, double* __restrict out) {
    for (Index r = 0; r < BLOCK; ++r) out[r] += factor * terms[r];
}

// out[q] = sum over i of slope[i, q] from[i], of blocks of rows.
inline void combine(const double* slope, Index n_from, Index n_to, const double* from, double* out) {
    for (Index q = 0; q < n_to; ++q) {
        fill(out + q * STRIDE, 0.0);
        for (Index i = 0; i < n_from; ++i)
            if (slope[i * n_to + q] != 0.0)
                add_scaled(from + i * STRIDE, slope[i * n_to + q], out + q * STRIDE);
    }
}

// One pass over the rows of a known index. Sums are in (g, h) and in the q parameters that are
// estimated of a mixture, on which its components depend by `slopes`.
bool sum_mixture(const Rows& rows, const Mixture& mixture, bool curved, MixtureSums& out,
                 GoOn go_on) {
    const Index k = rows.n_alternatives, limit_row = rows.n_covariates + 1, q = mixture.n_estimated;
    const Index columns = (q + TILE - 1) / TILE * TILE, side = rows.width + 1;
    MixtureBlock own(mixture.n_components);
    const Index width = own.width;
    Plan plan(rows, 1.0);
    Gram sums(k, plan.padded);
    Doubles block((rows.n_covariates + 3) * STRIDE), codes(k * BLOCK), weight(BLOCK), bounds(BLOCK);
    Doubles a(BLOCK), residual(BLOCK), curvature(BLOCK), terms(BLOCK), observed_weight(BLOCK);
    Doubles along(columns * STRIDE), weighted(columns * STRIDE), cross(k * plan.padded * columns);
    Doubles plain(k), plain_curved(k), plain_cross(k * columns), observed(k);
    double loglik = 0.0;
    for (Index start = 0, number = 1; start < rows.n_rows; start += BLOCK, ++number) {
        if (number % BLOCKS_PER_QUESTION == 0 && !go_on()) return false;
        const Index filled = load_block(rows, start, rows.n_covariates + 3, block, codes, weight);
        Ahead ahead(rows, start, 2 * k);
        for (Index j = 0; j < k; ++j) {
            const Index which = mixture.each ? j : 0;
            const double* code = codes + j * BLOCK;
            if (j == 0 || rows.limit.column != 0) load_limit(rows, j, start, filled, bounds);
            double* column = block + limit_row * STRIDE;
            for (Index r = 0; r < BLOCK; ++r) column[r] = code[r] <= ABOVE ? bounds[r] : 0.0;
            locate(block, plan, j, a);
            ahead.ask();
            own.evaluate(a, code, mixture.components + which * width);
            if (curved) own.bend();
            weigh(weight, own.along, -1.0, residual);
            weigh(weight, own.bent, -1.0, curvature);
            weigh(weight, own.value, 1.0, terms);
            weigh(weight, own.observed(), 1.0, observed_weight);
            ahead.ask();
            plain[j] += total(residual);
            observed[j] += total(observed_weight);
            loglik += total(terms);
            for (Index i = 0; i < width; ++i)
                out.by[which * width + i] += weighted_total(own.by + i * STRIDE, weight);
            if (!curved) {
                sums.add_scores(j, block, plan.sources(j), plan.tiled(j), residual);
                continue;
            }
            plain_curved[j] += total(curvature);
            sums.add(j, block, plan.sources(j), plan.tiled(j), nullptr, curvature, residual);
            own.add_own(weight, out.twice + which * width * width);
            const double* slopes = mixture.slopes + which * width * q;
            combine(slopes, width, q, own.by, along);
            for (Index s = 0; s < q; ++s) {
                weigh(weight, along + s * STRIDE, 1.0, weighted + s * STRIDE);
                for (Index t = 0; t <= s; ++t)
                    out.products[(which * q + s) * q + t] +=
                        weighted_total(weighted + s * STRIDE, along + t * STRIDE);
            }
            combine(slopes, width, q, own.mixed, along);
            const double* y[TILE];
            for (Index s = 0; s < q; ++s) {
                weigh(weight, along + s * STRIDE, -1.0, weighted + s * STRIDE);
                plain_cross[j * columns + s] += total(weighted + s * STRIDE);
            }
            for (Index s = q; s < columns; ++s) fill(weighted + s * STRIDE, 0.0);
            for (Index p = 0; p < plan.tiled(j); p += TILE) {
                const double* x[TILE];
                for (Index i = 0; i < TILE; ++i) x[i] = block + plan.sources(j)[p + i] * STRIDE;
                for (Index s = 0; s < columns; s += TILE) {
                    for (Index i = 0; i < TILE; ++i) y[i] = weighted + (s + i) * STRIDE;
                    tile(x, y, cross + (j * plan.padded + p) * columns + s, columns);
                }
            }
        }
    }
    for (Index j = 0; j < k; ++j) {
        scatter_score(rows, plan, j, plain[j], sums.score(j), observed[j], out.own.score);
        if (observed[j] != 0.0) loglik += observed[j] * log(rows.h[j]);
        if (!curved) continue;
        scatter_hessian(rows, plan, j, plain_curved[j], sums.curved(j), sums.gram(j), sums.pitch,
                        observed[j], out.own.hessian);
        double* mixed = out.mixed + j * side * q;
        for (Index s = 0; s < q; ++s) {
            for (Index p = 0; p < plan.tiled(j); ++p)
                mixed[plan.places(j)[p] * q + s] = cross[(j * plan.padded + p) * columns + s];
            if (plan.constant(j) >= 0) mixed[plan.constant(j) * q + s] = plain_cross[j * columns + s];
        }
    }
    out.own.loglik = loglik;
    return true;
}

}  // namespace

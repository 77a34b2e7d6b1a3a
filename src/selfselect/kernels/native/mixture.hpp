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

class MixtureBlock {
   public:
    explicit MixtureBlock(Index n_components)
        : count(n_components), width(3 * n_components), value(BLOCK), along(BLOCK), bent(BLOCK),
          by(width * BLOCK), mixed(width * BLOCK), z_(count * BLOCK), part_(count * BLOCK),
          once_(count * BLOCK), second_(count * BLOCK), gaps_(BLOCK), exponents_(BLOCK),
          common_(BLOCK), sum_(BLOCK), missing_(BLOCK), own_(BLOCK), counted_(BLOCK),
          components_(nullptr) {}

    const Index count, width;
    // The logarithm and its derivatives in a; those in the components; those in a and components.
    Doubles value, along, bent, by, mixed;

    // Evaluate a block of rows; components (M, 3) are shares, means and spreads.
    void evaluate(const double* a, const double* codes, const double* components) {
        components_ = components;
        locate(a, codes);
        fill(sum_, 0.0);
        fill(missing_, 0.0);
        for (Index m = 0; m < count; ++m) add_component(m, codes);
        conclude();
        fill(along, 0.0);
        for (Index m = 0; m < count; ++m) first_derivatives(m);
    }

    // Second derivatives of the block that was evaluated.
    void bend() {
        for (Index r = 0; r < BLOCK; ++r) bent[r] = -along[r] * along[r];
        for (Index m = 0; m < count; ++m) {
            const double inverse = 1.0 / spread(m), over_share = 1.0 / share(m);
            const double *__restrict part = part_ + m * BLOCK, *__restrict at = z_ + m * BLOCK;
            const double *__restrict once = once_ + m * BLOCK;
            const double *__restrict second = second_ + m * BLOCK, *__restrict own = own_;
            const double *__restrict own_by = by + 3 * m * BLOCK, *__restrict slope = along;
            double *__restrict to = mixed + 3 * m * BLOCK, *__restrict twice_in_a = bent;
            for (Index r = 0; r < BLOCK; ++r) {
                const double by_a = once[r] * inverse;
                const double by_spread = -(once[r] * at[r] + own[r]) * inverse;
                const double twice = second[r] * inverse * inverse + by_a * by_a;
                const double cross =
                    -(second[r] * at[r] + once[r]) * inverse * inverse + by_a * by_spread;
                twice_in_a[r] += part[r] * twice;
                to[r] = part[r] * by_a * over_share - slope[r] * own_by[r];
                to[BLOCK + r] = -part[r] * twice - slope[r] * own_by[BLOCK + r];
                to[2 * BLOCK + r] = part[r] * cross - slope[r] * own_by[2 * BLOCK + r];
            }
        }
    }

    // Add weighted sums of the components' own second derivatives, the shares' being zero: the upper
    // triangle of (3 M, 3 M).
    void add_own(const double* weight, double* twice) {
        for (Index m = 0; m < count; ++m) {
            const double inverse = 1.0 / spread(m), over_share = 1.0 / share(m);
            const double square = inverse * inverse;
            const double *part = part_ + m * BLOCK, *at = z_ + m * BLOCK, *once = once_ + m * BLOCK;
            const double *second = second_ + m * BLOCK, *own = own_;
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

    // Where each component sees the rows, and the largest exponent of a row: that of a density, or of
    // a tail on its side of zero.
    void locate(const double* __restrict a, const double* __restrict codes) {
        double *__restrict common = common_, *__restrict own = own_, *__restrict counted = counted_;
        fill(common, -__builtin_inf());
        for (Index r = 0; r < BLOCK; ++r) {
            own[r] = codes[r] == SEEN ? 1.0 : 0.0;
            counted[r] = codes[r] <= ABOVE ? 1.0 : 0.0;
        }
        for (Index m = 0; m < count; ++m) {
            const double mean = components_[3 * m + 1], inverse = 1.0 / spread(m);
            double* __restrict z = z_ + m * BLOCK;
            for (Index r = 0; r < BLOCK; ++r) {
                z[r] = (a[r] - mean) * inverse;
                const double turned = codes[r] == BELOW ? z[r] : -z[r];
                const bool apart = codes[r] != SEEN && turned > 0.0;
                const double exponent = apart ? 0.0 : -0.5 * z[r] * z[r];
                common[r] = exponent > common[r] ? exponent : common[r];
            }
        }
    }

    void add_component(Index m, const double* __restrict codes) {
        const double *__restrict z = z_ + m * BLOCK, *__restrict common = common_;
        double *__restrict gaps = gaps_, *__restrict exponents = exponents_;
        gaps_at(z, gaps);
        for (Index r = 0; r < BLOCK; ++r)
            exponents[r] = exponential(-0.5 * z[r] * z[r] - common[r]) * INV_SQRT_TWO_PI;
        const double weight = share(m), level = share(m) / spread(m);
        double *__restrict part = part_ + m * BLOCK, *__restrict once = once_ + m * BLOCK;
        double *__restrict second = second_ + m * BLOCK;
        double *__restrict sum = sum_, *__restrict missing = missing_;
        for (Index r = 0; r < BLOCK; ++r) {
            const bool seen = codes[r] == SEEN;
            const double turn = codes[r] == BELOW ? 1.0 : -1.0;
            const double x = __builtin_fabs(z[r]), lambda = x + gaps[r];
            const bool left = turn * z[r] <= 0.0;
            // On the right the largest exponent is that of one.
            const double beyond = seen || left ? 0.0 : exponents[r], rest = lambda - beyond;
            const double inverse = 1.0 / (lambda * rest), over = rest * inverse;
            const double ratio = left ? lambda : beyond * lambda * (lambda * inverse);
            const double tail = left ? exponents[r] * over : rest * over;
            part[r] = seen ? level * exponents[r] : weight * tail;
            once[r] = seen ? -z[r] : turn * ratio;
            second[r] = seen ? -1.0 : -ratio * (left ? gaps[r] : ratio + x);
            sum[r] += part[r];
            // What lies beyond, or more than any where it is not known to all its digits.
            missing[r] += seen || left ? 1.0 : weight * beyond * over;
        }
    }

    // The logarithm of the sum, and posterior shares.
    void conclude() {
        double *__restrict sum = sum_, *__restrict logs = value;
        const double *__restrict missing = missing_, *__restrict common = common_;
        const double* __restrict counted = counted_;
        for (Index r = 0; r < BLOCK; ++r) {
            double mantissa, twos;
            split(sum[r], mantissa, twos);
            const double top = missing[r] < UPPER_HALVES ? -missing[r] : mantissa - 1.0;
            const double logarithm = twos * LN2 + log_of_quotient(top / (mantissa + 1.0));
            logs[r] = counted[r] * (common[r] + logarithm);
            sum[r] = counted[r] / sum[r];
        }
    }

    void first_derivatives(Index m) {
        const double over_share = 1.0 / share(m), inverse = 1.0 / spread(m);
        double *__restrict to = by + 3 * m * BLOCK, *__restrict slope = along;
        double* __restrict part = part_ + m * BLOCK;
        const double *__restrict at = z_ + m * BLOCK, *__restrict once = once_ + m * BLOCK;
        const double *__restrict sum = sum_, *__restrict own = own_;
        for (Index r = 0; r < BLOCK; ++r) {
            part[r] *= sum[r];
            const double by_a = part[r] * once[r] * inverse;
            to[r] = part[r] * over_share;
            to[BLOCK + r] = -by_a;
            to[2 * BLOCK + r] = -part[r] * (once[r] * at[r] + own[r]) * inverse;
            slope[r] += by_a;
        }
    }

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
        for (Index i = 0; i < width; ++i) keep(3 + i, block.by + i * BLOCK);
        if (!rows.curved) continue;
        block.bend();
        keep(2, block.bent);
        for (Index i = 0; i < width; ++i) keep(3 + width + i, block.mixed + i * BLOCK);
        block.add_own(weight, rows.twice);
        // Less the products of the gradient with itself.
        for (Index i = 0; i < width; ++i) {
            for (Index r = 0; r < BLOCK; ++r) product[r] = weight[r] * block.by[i * BLOCK + r];
            for (Index j = i; j < width; ++j)
                rows.twice[i * width + j] -= weighted_total(block.by + j * BLOCK, product);
        }
    }
    for (Index i = 0; i < width; ++i)
        for (Index j = 0; j < i; ++j) rows.twice[i * width + j] = rows.twice[j * width + i];
    return true;
}

// out[q] = sum over i of slope[i, q] from[i], of blocks of rows.
inline void combine(const double* slope, Index n_from, Index n_to, const double* from, double* out) {
    for (Index q = 0; q < n_to; ++q) {
        double* __restrict to = out + q * STRIDE;
        fill(to, 0.0);
        for (Index i = 0; i < n_from; ++i) {
            const double factor = slope[i * n_to + q];
            const double* __restrict one = from + i * BLOCK;
            if (factor == 0.0) continue;
            for (Index r = 0; r < BLOCK; ++r) to[r] += factor * one[r];
        }
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
    Doubles a(BLOCK), residual(BLOCK), curvature(BLOCK), terms(BLOCK), seen_weight(BLOCK);
    Doubles along(columns * STRIDE), weighted(columns * STRIDE), cross(k * plan.padded * columns);
    Doubles plain(k), plain_curved(k), plain_cross(k * columns), seen(k);
    double loglik = 0.0;
    for (Index start = 0, number = 1; start < rows.n_rows; start += BLOCK, ++number) {
        if (number % BLOCKS_PER_QUESTION == 0 && !go_on()) return false;
        const Index left = rows.n_rows - start, filled = left < BLOCK ? left : BLOCK;
        if (filled < BLOCK)
            std::memset(block, 0, sizeof(double) * (rows.n_covariates + 3) * STRIDE);
        load_covariates(rows, start, filled, block);
        load_codes(rows, start, filled, codes);
        load_weights(rows, start, filled, weight);
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
            for (Index r = 0; r < BLOCK; ++r) {
                residual[r] = -weight[r] * own.along[r];
                curvature[r] = -weight[r] * own.bent[r];
                terms[r] = weight[r] * own.value[r];
                seen_weight[r] = code[r] == SEEN ? weight[r] : 0.0;
            }
            ahead.ask();
            plain[j] += total(residual);
            seen[j] += total(seen_weight);
            loglik += total(terms);
            for (Index i = 0; i < width; ++i)
                out.by[which * width + i] += weighted_total(own.by + i * BLOCK, weight);
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
                const double* __restrict one = along + s * STRIDE;
                double* __restrict to = weighted + s * STRIDE;
                for (Index r = 0; r < BLOCK; ++r) to[r] = weight[r] * one[r];
                for (Index t = 0; t <= s; ++t)
                    out.products[(which * q + s) * q + t] +=
                        weighted_total(weighted + s * STRIDE, along + t * STRIDE);
            }
            combine(slopes, width, q, own.mixed, weighted);
            const double* y[TILE];
            for (Index s = 0; s < q; ++s) {
                double* __restrict to = weighted + s * STRIDE;
                for (Index r = 0; r < BLOCK; ++r) to[r] *= -weight[r];
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
        scatter_score(rows, plan, j, plain[j], sums.score(j), seen[j], out.own.score);
        if (seen[j] != 0.0) loglik += seen[j] * log(rows.h[j]);
        if (!curved) continue;
        scatter_hessian(rows, plan, j, plain_curved[j], sums.curved(j), sums.gram(j), sums.pitch,
                        seen[j], out.own.hessian);
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

// Alternatives joined by their noise. Rows are one atom: one alternative is observed, the others lie on
// one side of a limit; or two, where either of two correlated alternatives may be the observed one. The
// oracles are `correlated_pair.py` and `shared_shock.py`.
//
// Per block: every a; the gradient and the second derivatives of each row in its inputs, which are
// the a and what the noise adds; then, as for the unknown index, one weighted Gram matrix per
// alternative and per pair of them. With z = (x, -c), a = -(g, h)'z, so an input's gradient G adds
// -G z to the score and second derivatives F add F z z' to the Hessian.
//
// The shock's nodes are those of `shared_shock.py` where no factor is steep. Products of Phi are
// formed without logarithms: far out they underflow, the log-likelihood is then not finite, and
// whoever called turns to the twin that is slower.
#pragma once

#include "joint_pair.hpp"

namespace {

using selfselect::JointSums;

// ---- a shared shock ------------------------------------------------------------------------------

// A mixture over the shock u: given the outcome that is observed it is normal, and the others' chances are
// integrated against that density by Gauss-Hermite quadrature. Derivatives are those of the mixture.
class SharedShock {
   public:
    SharedShock(const Noise& noise, Index n_alternatives)
        : noise_(noise), k_(n_alternatives), shocks_(noise.n_nodes * BLOCK),
          masses_(noise.n_nodes * BLOCK), slopes_(noise.n_nodes * n_alternatives * BLOCK),
          falls_(noise.n_nodes * n_alternatives * BLOCK), b_(BLOCK), gaps_(BLOCK),
          densities_(BLOCK), centre_(BLOCK), spread_(BLOCK), total_(BLOCK) {}

    // Rows that see no alternative lose their weight.
    void add(const double* a, const double* codes, double* weight, bool curved, JointTerms& out) {
        place(a, codes, weight, out.value);
        fill(total_, 0.0);
        for (Index q = 0; q < noise_.n_nodes; ++q) evaluate_node(a, codes, q);
        conclude(weight, total_, out.value);
        for (Index i = 0; i < 2 * k_; ++i) {
            fill(out.gradient(i), 0.0);
            for (Index m = 0; curved && m <= i; ++m) fill(out.bend(i, m), 0.0);
        }
        for (Index q = 0; q < noise_.n_nodes; ++q) {
            divide(mass(q), total_);
            for (Index m = 0; m < k_; ++m)
                first(mass(q), shock(q), slope(q, m), out.gradient(m), out.gradient(k_ + m));
        }
        if (curved) second(out, weight);
        for (Index i = 0; i < 2 * k_; ++i) multiply(out.gradient(i), weight);
    }

   private:
    double* shock(Index q) { return shocks_ + q * BLOCK; }
    double* mass(Index q) { return masses_ + q * BLOCK; }
    double* slope(Index q, Index m) { return slopes_ + (q * k_ + m) * BLOCK; }
    double* fall(Index q, Index m) { return falls_ + (q * k_ + m) * BLOCK; }

    // Mean and standard deviation of the shock given the outcome that is observed.
    void place(const double* a, const double* codes, double* weight, double* values) {
        double* __restrict centre = centre_;
        double* __restrict spread = spread_;
        double* __restrict observed = total_;
        double* __restrict value = values;
        fill(centre, 0.0);
        fill(spread, 1.0);
        fill(observed, 0.0);
        fill(value, 0.0);
        for (Index j = 0; j < k_; ++j) {
            const double loading = noise_.extras[j], total = 1.0 + loading * loading;
            const double shrink = loading / total, width = 1.0 / sqrt(total);
            const double constant = -0.5 * log(total);
            const double* __restrict at = a + j * STRIDE;
            const double* __restrict code = codes + j * BLOCK;
            for (Index r = 0; r < BLOCK; ++r) {
                const bool here = code[r] == OBSERVED;
                centre[r] = here ? shrink * at[r] : centre[r];
                spread[r] = here ? width : spread[r];
                value[r] = here ? constant - 0.5 * at[r] * at[r] / total : value[r];
                observed[r] = here ? 1.0 : observed[r];
            }
        }
        multiply(weight, observed);
    }

    void evaluate_node(const double* a, const double* codes, Index q) {
        const double node = noise_.nodes[q], node_weight = noise_.node_weights[q];
        double* __restrict u = shock(q);
        const double* __restrict centre = centre_;
        const double* __restrict spread = spread_;
        for (Index r = 0; r < BLOCK; ++r) u[r] = centre[r] + spread[r] * node;
        fill(mass(q), node_weight);
        for (Index m = 0; m < k_; ++m) {
            argue(a + m * STRIDE, codes + m * BLOCK, noise_.extras[m], u, b_);
            gaps_at(b_, gaps_);
            densities_at(b_, densities_);
            factor(b_, gaps_, densities_, codes + m * BLOCK, slope(q, m), fall(q, m), mass(q));
        }
        double* __restrict sum = total_;
        const double* __restrict here = mass(q);
        for (Index r = 0; r < BLOCK; ++r) sum[r] += here[r];
    }

    // What lambda is taken of, on the side on which the alternative lies.
    static void argue(const double* __restrict a, const double* __restrict codes, double loading,
                      const double* __restrict u, double* __restrict b) {
        for (Index r = 0; r < BLOCK; ++r) {
            const double at = a[r] - loading * u[r];
            b[r] = codes[r] == ABOVE ? -at : at;
        }
    }

    // One alternative's factor at one node, and its derivatives.
    static void factor(const double* __restrict b, const double* __restrict gaps,
                       const double* __restrict densities, const double* __restrict codes,
                       double* __restrict slope, double* __restrict bend, double* __restrict mass) {
        for (Index r = 0; r < BLOCK; ++r) {
            const double at = b[r], x = __builtin_fabs(at), gap = gaps[r], density = densities[r];
            const double left_ratio = x + gap, rest_of_one = left_ratio - density;
            const bool left = at <= 0.0;
            const double inverse = 1.0 / (rest_of_one * left_ratio);
            const double ratio = left ? left_ratio : density * left_ratio * (left_ratio * inverse);
            const double fall = ratio * (left ? gap : ratio + x);
            const double chance = (left ? density : rest_of_one) * (rest_of_one * inverse);
            const bool observed = codes[r] == OBSERVED;
            const double turn = codes[r] == ABOVE ? -1.0 : (codes[r] == BELOW ? 1.0 : 0.0);
            mass[r] *= turn != 0.0 ? chance : 1.0;
            slope[r] = observed ? -at : (turn != 0.0 ? turn * ratio : 0.0);
            bend[r] = observed ? -1.0 : (turn != 0.0 ? -fall : 0.0);
        }
    }

    static void conclude(const double* __restrict weight, const double* __restrict total,
                         double* __restrict value) {
        for (Index r = 0; r < BLOCK; ++r) value[r] = weight[r] * (value[r] + log(total[r]));
    }

    static void first(const double* __restrict share, const double* __restrict u,
                      const double* __restrict slope, double* __restrict along,
                      double* __restrict along_loading) {
        for (Index r = 0; r < BLOCK; ++r) {
            const double here = share[r] * slope[r];
            along[r] += here;
            along_loading[r] -= here * u[r];
        }
    }

    void second(JointTerms& out, const double* weight) {
        for (Index q = 0; q < noise_.n_nodes; ++q)
            for (Index m = 0; m < k_; ++m)
                for (Index o = 0; o <= m; ++o)
                    products(mass(q), shock(q), slope(q, m), slope(q, o), fall(q, m),
                             m == o ? 1.0 : 0.0, out.bend(m, o), out.bend(k_ + m, o),
                             out.bend(k_ + m, k_ + o));
        for (Index m = 0; m < k_; ++m)
            for (Index o = 0; o < m; ++o)
                std::memcpy(out.bend(k_ + o, m), out.bend(k_ + m, o), sizeof(double) * BLOCK);
        for (Index i = 0; i < 2 * k_; ++i)
            for (Index m = 0; m <= i; ++m)
                finish(out.gradient(i), out.gradient(m), weight, out.bend(i, m));
    }

    // One node's products of two alternatives' slopes, and its bend where they are one.
    static void products(const double* __restrict share, const double* __restrict u,
                         const double* slope, const double* other, const double* __restrict bend,
                         double same, double* __restrict plain, double* __restrict lower,
                         double* __restrict square) {
        for (Index r = 0; r < BLOCK; ++r) {
            const double both = share[r] * (slope[r] * other[r] + same * bend[r]);
            plain[r] += both;
            lower[r] -= u[r] * both;
            square[r] += u[r] * u[r] * both;
        }
    }

    static void finish(const double* first, const double* second, const double* __restrict weight,
                       double* __restrict both) {
        for (Index r = 0; r < BLOCK; ++r) both[r] = weight[r] * (both[r] - first[r] * second[r]);
    }

    static void divide(double* __restrict share, const double* __restrict total) {
        for (Index r = 0; r < BLOCK; ++r) share[r] /= total[r];
    }

    static void multiply(double* __restrict terms, const double* __restrict factors) {
        for (Index r = 0; r < BLOCK; ++r) terms[r] *= factors[r];
    }

    const Noise& noise_;
    const Index k_;
    Doubles shocks_, masses_, slopes_, falls_, b_, gaps_, densities_, centre_, spread_, total_;
};

// ---- the pass ------------------------------------------------------------------------------------

inline void turn_around(const double* __restrict terms, double* __restrict out) {
    for (Index r = 0; r < BLOCK; ++r) out[r] = -terms[r];
}

// Add what the h of two alternatives owe to weighing the atoms of a row; `factor(l, p)` is the sum of
// -B z over alternative l's columns, B the second derivatives in t and its a, at place p.
struct Weighing {
    double with_itself, with_correlation;
};

template <class Factor>
inline void scatter_weighing(const Rows& rows, const Weighing& sums, Factor factor, JointSums& out) {
    const Index side = rows.width + 1, last = rows.width;
    const auto at = [&](Index j, Index p, Index l, Index q) -> double& {
        return j == l ? out.own.hessian[(j * side + p) * side + q]
                      : out.own.cross[((j * side + p) * 2 + l) * side + q];
    };
    for (Index j = 0; j < 2; ++j) {
        const double turn = (j ? -1.0 : 1.0) / rows.h[j];
        for (Index l = 0; l < 2; ++l) {
            const double other = (l ? -1.0 : 1.0) / rows.h[l];
            for (Index q = 0; q <= rows.sizes[l]; ++q) {
                const Index place = q < rows.sizes[l] ? q : last;
                at(j, last, l, place) += turn * factor(l, place);
                at(l, place, j, last) += turn * factor(l, place);
            }
            at(j, last, l, last) += turn * other * sums.with_itself;
        }
        out.mixed[j * side + last] += turn * sums.with_correlation;
    }
}

bool sum_joint(const Rows& rows, const Noise& noise, bool curved, JointSums& out, GoOn go_on) {
    const Index k = rows.n_alternatives, n_extras = noise.n_extras;
    // Each alternative has a column of limits of its own, behind a tile of zeros.
    const Index own_row = rows.n_covariates + 2 + TILE, n_columns = own_row + k;
    // Where the index is unknown, t of `UnknownPair` is one more input, behind the extras.
    const bool unknown = noise.side != 0.0;
    const Index n_added = n_extras + unknown;
    const Index n_factors = k * n_added, pitch = n_factors + TILE;
    Plan plan(rows, 1.0);
    for (Index j = 0; j < k; ++j) plan.sources(j)[plan.tiled(j) - 1] = own_row + j;
    Gram sums(k, plan.padded);
    Pairs pairs(rows, own_row, curved);
    JointTerms terms(k + n_added);
    const double correlation = noise.n_nodes ? 0.0 : noise.extras[0];
    CorrelatedPair pair(correlation);
    UnknownPair either(correlation, noise.side, rows.h[0], rows.h[k - 1]);
    SharedShock shared(noise, k);
    Doubles block((n_columns + TILE) * STRIDE), codes(k * BLOCK), weight(BLOCK), a(k * STRIDE);
    Doubles residual(BLOCK), curvature(BLOCK), observed_weight(BLOCK);
    Doubles factors(pitch * STRIDE), products((n_columns + TILE) * pitch), mixed_plain(n_factors);
    Doubles plain(k), plain_curved(k), observed(k), among(n_added * n_added);
    double loglik = 0.0;

    for (Index start = 0, number = 1; start < rows.n_rows; start += BLOCK, ++number) {
        if (number % (BLOCKS_PER_QUESTION / 16) == 0 && !go_on()) return false;
        const Index filled = load_block(rows, start, n_columns + TILE, block, codes, weight);
        for (Index j = 0; j < k; ++j) {
            double* column = block + (own_row + j) * STRIDE;
            const double* code = codes + j * BLOCK;
            load_limit(rows, j, start, filled, column);
            for (Index r = 0; r < BLOCK; ++r) {
                // A limit that means nothing may be anything, and 0 * nan is not 0.
                column[r] = code[r] <= ABOVE || code[r] == MAYBE ? column[r] : 0.0;
                observed_weight[r] = code[r] == OBSERVED ? weight[r] : 0.0;
            }
            locate(block, plan, j, a + j * STRIDE);
            if (!unknown) observed[j] += total(observed_weight);
        }
        if (unknown) {
            either.add(a, a + STRIDE, codes, codes + BLOCK, weight, terms);
            for (Index j = 0; j < k; ++j) observed[j] += total(terms.observed(j));
        } else if (noise.n_nodes)
            shared.add(a, codes, weight, curved, terms);
        else
            pair.add(a, a + STRIDE, codes, codes + BLOCK, weight, terms);
        loglik += total(terms.value);
        for (Index e = 0; e < n_extras; ++e) out.score[e] += total(terms.gradient(k + e));
        for (Index j = 0; j < k; ++j) {
            turn_around(terms.gradient(j), residual);
            plain[j] += total(residual);
            if (!curved) {
                sums.add_scores(j, block, plan.sources(j), plan.tiled(j), residual);
                continue;
            }
            turn_around(terms.bend(j, j), curvature);
            plain_curved[j] += total(curvature);
            sums.add(j, block, plan.sources(j), plan.tiled(j), nullptr, curvature, residual);
        }
        if (!curved) continue;
        for (Index i = 0; i < pairs.count; ++i) {
            turn_around(terms.bend(pairs.second(i), pairs.first(i)), curvature);
            pairs.add(i, block, curvature);
        }
        for (Index e = 0; e < n_added; ++e) {
            for (Index j = 0; j < k; ++j) {
                turn_around(terms.bend(k + e, j), factors + (j * n_added + e) * STRIDE);
                mixed_plain[j * n_added + e] += total(factors + (j * n_added + e) * STRIDE);
            }
            for (Index f = 0; f <= e; ++f)
                among[e * n_added + f] += total(terms.bend(k + e, k + f));
        }
        tiles(block, n_columns, factors, n_factors, products, pitch);
    }

    for (Index j = 0; j < k; ++j) {
        scatter_score(rows, plan, j, plain[j], sums.score(j), observed[j], out.own.score);
        if (!unknown && observed[j] != 0.0) loglik += observed[j] * (log(rows.h[j]) - HALF_LOG_TWO_PI);
        if (!curved) continue;
        scatter_hessian(rows, plan, j, plain_curved[j], sums.curved(j), sums.gram(j), sums.pitch,
                        observed[j], out.own.hessian);
        for (Index e = 0; e < n_extras; ++e) {
            double* mixed = out.mixed + j * (rows.width + 1) * n_extras + e;
            const Index factor = j * n_added + e;
            for (Index p = 0; p < plan.tiled(j); ++p)
                mixed[plan.places(j)[p] * n_extras] =
                    products[plan.sources(j)[p] * pitch + factor];
            if (plan.constant(j) >= 0) mixed[plan.constant(j) * n_extras] = mixed_plain[factor];
        }
    }
    if (curved) pairs.scatter(out.own.cross);
    for (Index e = 0; curved && e < n_extras; ++e)
        for (Index f = 0; f <= e; ++f)
            out.hessian[f * n_extras + e] = out.hessian[e * n_extras + f] = among[e * n_added + f];
    if (curved && unknown) {
        const auto factor = [&](Index l, Index place) {
            const Index t = l * n_added + n_extras;
            if (place == plan.constant(l)) return mixed_plain[t];
            for (Index p = 0; p < plan.tiled(l); ++p)
                if (plan.places(l)[p] == place) return products[plan.sources(l)[p] * pitch + t];
            return 0.0;
        };
        const double* last = among + n_extras * n_added;
        scatter_weighing(rows, {last[n_extras], last[0]}, factor, out);
    }
    out.own.loglik = loglik;
    return true;
}

}  // namespace

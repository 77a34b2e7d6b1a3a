// Alternatives joined by their noise, for rows of one atom: one alternative is observed, the others lie on
// one side of a limit. The oracles are `correlated_pair.py` and `shared_shock.py`.
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

#include "pairs.hpp"

namespace {

using selfselect::JointSums;
using selfselect::Noise;

// Position of the second derivative in two inputs, the first of which is not before the second.
inline Index at_pair(Index high, Index low) { return high * (high + 1) / 2 + low; }

// What a block's rows add: their weighted log-likelihood, gradient and second derivatives.
struct JointTerms {
    JointTerms(Index n_inputs)
        : value(BLOCK), gradient_(n_inputs * STRIDE), bends_(n_inputs * (n_inputs + 1) / 2 * STRIDE) {}
    Doubles value;
    double* gradient(Index i) { return gradient_ + i * STRIDE; }
    double* bend(Index high, Index low) { return bends_ + at_pair(high, low) * STRIDE; }

   private:
    Doubles gradient_, bends_;
};

// ---- two correlated alternatives -----------------------------------------------------------------

// If one is observed and the other lies below its limit, a row adds log phi(own) + log Phi(v) with
// v = (limit - r own)/sqrt(1 - r^2).
class CorrelatedPair {
   public:
    explicit CorrelatedPair(double correlation)
        : correlation_(correlation), root_(sqrt(1.0 - correlation * correlation)), v_(BLOCK),
          direction_(BLOCK), own_(BLOCK), limit_(BLOCK), gaps_(BLOCK), densities_(BLOCK) {}

    void add(const double* a0, const double* a1, const double* codes0, const double* codes1,
             const double* weight, JointTerms& out) {
        place(a0, a1, codes0, codes1, v_, direction_, own_, limit_);
        gaps_at(v_, gaps_);
        densities_at(v_, densities_);
        differentiate(codes0, codes1, weight, v_, direction_, own_, limit_, gaps_, densities_,
                      out.gradient(0), out.gradient(1), out.gradient(2), out.bend(0, 0),
                      out.bend(1, 0), out.bend(1, 1), out.bend(2, 0), out.bend(2, 1),
                      out.bend(2, 2), out.value);
    }

   private:
    void place(const double* __restrict a0, const double* __restrict a1,
               const double* __restrict codes0, const double* __restrict codes1,
               double* __restrict v, double* __restrict direction, double* __restrict own,
               double* __restrict limit) const {
        const double correlation = correlation_, root = root_;
        for (Index r = 0; r < BLOCK; ++r) {
            const bool first = codes0[r] == OBSERVED;
            const double code = first ? codes1[r] : codes0[r];
            own[r] = first ? a0[r] : a1[r];
            limit[r] = first ? a1[r] : a0[r];
            const double turn = code == BELOW ? 1.0 : (code == ABOVE ? -1.0 : 0.0);
            direction[r] = turn;
            v[r] = turn * (limit[r] - correlation * own[r]) / root;
        }
    }

    void differentiate(const double* __restrict codes0, const double* __restrict codes1,
                       const double* __restrict weight, const double* __restrict v,
                       const double* __restrict direction, const double* __restrict owns,
                       const double* __restrict limits, const double* __restrict gaps,
                       const double* __restrict densities, double* __restrict gradient0,
                       double* __restrict gradient1, double* __restrict gradient2,
                       double* __restrict bend00, double* __restrict bend10,
                       double* __restrict bend11, double* __restrict bend20,
                       double* __restrict bend21, double* __restrict bend22,
                       double* __restrict value) const {
        const double correlation = correlation_, left_over = root_ * root_;
        const double cube = 1.0 / (left_over * root_);
        const double v_own = -correlation / root_, v_limit = 1.0 / root_;
        for (Index r = 0; r < BLOCK; ++r) {
            const bool first = codes0[r] == OBSERVED;
            const double own = owns[r], limit = limits[r], turn = direction[r];
            const Tail tail = tail_at(v[r], gaps[r], densities[r]);
            const double w = first ? weight[r] : (codes1[r] == OBSERVED ? weight[r] : 0.0);
            const double along = w * turn * tail.ratio;
            const double bend = turn != 0.0 ? -w * tail.slope : 0.0;
            const double v_r = (correlation * limit - own) * cube;
            const double of_own = along * v_own - w * own, of_limit = along * v_limit;
            const double own_own = bend * v_own * v_own - w;
            const double limit_limit = bend * v_limit * v_limit;
            const double own_r = bend * v_own * v_r - along * cube;
            const double limit_r = bend * v_limit * v_r + along * correlation * cube;
            gradient0[r] = first ? of_own : of_limit;
            gradient1[r] = first ? of_limit : of_own;
            gradient2[r] = along * v_r;
            bend00[r] = first ? own_own : limit_limit;
            bend10[r] = bend * v_own * v_limit;
            bend11[r] = first ? limit_limit : own_own;
            bend20[r] = first ? own_r : limit_r;
            bend21[r] = first ? limit_r : own_r;
            bend22[r] = bend * v_r * v_r +
                        along * (limit * cube + 3.0 * correlation * v_r / left_over);
            value[r] = w * ((turn != 0.0 ? tail.log_cdf : 0.0) - 0.5 * own * own);
        }
    }

    const double correlation_, root_;
    Doubles v_, direction_, own_, limit_, gaps_, densities_;
};

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

bool sum_joint(const Rows& rows, const Noise& noise, bool curved, JointSums& out, GoOn go_on) {
    const Index k = rows.n_alternatives, n_extras = noise.n_extras;
    // Each alternative has a column of limits of its own, behind a tile of zeros.
    const Index own_row = rows.n_covariates + 2 + TILE, n_columns = own_row + k;
    const Index n_factors = k * n_extras, pitch = n_factors + TILE;
    Plan plan(rows, 1.0);
    for (Index j = 0; j < k; ++j) plan.sources(j)[plan.tiled(j) - 1] = own_row + j;
    Gram sums(k, plan.padded);
    Pairs pairs(rows, own_row, curved);
    JointTerms terms(k + n_extras);
    CorrelatedPair pair(noise.n_nodes ? 0.0 : noise.extras[0]);
    SharedShock shared(noise, k);
    Doubles block((n_columns + TILE) * STRIDE), codes(k * BLOCK), weight(BLOCK), a(k * STRIDE);
    Doubles residual(BLOCK), curvature(BLOCK), observed_weight(BLOCK);
    Doubles factors(pitch * STRIDE), products((n_columns + TILE) * pitch), mixed_plain(n_factors);
    Doubles plain(k), plain_curved(k), observed(k);
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
                column[r] = code[r] <= ABOVE ? column[r] : 0.0;
                observed_weight[r] = code[r] == OBSERVED ? weight[r] : 0.0;
            }
            locate(block, plan, j, a + j * STRIDE);
            observed[j] += total(observed_weight);
        }
        if (noise.n_nodes)
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
        for (Index e = 0; e < n_extras; ++e) {
            for (Index j = 0; j < k; ++j) {
                turn_around(terms.bend(k + e, j), factors + (j * n_extras + e) * STRIDE);
                mixed_plain[j * n_extras + e] += total(factors + (j * n_extras + e) * STRIDE);
            }
            for (Index f = 0; f <= e; ++f)
                out.hessian[e * n_extras + f] += total(terms.bend(k + e, k + f));
        }
        tiles(block, n_columns, factors, n_factors, products, pitch);
    }

    for (Index j = 0; j < k; ++j) {
        scatter_score(rows, plan, j, plain[j], sums.score(j), observed[j], out.own.score);
        if (observed[j] != 0.0) loglik += observed[j] * (log(rows.h[j]) - HALF_LOG_TWO_PI);
        if (!curved) continue;
        scatter_hessian(rows, plan, j, plain_curved[j], sums.curved(j), sums.gram(j), sums.pitch,
                        observed[j], out.own.hessian);
        for (Index e = 0; e < n_extras; ++e) {
            double* mixed = out.mixed + j * (rows.width + 1) * n_extras + e;
            const Index factor = j * n_extras + e;
            for (Index p = 0; p < plan.tiled(j); ++p)
                mixed[plan.places(j)[p] * n_extras] =
                    products[plan.sources(j)[p] * pitch + factor];
            if (plan.constant(j) >= 0) mixed[plan.constant(j) * n_extras] = mixed_plain[factor];
        }
    }
    if (curved) pairs.scatter(out.own.cross);
    for (Index e = 0; curved && e < n_extras; ++e)
        for (Index f = 0; f < e; ++f) out.hessian[f * n_extras + e] = out.hessian[e * n_extras + f];
    out.own.loglik = loglik;
    return true;
}

}  // namespace

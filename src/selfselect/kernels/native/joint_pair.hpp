// Two correlated alternatives: rows in which one of them is observed, and rows whose outcome may be
// either's. The oracle is `correlated_pair.py`, and for the latter the mixture in `_pieces.py`.
#pragma once

#include "pairs.hpp"

namespace {

using selfselect::Noise;

// Position of the second derivative in two inputs, the first of which is not before the second.
inline Index at_pair(Index high, Index low) { return high * (high + 1) / 2 + low; }

// What a block's rows add: their weighted log-likelihood, gradient and second derivatives.
struct JointTerms {
    JointTerms(Index n_inputs)
        : value(BLOCK), gradient_(n_inputs * STRIDE), bends_(n_inputs * (n_inputs + 1) / 2 * STRIDE),
          observed_(2 * BLOCK) {}
    Doubles value;
    double* gradient(Index i) { return gradient_ + i * STRIDE; }
    double* bend(Index high, Index low) { return bends_ + at_pair(high, low) * STRIDE; }
    // Of two alternatives of an unknown index: the weight with which each is the one observed.
    double* observed(Index j) { return observed_ + j * BLOCK; }

   private:
    Doubles gradient_, bends_, observed_;
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

// The same where only the outcome is recorded: a row is a mixture of two atoms, in which one or the
// other is observed, and the rest lies on one side of it. With G the gradients of the atoms, s
// their shares and D = G_0 - G_1, a row has
//
//     gradient  s_0 G_0 + s_1 G_1,    second derivatives  s_0 H_0 + s_1 H_1 + s_0 s_1 D D'.
//
// The h weigh the atoms too, by t = log h_0 - log h_1: an input behind the correlation, of which
// only second derivatives are wanted, and whose D is one.
class UnknownPair {
   public:
    UnknownPair(double correlation, double side, double h0, double h1)
        : correlation_(correlation), root_(sqrt(1.0 - correlation * correlation)), side_(side),
          level0_(log(h0)), level1_(log(h1)), v_(2 * BLOCK), gaps_(BLOCK), densities_(BLOCK),
          log_cdf_(2 * BLOCK), along_(2 * BLOCK), bend_(2 * BLOCK) {}

    void add(const double* a0, const double* a1, const double* codes0, const double* codes1,
             const double* weight, JointTerms& out) {
        evaluate_atom(a0, a1, codes1, 0);
        evaluate_atom(a1, a0, codes0, 1);
        mix(a0, a1, codes0, codes1, weight, log_cdf_, along_, bend_, out.gradient(0),
            out.gradient(1), out.gradient(2), out.bend(0, 0), out.bend(1, 0), out.bend(1, 1),
            out.bend(2, 0), out.bend(2, 1), out.bend(2, 2), out.bend(3, 0), out.bend(3, 1),
            out.bend(3, 2), out.bend(3, 3), out.observed(0), out.observed(1), out.value);
    }

   private:
    // log l of an atom that cannot be: far below all others, and what it loses against them is finite.
    static constexpr double CLOSED_ATOM = -1e200;

    // log Phi(v) of the other alternative, and its two derivatives in v.
    void evaluate_atom(const double* owns, const double* limits, const double* others, Index atom) {
        double* v = v_ + atom * BLOCK;
        place(owns, limits, v);
        gaps_at(v, gaps_);
        densities_at(v, densities_);
        differentiate(v, gaps_, densities_, others, log_cdf_ + atom * BLOCK, along_ + atom * BLOCK,
                      bend_ + atom * BLOCK);
    }

    void place(const double* __restrict owns, const double* __restrict limits,
               double* __restrict v) const {
        const double correlation = correlation_, root = root_, side = side_;
        for (Index r = 0; r < BLOCK; ++r) v[r] = side * (limits[r] - correlation * owns[r]) / root;
    }

    void differentiate(const double* __restrict v, const double* __restrict gaps,
                       const double* __restrict densities, const double* __restrict others,
                       double* __restrict log_cdf, double* __restrict along,
                       double* __restrict bend) const {
        const double side = side_;
        for (Index r = 0; r < BLOCK; ++r) {
            const Tail tail = tail_at(v[r], gaps[r], densities[r]);
            const bool open = others[r] == MAYBE;
            log_cdf[r] = open ? tail.log_cdf : 0.0;
            along[r] = open ? side * tail.ratio : 0.0;
            bend[r] = open ? -tail.slope : 0.0;
        }
    }

    void mix(const double* __restrict a0, const double* __restrict a1,
             const double* __restrict codes0, const double* __restrict codes1,
             const double* __restrict weight, const double* __restrict log_cdf,
             const double* __restrict along, const double* __restrict bend,
             double* __restrict gradient0, double* __restrict gradient1,
             double* __restrict gradient2, double* __restrict bend00, double* __restrict bend10,
             double* __restrict bend11, double* __restrict bend20, double* __restrict bend21,
             double* __restrict bend22, double* __restrict bend30, double* __restrict bend31,
             double* __restrict bend32, double* __restrict bend33, double* __restrict observed0,
             double* __restrict observed1, double* __restrict value) const {
        const double correlation = correlation_, left_over = root_ * root_;
        const double cube = 1.0 / (left_over * root_), turn = 3.0 * correlation / left_over;
        const double v_own = -correlation / root_, v_limit = 1.0 / root_;
        const double own_own = v_own * v_own, own_limit = v_own * v_limit;
        const double limit_limit = v_limit * v_limit, level0 = level0_, level1 = level1_;
        for (Index r = 0; r < BLOCK; ++r) {
            const double first = a0[r], second = a1[r];
            const bool open0 = codes0[r] == MAYBE, open1 = codes1[r] == MAYBE;
            const double log0 = open0 ? level0 - 0.5 * first * first + log_cdf[r] : CLOSED_ATOM;
            const double log1 =
                open1 ? level1 - 0.5 * second * second + log_cdf[BLOCK + r] : CLOSED_ATOM;
            const bool ahead = log0 >= log1;
            const double less = exponential(ahead ? log1 - log0 : log0 - log1);
            const double larger = 1.0 / (1.0 + less), smaller = less * larger;
            const double share0 = ahead ? larger : smaller, share1 = ahead ? smaller : larger;
            // log(1 + less) = 2 artanh(less/(2 + less)); above one half it is taken of half of it.
            const bool twice = less > 0.4;
            const double top = twice ? less - 1.0 : less, bottom = twice ? less + 3.0 : less + 2.0;
            const double more = log_of_quotient(top / bottom) + (twice ? LN2 : 0.0);
            const double w = open0 || open1 ? weight[r] : 0.0, both = w * (share0 * share1);
            const double w0 = w * share0, w1 = w * share1;
            value[r] = w * ((ahead ? log0 : log1) + more - HALF_LOG_TWO_PI);
            observed0[r] = w0;
            observed1[r] = w1;

            // Atom 0 observes the first: own is a0 and the limit is that of a1. Atom 1 the other way.
            const double along0 = along[r], along1 = along[BLOCK + r];
            const double fall0 = bend[r], fall1 = bend[BLOCK + r];
            const double r0 = (correlation * second - first) * cube;
            const double r1 = (correlation * first - second) * cube;
            const double by_first0 = along0 * v_own - first, by_first1 = along1 * v_limit;
            const double by_second0 = along0 * v_limit, by_second1 = along1 * v_own - second;
            const double by_r0 = along0 * r0, by_r1 = along1 * r1;
            gradient0[r] = w0 * by_first0 + w1 * by_first1;
            gradient1[r] = w0 * by_second0 + w1 * by_second1;
            gradient2[r] = w0 * by_r0 + w1 * by_r1;

            const double apart0 = by_first0 - by_first1, apart1 = by_second0 - by_second1;
            const double apart2 = by_r0 - by_r1;
            bend00[r] = w0 * (fall0 * own_own - 1.0) + w1 * (fall1 * limit_limit) +
                        both * apart0 * apart0;
            bend11[r] = w0 * (fall0 * limit_limit) + w1 * (fall1 * own_own - 1.0) +
                        both * apart1 * apart1;
            bend10[r] = (w0 * fall0 + w1 * fall1) * own_limit + both * apart0 * apart1;
            bend20[r] = w0 * (fall0 * v_own * r0 - along0 * cube) +
                        w1 * (fall1 * v_limit * r1 + along1 * correlation * cube) +
                        both * apart0 * apart2;
            bend21[r] = w0 * (fall0 * v_limit * r0 + along0 * correlation * cube) +
                        w1 * (fall1 * v_own * r1 - along1 * cube) + both * apart1 * apart2;
            bend22[r] = w0 * (fall0 * r0 * r0 + along0 * (second * cube + turn * r0)) +
                        w1 * (fall1 * r1 * r1 + along1 * (first * cube + turn * r1)) +
                        both * apart2 * apart2;
            bend30[r] = both * apart0;
            bend31[r] = both * apart1;
            bend32[r] = both * apart2;
            bend33[r] = both;
        }
    }

    const double correlation_, root_, side_, level0_, level1_;
    Doubles v_, gaps_, densities_, log_cdf_, along_, bend_;
};

}  // namespace

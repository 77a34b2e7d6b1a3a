// Chances that each of three independent normal outcomes is the largest; see `largest.py`.
//
// That of one is the chance that its differences from the other two are both positive, which are two
// normal numbers of one correlation for all rows: Phi(a) Phi(b) and an integral over the angle from
// zero to the arc sine of the correlation, whose nodes and factors the caller has made.
#pragma once

#include "blocks.hpp"

namespace {

using selfselect::Chances;

// Standard deviations beyond which a difference is as good as infinite.
constexpr double FARTHEST_DIFFERENCE = 40.0;

// The pairs of three alternatives, the first ahead of the second where the difference is positive.
constexpr Index FIRST_OF[] = {0, 0, 1}, SECOND_OF[] = {1, 2, 2};

// Of each alternative the pairs it is in, and whether it is the first of them.
constexpr Index PAIRS_OF[][2] = {{0, 1}, {0, 2}, {1, 2}};
constexpr double SIGN_IN[][2] = {{1.0, 1.0}, {-1.0, 1.0}, {-1.0, -1.0}};

class ThreeChances {
   public:
    explicit ThreeChances(const Chances& work)
        : work_(work), difference_(3 * BLOCK), ahead_(3 * BLOCK), behind_(3 * BLOCK), gaps_(BLOCK),
          densities_(BLOCK), square_(BLOCK), product_(BLOCK), sum_(BLOCK) {}

    void block(Index start, Index filled) {
        for (Index pair = 0; pair < 3; ++pair) {
            load(start, filled, pair);
            gaps_at(difference_ + pair * BLOCK, gaps_);
            densities_at(difference_ + pair * BLOCK, densities_);
            sides(difference_ + pair * BLOCK, gaps_, densities_, ahead_ + pair * BLOCK,
                  behind_ + pair * BLOCK);
        }
        for (Index j = 0; j < 3; ++j) {
            const Index one = PAIRS_OF[j][0], other = PAIRS_OF[j][1];
            begin((SIGN_IN[j][0] > 0.0 ? ahead_ : behind_) + one * BLOCK,
                  (SIGN_IN[j][1] > 0.0 ? ahead_ : behind_) + other * BLOCK,
                  difference_ + one * BLOCK, difference_ + other * BLOCK,
                  SIGN_IN[j][0] * SIGN_IN[j][1], sum_, square_, product_);
            for (Index q = work_.begins[j]; q < work_.begins[j + 1]; ++q)
                add_node(square_, product_, work_.by_square[q], work_.by_product[q],
                         work_.weights[q], sum_);
            for (Index r = 0; r < filled; ++r)
                work_.chance[(start + r) * 3 + j] = is_open(start + r, j) ? sum_[r] : 0.0;
        }
    }

   private:
    bool is_open(Index row, Index j) const {
        const auto& open = work_.open;
        return !open.data || open.data[row * open.row + j * open.column];
    }

    // The difference of a pair, in standard deviations; one that is not open is far behind.
    void load(Index start, Index filled, Index pair) {
        const auto& means = work_.means;
        const Index one = FIRST_OF[pair], other = SECOND_OF[pair];
        double* difference = difference_ + pair * BLOCK;
        const double factor = 1.0 / work_.spreads[pair];
        for (Index r = 0; r < BLOCK; ++r) {
            const double* row = means.data + (start + (r < filled ? r : 0)) * means.row;
            const double at = (row[one * means.column] - row[other * means.column]) * factor;
            const double under = at > FARTHEST_DIFFERENCE ? FARTHEST_DIFFERENCE : at;
            difference[r] = under < -FARTHEST_DIFFERENCE ? -FARTHEST_DIFFERENCE : under;
        }
        for (Index r = 0; work_.open.data && r < filled; ++r) {
            if (!is_open(start + r, other)) difference[r] = FARTHEST_DIFFERENCE;
            if (!is_open(start + r, one)) difference[r] = -FARTHEST_DIFFERENCE;
        }
    }

    static void sides(const double* __restrict at, const double* __restrict gaps,
                      const double* __restrict densities, double* __restrict ahead,
                      double* __restrict behind) {
        for (Index r = 0; r < BLOCK; ++r) {
            const double tail = densities[r] / (__builtin_fabs(at[r]) + gaps[r]);
            const bool left = at[r] <= 0.0;
            ahead[r] = left ? tail : 1.0 - tail;
            behind[r] = left ? 1.0 - tail : tail;
        }
    }

    static void begin(const double* __restrict first, const double* __restrict second,
                      const double* __restrict a, const double* __restrict b, double sign,
                      double* __restrict sum, double* __restrict square,
                      double* __restrict product) {
        for (Index r = 0; r < BLOCK; ++r) {
            sum[r] = first[r] * second[r] + 0.0 * (a[r] + b[r]);  // what is no number stays none
            square[r] = a[r] * a[r] + b[r] * b[r];
            product[r] = sign * (a[r] * b[r]);
        }
    }

    static void add_node(const double* __restrict square, const double* __restrict product,
                         double by_square, double by_product, double weight,
                         double* __restrict sum) {
        for (Index r = 0; r < BLOCK; ++r)
            sum[r] += weight * exponential(by_product * product[r] - by_square * square[r]);
    }

    const Chances& work_;
    Doubles difference_, ahead_, behind_, gaps_, densities_, square_, product_, sum_;
};

bool evaluate_chances(const Chances& work, GoOn go_on) {
    ThreeChances chances(work);
    for (Index start = 0; start < work.n; start += BLOCK) {
        if (start && start % (256 * BLOCK) == 0 && !go_on()) return false;
        const Index left = work.n - start;
        chances.block(start, left < BLOCK ? left : BLOCK);
    }
    return true;
}

}  // namespace

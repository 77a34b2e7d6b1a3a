// Moments of independent normal outcomes where each of them is the largest; see `largest.py`.
//
// The integral over the largest outcome is a sum over nodes of a fixed step. A block of rows goes
// through all nodes of one chosen alternative before its sums are written.
#pragma once

#include "blocks.hpp"

namespace {

using selfselect::Largest;

// Beyond this a tail is empty, and infinity itself would make 0 * infinity of its moments.
constexpr double FARTHEST_LIMIT = 1e50;

class LargestSums {
   public:
    explicit LargestSums(const Largest& work)
        : work_(work), k_(work.k), moments_(work.first != nullptr), curved_(work.fall != nullptr), base_(k_ * BLOCK),
          rate_(k_ * BLOCK), open_(k_ * BLOCK), first_(k_ * BLOCK), fall_(k_ * BLOCK),
          square_(k_ * BLOCK), cube_(k_ * BLOCK), mass_(BLOCK), chance_(BLOCK), gaps_(BLOCK),
          densities_(BLOCK), a_(BLOCK), sums_((1 + 2 * curved_) * k_ * BLOCK + 2 * curved_ * k_ * k_ * BLOCK) {}

    void block(Index start, Index filled) {
        for (Index chosen = 0; chosen < k_; ++chosen) {
            load(start, filled, chosen);
            for (Index q = work_.begins[chosen]; q < work_.begins[chosen + 1]; ++q)
                add_node(chosen, work_.nodes[q], work_.weights[q]);
            store(start, filled, chosen);
        }
    }

   private:
    double* sum_of_first(Index l) { return sums_ + l * BLOCK; }
    double* sum_of_fall(Index m) { return sums_ + (k_ + m) * BLOCK; }
    double* sum_of_pair(Index l, Index m) { return sums_ + (2 * k_ + l * k_ + m) * BLOCK; }
    double* sum_of_pair_fall(Index l, Index m) {
        return sums_ + (2 * k_ + k_ * k_ + l * k_ + m) * BLOCK;
    }

    void load(Index start, Index filled, Index chosen) {
        std::memset(static_cast<double*>(chance_), 0, sizeof(double) * BLOCK);
        const Index arrays = (1 + 2 * curved_) * k_ + 2 * curved_ * k_ * k_;
        std::memset(static_cast<double*>(sums_), 0, sizeof(double) * BLOCK * arrays);
        const auto &means = work_.means, &scales = work_.scales;
        for (Index m = 0; m < k_; ++m) {
            double *base = base_ + m * BLOCK, *rate = rate_ + m * BLOCK, *open = open_ + m * BLOCK;
            for (Index r = 0; r < BLOCK; ++r) {
                const Index row = start + (r < filled ? r : 0);
                const double own = means.data[row * means.row + chosen * means.column];
                const double other = means.data[row * means.row + m * means.column];
                const double scale = scales.data[row * scales.row + m * scales.column];
                base[r] = (own - other) / scale;
                rate[r] = scales.data[row * scales.row + chosen * scales.column] / scale;
                open[r] = !work_.open.data || work_.open.data[row * work_.open.row + m * work_.open.column];
            }
        }
    }

    // What another alternative adds at a node: its chance to lie below, and moments given that.
    void add_other(Index m, double node) {
        const double *__restrict base = base_ + m * BLOCK, *__restrict rate = rate_ + m * BLOCK;
        const double *__restrict open = open_ + m * BLOCK;
        double *__restrict a = a_, *__restrict mass = mass_;
        for (Index r = 0; r < BLOCK; ++r) {
            const double at = base[r] + rate[r] * node;
            const double under = at > FARTHEST_LIMIT ? FARTHEST_LIMIT : at;
            a[r] = under < -FARTHEST_LIMIT ? -FARTHEST_LIMIT : under;
        }
        gaps_at(a_, gaps_);
        densities_at(a_, densities_);
        const double *__restrict gap = gaps_, *__restrict density = densities_;
        if (!moments_) {
            for (Index r = 0; r < BLOCK; ++r) {
                const double tail = density[r] / (__builtin_fabs(a[r]) + gap[r]);
                mass[r] *= open[r] > 0.0 ? (a[r] <= 0.0 ? tail : 1.0 - tail) : 1.0;
            }
            return;
        }
        double *__restrict first = first_ + m * BLOCK, *__restrict fall = fall_ + m * BLOCK;
        double *__restrict square = square_ + m * BLOCK, *__restrict cube = cube_ + m * BLOCK;
        for (Index r = 0; r < BLOCK; ++r) {
            const double left_ratio = __builtin_fabs(a[r]) + gap[r];
            const double tail = density[r] / left_ratio;
            const bool left = a[r] <= 0.0;
            const double below = left ? tail : 1.0 - tail;
            const double ratio = open[r] * (left ? left_ratio : density[r] / below);
            mass[r] *= open[r] > 0.0 ? below : 1.0;
            first[r] = -ratio;
            fall[r] = -a[r] * ratio;
            square[r] = 1.0 + fall[r];
            cube[r] = -(a[r] * a[r] + 1.0) * ratio;
        }
    }

    void add_node(Index chosen, double node, double weight) {
        const double* open = open_ + chosen * BLOCK;
        double* mass = mass_;
        for (Index r = 0; r < BLOCK; ++r) mass[r] = weight * open[r];
        for (Index m = 0; m < k_; ++m)
            if (m != chosen) add_other(m, node);
        double* chance = chance_;
        for (Index r = 0; r < BLOCK; ++r) chance[r] += mass[r];
        if (!moments_) return;
        fill(first_ + chosen * BLOCK, node);
        fill(fall_ + chosen * BLOCK, node * node - 1.0);
        fill(square_ + chosen * BLOCK, node * node);
        fill(cube_ + chosen * BLOCK, node * node * node - node);
        for (Index l = 0; l < k_; ++l) {
            const double* __restrict first = first_ + l * BLOCK;
            add(sum_of_first(l), first);
            if (!curved_) continue;
            add(sum_of_fall(l), fall_ + l * BLOCK);
            add(sum_of_pair(l, l), square_ + l * BLOCK);
            add(sum_of_pair_fall(l, l), cube_ + l * BLOCK);
            for (Index m = 0; m < k_; ++m) {
                if (m == l) continue;
                if (m < l) add_product(sum_of_pair(l, m), first, first_ + m * BLOCK);
                add_product(sum_of_pair_fall(l, m), first, fall_ + m * BLOCK);
            }
        }
    }

    void add(double* __restrict sum, const double* __restrict value) {
        const double* __restrict mass = mass_;
        for (Index r = 0; r < BLOCK; ++r) sum[r] += mass[r] * value[r];
    }

    void add_product(double* __restrict sum, const double* __restrict one, const double* __restrict other) {
        const double* __restrict mass = mass_;
        for (Index r = 0; r < BLOCK; ++r) sum[r] += mass[r] * one[r] * other[r];
    }

    void store(Index start, Index filled, Index chosen) {
        for (Index r = 0; r < filled; ++r) {
            const Index row = start + r;
            work_.chance[row * k_ + chosen] = chance_[r];
            for (Index l = 0; moments_ && l < k_; ++l) {
                work_.first[(row * k_ + l) * k_ + chosen] = sum_of_first(l)[r];
                if (!curved_) continue;
                work_.fall[(row * k_ + l) * k_ + chosen] = sum_of_fall(l)[r];
                for (Index m = 0; m < k_; ++m) {
                    const Index place = ((row * k_ + l) * k_ + m) * k_ + chosen;
                    work_.pair[place] = (m < l ? sum_of_pair(l, m) : sum_of_pair(m, l))[r];
                    work_.pair_fall[place] = sum_of_pair_fall(l, m)[r];
                }
            }
        }
    }

    const Largest& work_;
    const Index k_;
    const bool moments_, curved_;
    Doubles base_, rate_, open_, first_, fall_, square_, cube_, mass_, chance_, gaps_, densities_, a_, sums_;
};

bool sum_largest(const Largest& work, GoOn go_on) {
    LargestSums sums(work);
    for (Index start = 0; start < work.n; start += BLOCK) {
        if (start && start % (16 * BLOCK) == 0 && !go_on()) return false;
        const Index left = work.n - start;
        sums.block(start, left < BLOCK ? left : BLOCK);
    }
    return true;
}

}  // namespace

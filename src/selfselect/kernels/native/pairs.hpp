// Pairs of alternatives: what the Gram matrix of a pair is made of, and where its sums belong.
//
// Alternatives mostly share their columns, and what two of them share has a symmetric Gram matrix. So
// a pair's columns make one list: those of both, then those of the first only, then those of the
// second only. Of the list's Gram matrix the lower triangle is built, without the tiles that hold
// nothing but the first's own against each other, or the second's.
#pragma once

#include "blocks.hpp"

namespace {

class Pairs {
   public:
    // The row `own_row + j` of the block holds what belongs to the h of alternative j.
    Pairs(const Rows& rows, Index own_row, bool wanted)
        : count(wanted ? rows.n_alternatives * (rows.n_alternatives - 1) / 2 : 0),
          rows_(rows), own_row_(own_row), room_(2 * rows.width + 2 + TILE),
          counts_(count), sources_(count * room_), reach_(count * room_), members_(2 * count),
          plain_(count), longest_(list_all()), sums_(count, longest_) {}

    const Index count;
    Index first(Index i) { return members_[2 * i]; }
    Index second(Index i) { return members_[2 * i + 1]; }

    // Add a block with weights c: the sums of c, of c z and of c z z'.
    void add(Index i, const double* block, const double* weights) {
        plain_[i] += total(weights);
        sums_.add(i, block, sources_ + i * room_, counts_[i], reach_ + i * room_, weights, weights);
    }

    // Put the sums of -c z z' at their places, (k, width + 1, k, width + 1).
    void scatter(double* cross) {
        const Index k = rows_.n_alternatives, side = rows_.width + 1;
        Integers here(side), there(side);
        for (Index i = 0; i < count; ++i) {
            const Index j = first(i), m = second(i);
            find(i, j, here);
            find(i, m, there);
            for (Index p = 0; p <= rows_.sizes[j]; ++p) {
                for (Index q = 0; q <= rows_.sizes[m]; ++q) {
                    const Index row = p < rows_.sizes[j] ? p : rows_.width;
                    const Index column = q < rows_.sizes[m] ? q : rows_.width;
                    const double value = -entry(i, here[p], there[q]);
                    cross[((j * side + row) * k + m) * side + column] = value;
                    cross[((m * side + column) * k + j) * side + row] = value;
                }
            }
        }
    }

   private:
    static constexpr std::int64_t CONSTANT = -1;

    std::int64_t column(Index j, Index p) const { return rows_.columns[j * rows_.width + p]; }

    bool has(Index j, std::int64_t wanted) const {
        for (Index p = 0; p < rows_.sizes[j]; ++p)
            if (column(j, p) == wanted) return true;
        return false;
    }

    // Append to a list the columns of j that m has, or has not; return how many there are then.
    Index append(Index j, Index m, bool shared, std::int64_t* list, Index length) const {
        for (Index p = 0; p < rows_.sizes[j]; ++p)
            if (column(j, p) != 0 && has(m, column(j, p)) == shared) list[length++] = column(j, p);
        return length;
    }

    Index list_all() {
        Index i = 0, longest = 0;
        for (Index j = 0; count && j < rows_.n_alternatives; ++j) {
            for (Index m = j + 1; m < rows_.n_alternatives; ++m, ++i) {
                members_[2 * i] = j;
                members_[2 * i + 1] = m;
                std::int64_t* list = sources_ + i * room_;
                Index length = append(j, m, true, list, 0);
                // Either h belongs to one only, but that would be a whole tile for each.
                list[length++] = own_row_ + j;
                list[length++] = own_row_ + m;
                const Index both = length;
                length = append(j, m, false, list, length);
                const Index of_first = length;
                length = append(m, j, false, list, length);
                for (Index p = length; p < room_; ++p) list[p] = rows_.n_covariates + 2;
                for (Index p = 0; p < room_; ++p) {
                    // A tile of two kinds reaches as far as any of its columns needs.
                    const Index end = p < both                 ? p
                                      : p + TILE <= of_first ? whole_tiles(both)
                                                             : whole_tiles(of_first);
                    reach_[i * room_ + p] = end < p ? end : p;
                }
                counts_[i] = length;
                longest = length > longest ? length : longest;
            }
        }
        return longest + TILE;
    }

    // Find the columns of j, and its h last, in the list of a pair.
    void find(Index i, Index j, std::int64_t* positions) {
        const std::int64_t* list = sources_ + i * room_;
        for (Index p = 0; p <= rows_.sizes[j]; ++p) {
            const std::int64_t wanted = p < rows_.sizes[j] ? column(j, p) : own_row_ + j;
            positions[p] = CONSTANT;
            for (Index q = 0; wanted != 0 && q < counts_[i]; ++q)
                if (list[q] == wanted) positions[p] = q;
        }
    }

    double entry(Index i, std::int64_t p, std::int64_t q) {
        if (p == CONSTANT && q == CONSTANT) return plain_[i];
        if (p == CONSTANT) return sums_.curved(i)[q];
        if (q == CONSTANT) return sums_.curved(i)[p];
        return sums_.gram(i)[(p > q ? p : q) * sums_.pitch + (p > q ? q : p)];
    }

    const Rows& rows_;
    const Index own_row_, room_;
    Integers counts_, sources_, reach_, members_;
    Doubles plain_;
    const Index longest_;
    Gram sums_;
};

}  // namespace

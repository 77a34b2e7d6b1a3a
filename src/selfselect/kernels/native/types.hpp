// Unobserved types under independent normal noise and a known index: one pass over the rows. The
// oracle is `likelihoods/_mixed_boxes.py`.
//
// Type m adds an offset to the location of alternative j, so that a = h c - g'x - offset. Given the
// types, sums are those of the known index, weighted with the chances of the types; the variance of
// the scores over the types comes on top (Louis 1982). A group is a row, or the rows of a person.
//
// Rows are taken a window of whole groups at a time: first the terms of every row under every type,
// then the chances of the types, then the sums. Here the constant is a column like any other, and
// every alternative has a column of its own for -c.
#pragma once

#include "blocks.hpp"

namespace {

using selfselect::Types;
using selfselect::TypeSums;

constexpr Index WINDOW = 8 * BLOCK;  // rows: what is kept of them stays in the second cache

// Which rows of a block enter an alternative, and where their sums end up.
class TypePlan {
   public:
    explicit TypePlan(const Rows& rows)
        : padded(whole_tiles(rows.width + 1)),
          sources_(rows.n_alternatives * padded), places_(rows.n_alternatives * padded),
          slopes_(rows.n_alternatives * padded) {
        const Index limits = rows.n_covariates + 1, zeros = limits + rows.n_alternatives;
        for (Index j = 0; j < rows.n_alternatives; ++j) {
            for (Index p = 0; p < padded; ++p) {
                sources_[j * padded + p] = zeros;
                places_[j * padded + p] = -1;
            }
            for (Index p = 0; p < rows.sizes[j]; ++p)
                place(j, p, rows.columns[j * rows.width + p], p, rows.g[j * rows.width + p]);
            place(j, rows.sizes[j], limits + j, rows.width, rows.h[j]);
        }
    }

    const Index padded;
    Index place_of(Index j, Index p) { return places_[j * padded + p]; }
    void columns(Index j, const double* block, const double** x) {
        for (Index p = 0; p < padded; ++p) x[p] = block + sources_[j * padded + p] * STRIDE;
    }
    const double* slopes(Index j) { return slopes_ + j * padded; }

   private:
    void place(Index j, Index at, std::int64_t source, Index place, double slope) {
        sources_[j * padded + at] = source;
        places_[j * padded + at] = place;
        slopes_[j * padded + at] = slope;
    }
    Integers sources_, places_;
    Doubles slopes_;
};

using Pointers = Numbers<const double*>;

// Add the sums of products of columns with others, both in whole tiles; of the lower triangle only
// where the two lists have the same order.
inline void add_tiles(const double* const* x, Index n_x, const double* const* y, Index n_y,
                      bool lower, double* out, Index pitch) {
    for (Index p = 0; p < n_x; p += TILE)
        for (Index q = 0; q < (lower ? p + TILE : n_y); q += TILE)
            tile(x + p, y + q, out + p * pitch + q, pitch);
}

inline void subtract(const double* __restrict a, const double* __restrict b,
                     double* __restrict out) {
    for (Index r = 0; r < BLOCK; ++r) out[r] = a[r] - b[r];
}

// Minus a product, and added to a sum.
inline void take_product(const double* __restrict a, const double* __restrict b,
                         double* __restrict out, double* __restrict sum) {
    for (Index r = 0; r < BLOCK; ++r) {
        out[r] = -a[r] * b[r];
        sum[r] += out[r];
    }
}

inline void raise(double* __restrict value, double by, double* __restrict largest) {
    for (Index r = 0; r < BLOCK; ++r) {
        value[r] += by;
        largest[r] = value[r] > largest[r] ? value[r] : largest[r];
    }
}

// The terms of rows of an alternative under one type, added to those of the others.
inline void type_terms(const double* __restrict a, const double* __restrict gaps,
                       const double* __restrict densities, const double* __restrict codes,
                       double* __restrict residual, double* __restrict curvature,
                       double* __restrict value) {
    for (Index r = 0; r < BLOCK; ++r) {
        const bool observed = codes[r] == OBSERVED;
        const double turn = codes[r] == BELOW ? 1.0 : -1.0;
        const double counted = codes[r] <= ABOVE ? 1.0 : 0.0;
        const Tail tail = tail_at(turn * a[r], gaps[r], densities[r]);
        residual[r] = counted * (observed ? a[r] : -turn * tail.ratio);
        curvature[r] = counted * (observed ? 1.0 : tail.slope);
        value[r] += counted * (observed ? -0.5 * a[r] * a[r] : tail.log_cdf);
    }
}

// Sums that concern types alone, over the rows or groups of a block. With e_mj the score of type m
// in its offset of alternative j, and e_mk = 1 that in its own weight, they are the variance over
// types of the vectors with e_m in the places of type m and zeros elsewhere.
class TypeBlock {
   public:
    TypeBlock(Index n_types, Index n_scores)
        : count_(n_types), size_(n_scores), scaled_(n_types * n_scores * STRIDE), product_(BLOCK) {}

    // `share` is the weight times the chance `tau` of each type.
    void add(const double* tau, const double* share, const double* scores, double* out) {
        const Index all = count_ * size_;
        for (Index m = 0; m < count_; ++m)
            for (Index j = 0; j < size_; ++j) {
                const Index at = m * size_ + j;
                const double* own = scores + at * STRIDE;
                multiply(share + m * STRIDE, own, product_);
                for (Index i = 0; i <= j; ++i)
                    out[at * all + m * size_ + i] +=
                        weighted_total(product_, scores + (m * size_ + i) * STRIDE);
                multiply(tau + m * STRIDE, own, scaled_ + at * STRIDE);
                for (Index i = 0; i <= at; ++i)
                    out[at * all + i] -= weighted_total(product_, scaled_ + i * STRIDE);
            }
    }

   private:
    Index count_, size_;
    Doubles scaled_, product_;
};

// The variance over types of the scores of groups, a block of groups at a time.
class GroupScores {
   public:
    GroupScores(Index n_types, Index k, TypePlan& plan)
        : count_(n_types), k_(k), wide_(k * plan.padded), narrow_(whole_tiles(k + 1)),
          scores_(n_types * wide_ * STRIDE), weighted_((wide_ > narrow_ ? wide_ : narrow_) * STRIDE),
          own_(n_types * (k + 1) * STRIDE), tau_(n_types * STRIDE), share_(n_types * STRIDE),
          mean_(BLOCK), gram(wide_ * wide_), mixed(n_types * wide_ * narrow_), x_(wide_),
          y_(wide_ > narrow_ ? wide_ : narrow_), block_(n_types, k + 1) {}

    // Where the score of a group under a type in column q of all alternatives is added up.
    double* score(Index m, Index q) { return scores_ + (m * wide_ + q) * STRIDE + filled_; }
    double* own(Index m, Index j) { return own_ + (m * (k_ + 1) + j) * STRIDE + filled_; }

    void close(const double* tau, double weight, double* type_hessian) {
        for (Index m = 0; m < count_; ++m) {
            tau_[m * STRIDE + filled_] = tau[m];
            share_[m * STRIDE + filled_] = weight * tau[m];
            *own(m, k_) = 1.0;
        }
        if (++filled_ == BLOCK) flush(type_hessian);
    }

    void flush(double* type_hessian) {
        if (!filled_) return;
        for (Index q = 0; q < wide_; ++q) {
            fill(mean_, 0.0);
            for (Index m = 0; m < count_; ++m)
                add_product(tau_ + m * STRIDE, scores_ + (m * wide_ + q) * STRIDE, mean_);
            for (Index m = 0; m < count_; ++m) {
                double* one = scores_ + (m * wide_ + q) * STRIDE;
                std::memcpy(weighted_, one, sizeof(double) * BLOCK);
                subtract(weighted_, mean_, one);
            }
        }
        for (Index m = 0; m < count_; ++m) {
            for (Index q = 0; q < wide_; ++q) {
                x_[q] = scores_ + (m * wide_ + q) * STRIDE;
                y_[q] = weighted_ + q * STRIDE;
                multiply(share_ + m * STRIDE, x_[q], weighted_ + q * STRIDE);
            }
            add_tiles(x_, wide_, y_, wide_, true, gram, wide_);
            for (Index j = 0; j < narrow_; ++j) {
                y_[j] = weighted_ + j * STRIDE;
                if (j <= k_)
                    multiply(share_ + m * STRIDE, own_ + (m * (k_ + 1) + j) * STRIDE,
                             weighted_ + j * STRIDE);
                else
                    fill(weighted_ + j * STRIDE, 0.0);
            }
            add_tiles(x_, wide_, y_, narrow_, false, mixed + m * wide_ * narrow_, narrow_);
        }
        block_.add(tau_, share_, own_, type_hessian);
        std::memset(scores_, 0, sizeof(double) * count_ * wide_ * STRIDE);
        std::memset(own_, 0, sizeof(double) * count_ * (k_ + 1) * STRIDE);
        std::memset(tau_, 0, sizeof(double) * count_ * STRIDE);
        std::memset(share_, 0, sizeof(double) * count_ * STRIDE);
        filled_ = 0;
    }

    Index wide() const { return wide_; }
    Index narrow() const { return narrow_; }

   private:
    Index count_, k_, wide_, narrow_, filled_ = 0;
    Doubles scores_, weighted_, own_, tau_, share_, mean_;

   public:
    Doubles gram, mixed;

   private:
    Pointers x_, y_;
    TypeBlock block_;
};

class TypePass {
   public:
    TypePass(const Rows& rows, const Types& types, TypeSums& out)
        : rows_(rows), types_(types), out_(out), k_(rows.n_alternatives), n_types_(types.n_types),
          plan_(rows), padded_(plan_.padded), height_(rows.n_covariates + k_ + 2),
          exact_(types.curvature == 2), curved_(types.curvature > 0),
          grouped_(types.starts != nullptr), capacity_(longest()), pitch_(capacity_ + 8),
          blocks_(capacity_ / BLOCK * height_ * STRIDE), weight_(capacity_),
          residual_(n_types_ * k_ * pitch_), curvature_(n_types_ * k_ * pitch_),
          value_(n_types_ * pitch_), tau_(n_types_ * pitch_), codes_(k_ * BLOCK),
          bounds_(BLOCK), a_(BLOCK), moved_(BLOCK), shifted_(BLOCK), gaps_(BLOCK), densities_(BLOCK),
          share_(n_types_ * STRIDE), chance_(n_types_ * STRIDE), centred_(n_types_ * k_ * STRIDE),
          own_(n_types_ * (k_ + 1) * STRIDE), along_(BLOCK), bend_(BLOCK), product_(BLOCK),
          columns_((whole_tiles(n_types_ * (k_ + 1)) + 1) * STRIDE),
          group_(n_types_ * padded_), weighted_(padded_ * STRIDE),
          score_(k_ * padded_), gram_(k_ * k_ * padded_ * padded_),
          mixed_(k_ * padded_ * whole_tiles(n_types_ * (k_ + 1))), observed_(k_), x_(padded_),
          y_(padded_), z_(whole_tiles(n_types_ * (k_ + 1))), block_(n_types_, k_ + 1),
          groups_(grouped_ && exact_ ? n_types_ : 0, k_, plan_) {}

    bool run(GoOn go_on) {
        const Index n = rows_.n_rows;
        Index group = 0, since = 0;
        for (Index start = 0; start < n;) {
            Index end = start + BLOCK < n ? start + BLOCK : n, next = group;
            if (grouped_) {
                for (end = start; next < types_.n_groups; ++next) {
                    const Index after = end_of(next);
                    if (after - start > WINDOW && end > start) break;
                    end = after;
                }
            }
            since += (end - start) / BLOCK + 1;
            if (since >= BLOCKS_PER_QUESTION) {
                since = 0;
                if (!go_on()) return false;
            }
            for (Index at = start; at < end; at += BLOCK) evaluate(start, at, end);
            if (grouped_)
                mix_groups(start, group, next);
            else
                mix_rows();
            for (Index at = start; at < end; at += BLOCK) add(at - start);
            if (grouped_ && exact_) add_groups(start, group, next);
            start = end;
            group = next;
        }
        if (grouped_ && exact_) groups_.flush(out_.type_hessian);
        scatter();
        return true;
    }

   private:
    Index end_of(Index group) const {
        return group + 1 < types_.n_groups ? types_.starts[group + 1] : rows_.n_rows;
    }

    // Rows of the longest window, in whole blocks.
    Index longest() const {
        Index most = types_.starts ? WINDOW : BLOCK;
        for (Index g = 0; types_.starts && g < types_.n_groups; ++g) {
            const Index size = end_of(g) - types_.starts[g];
            most = size > most ? size : most;
        }
        return (most + BLOCK - 1) / BLOCK * BLOCK;
    }

    double* block_at(Index offset) { return blocks_ + offset / BLOCK * height_ * STRIDE; }
    double* residual(Index m, Index j, Index at) {
        return residual_ + (m * k_ + j) * pitch_ + at;
    }
    double* curvature(Index m, Index j, Index at) {
        return curvature_ + (m * k_ + j) * pitch_ + at;
    }

    // The terms of a block of rows under every type.
    void evaluate(Index window, Index start, Index end) {
        const Index offset = start - window, left = end - start;
        const Index filled = left < BLOCK ? left : BLOCK;
        double* block = block_at(offset);
        std::memset(block, 0, sizeof(double) * height_ * STRIDE);
        fill(block, 1.0);
        load_covariates(rows_, start, filled, block);
        load_codes(rows_, start, filled, codes_);
        fill(weight_ + offset, 0.0);
        load_weights(rows_, start, filled, weight_ + offset);
        for (Index r = filled; r < BLOCK; ++r) weight_[offset + r] = 0.0;
        for (Index m = 0; m < n_types_; ++m) fill(value_ + m * pitch_ + offset, 0.0);
        for (Index j = 0; j < k_; ++j) {
            const double* code = codes_ + j * BLOCK;
            if (j == 0 || rows_.limit.column != 0) load_limit(rows_, j, start, filled, bounds_);
            double* column = block + (rows_.n_covariates + 1 + j) * STRIDE;
            for (Index r = 0; r < BLOCK; ++r) column[r] = code[r] <= ABOVE ? bounds_[r] : 0.0;
            plan_.columns(j, block, x_);
            locate_columns(plan_.slopes(j));
            for (Index r = 0; r < BLOCK; ++r)
                product_[r] = code[r] == OBSERVED ? weight_[offset + r] : 0.0;
            observed_[j] += total(product_);
            for (Index m = 0; m < n_types_; ++m) {
                const double away = types_.offsets[m * k_ + j];
                fill(moved_, away);
                subtract(a_, moved_, shifted_);
                gaps_at(shifted_, gaps_);
                densities_at(shifted_, densities_);
                type_terms(shifted_, gaps_, densities_, code, residual(m, j, offset),
                           curvature(m, j, offset), value_ + m * pitch_ + offset);
            }
        }
    }

    void locate_columns(const double* slopes) {
        double* __restrict a = a_;
        fill(a, 0.0);
        for (Index p = 0; p < padded_; p += TILE) {
            const double *__restrict x0 = x_[p], *__restrict x1 = x_[p + 1];
            const double *__restrict x2 = x_[p + 2], *__restrict x3 = x_[p + 3];
            const double g0 = slopes[p], g1 = slopes[p + 1], g2 = slopes[p + 2], g3 = slopes[p + 3];
            for (Index r = 0; r < BLOCK; ++r)
                a[r] -= (g0 * x0[r] + g1 * x1[r]) + (g2 * x2[r] + g3 * x3[r]);
        }
    }

    // The chances of the types, where each row is a group.
    void mix_rows() {
        double *__restrict largest = along_, *__restrict sum = bend_;
        fill(largest, -__builtin_inf());
        for (Index m = 0; m < n_types_; ++m)
            raise(value_ + m * pitch_, types_.log_prior[m], along_);
        fill(sum, 0.0);
        for (Index m = 0; m < n_types_; ++m)
            add_relative(value_ + m * pitch_, along_, tau_ + m * pitch_, bend_);
        for (Index r = 0; r < BLOCK; ++r)
            product_[r] = weight_[r] != 0.0 ? weight_[r] * (largest[r] + logarithm(sum[r])) : 0.0;
        out_.loglik += total(product_);
        for (Index r = 0; r < BLOCK; ++r) bend_[r] = weight_[r] != 0.0 ? 1.0 / bend_[r] : 0.0;
        for (Index m = 0; m < n_types_; ++m) {
            std::memcpy(product_, tau_ + m * pitch_, sizeof(double) * BLOCK);
            multiply(product_, bend_, tau_ + m * pitch_);
        }
    }

    // The same where groups have several rows; each of them has those of its group.
    void mix_groups(Index window, Index first, Index last) {
        for (Index g = first; g < last; ++g) {
            const Index from = types_.starts[g] - window, to = end_of(g) - window;
            double largest = -__builtin_inf(), sum = 0.0;
            for (Index m = 0; m < n_types_; ++m) {
                double value = types_.log_prior[m];
                for (Index r = from; r < to; ++r) value += value_[m * pitch_ + r];
                chance_[m] = value;
                largest = value > largest ? value : largest;
            }
            for (Index m = 0; m < n_types_; ++m) sum += chance_[m] = exp(chance_[m] - largest);
            const double weight = weight_[from];
            if (weight != 0.0) out_.loglik += weight * (largest + log(sum));
            for (Index m = 0; m < n_types_; ++m) {
                const double tau = weight != 0.0 ? chance_[m] / sum : 0.0;
                out_.type_score[m * (k_ + 1) + k_] += weight * tau;
                for (Index r = from; r < to; ++r) tau_[m * pitch_ + r] = tau;
            }
        }
        // Rows that fill up the last block belong to nobody.
        const Index end = end_of(last - 1) - window;
        for (Index m = 0; m < n_types_; ++m)
            for (Index r = end; r % BLOCK; ++r) tau_[m * pitch_ + r] = 0.0;
    }

    // What a block of rows adds.
    void add(Index offset) {
        const Index size = k_ + 1;
        double* block = block_at(offset);
        for (Index m = 0; m < n_types_; ++m)
            multiply(weight_ + offset, tau_ + m * pitch_ + offset, share_ + m * STRIDE);
        if (!grouped_)
            for (Index m = 0; m < n_types_; ++m)
                out_.type_score[m * size + k_] += total(share_ + m * STRIDE);
        const bool rows_vary = exact_ && !grouped_;
        if (rows_vary) center(offset);
        for (Index j = 0; j < k_; ++j) {
            plan_.columns(j, block, x_);
            fill(along_, 0.0);
            fill(bend_, 0.0);
            for (Index m = 0; m < n_types_; ++m) {
                const double* share = share_ + m * STRIDE;
                multiply(share, residual(m, j, offset), product_);
                out_.type_score[m * size + j] += total(product_);
                add_product(share, residual(m, j, offset), along_);
                if (!curved_) continue;
                double* column = columns_ + (m * size + j) * STRIDE;
                take_product(share, curvature(m, j, offset), column, bend_);
                const Index at = m * size + j;
                out_.type_hessian[at * n_types_ * size + at] += total(column);
                if (!rows_vary) continue;
                const double* apart = centred_ + (m * k_ + j) * STRIDE;
                multiply(share, apart, product_);
                for (Index i = 0; i < size; ++i) {
                    double* mixed = columns_ + (m * size + i) * STRIDE;
                    if (i != j) fill(mixed, 0.0);
                    add_product(product_, own_ + (m * size + i) * STRIDE, mixed);
                }
                add_product(product_, apart, bend_);
            }
            const double* weights = along_;
            for (Index p = 0; p < padded_; p += TILE)
                tile_part<1>(x_ + p, &weights, score_ + j * padded_ + p, 1);
            if (!curved_) continue;
            add_gram(block, j, j, bend_);
            if (rows_vary) {
                const Index all = whole_tiles(n_types_ * size);
                for (Index t = 0; t < all; ++t) z_[t] = columns_ + t * STRIDE;
                add_tiles(x_, padded_, z_, all, false, mixed_ + j * padded_ * all, all);
            } else {
                const Index all = whole_tiles(n_types_);
                for (Index t = 0; t < all; ++t)
                    // The last column is zero.
                    z_[t] = columns_ + (t < n_types_ ? t * size + j : whole_tiles(n_types_ * size)) * STRIDE;
                add_tiles(x_, padded_, z_, all, false, mixed_ + j * padded_ * all, all);
            }
            for (Index other = 0; rows_vary && other < j; ++other) {
                fill(bend_, 0.0);
                for (Index m = 0; m < n_types_; ++m) {
                    multiply(share_ + m * STRIDE, centred_ + (m * k_ + j) * STRIDE, product_);
                    add_product(product_, centred_ + (m * k_ + other) * STRIDE, bend_);
                }
                add_gram(block, j, other, bend_);
            }
        }
        if (rows_vary) {
            for (Index m = 0; m < n_types_; ++m)
                std::memcpy(chance_ + m * STRIDE, tau_ + m * pitch_ + offset,
                            sizeof(double) * BLOCK);
            block_.add(chance_, share_, own_, out_.type_hessian);
        }
    }

    // The scores of rows in locations less their means over the types, and as they are.
    void center(Index offset) {
        for (Index j = 0; j < k_; ++j) {
            fill(product_, 0.0);
            for (Index m = 0; m < n_types_; ++m)
                add_product(tau_ + m * pitch_ + offset, residual(m, j, offset), product_);
            for (Index m = 0; m < n_types_; ++m) {
                const double* from = residual(m, j, offset);
                subtract(from, product_, centred_ + (m * k_ + j) * STRIDE);
                std::memcpy(own_ + (m * (k_ + 1) + j) * STRIDE, from, sizeof(double) * BLOCK);
            }
        }
        for (Index m = 0; m < n_types_; ++m) fill(own_ + (m * (k_ + 1) + k_) * STRIDE, 1.0);
    }

    // Add the sum of `weights` times the columns of two alternatives; those of j are in x already.
    void add_gram(const double* block, Index j, Index other, const double* weights) {
        Pointers& columns = y_;
        plan_.columns(other, block, columns);
        for (Index p = 0; p < padded_; ++p) {
            multiply(weights, columns[p], weighted_ + p * STRIDE);
            columns[p] = weighted_ + p * STRIDE;
        }
        add_tiles(x_, padded_, columns, padded_, j == other,
                  gram_ + (j * k_ + other) * padded_ * padded_, padded_);
    }

    // The scores of a window's groups.
    void add_groups(Index window, Index first, Index last) {
        Doubles& row = weighted_;
        for (Index g = first; g < last; ++g) {
            const Index from = types_.starts[g] - window, to = end_of(g) - window;
            for (Index j = 0; j < k_; ++j) {
                for (Index i = 0; i < n_types_ * padded_; ++i) group_[i] = 0.0;
                for (Index r = from; r < to; ++r) {
                    if (r == from || r % BLOCK == 0) plan_.columns(j, block_at(r), x_);
                    for (Index p = 0; p < padded_; ++p) row[p] = x_[p][r % BLOCK];
                    for (Index m = 0; m < n_types_; ++m) {
                        const double one = *residual(m, j, r);
                        double* __restrict to_sum = group_ + m * padded_;
                        const double* __restrict z = row;
                        for (Index p = 0; p < padded_; ++p) to_sum[p] += one * z[p];
                        *groups_.own(m, j) += one;
                    }
                }
                for (Index m = 0; m < n_types_; ++m)
                    for (Index p = 0; p < padded_; ++p)
                        *groups_.score(m, j * padded_ + p) = group_[m * padded_ + p];
            }
            for (Index m = 0; m < n_types_; ++m) chance_[m] = tau_[m * pitch_ + from];
            groups_.close(chance_, weight_[from], out_.type_hessian);
        }
    }

    // Put all sums in their places.
    void scatter() {
        const Index side = rows_.width + 1, size = k_ + 1, all = n_types_ * size;
        const bool rows_vary = exact_ && !grouped_;
        for (Index j = 0; j < k_; ++j)
            for (Index p = 0; p < padded_; ++p) {
                const Index place = plan_.place_of(j, p);
                if (place < 0) continue;
                out_.score[j * side + place] = score_[j * padded_ + p];
                if (!curved_) continue;
                double* mixed = out_.mixed + (j * side + place) * all;
                const Index pitch = whole_tiles(rows_vary ? all : n_types_);
                const double* from = mixed_ + (j * padded_ + p) * pitch;
                if (rows_vary)
                    for (Index t = 0; t < all; ++t) mixed[t] = from[t];
                else
                    for (Index m = 0; m < n_types_; ++m) mixed[m * size + j] = from[m];
                for (Index m = 0; grouped_ && exact_ && m < n_types_; ++m)
                    for (Index i = 0; i < size; ++i)
                        mixed[m * size + i] +=
                            groups_.mixed[(m * groups_.wide() + j * padded_ + p) * groups_.narrow() +
                                          i];
                for (Index other = 0; other <= j; ++other)
                    for (Index q = 0; q < padded_; ++q) {
                        const Index there = plan_.place_of(other, q);
                        if (there < 0 || (other == j && q > p)) continue;
                        double sum = gram_[((j * k_ + other) * padded_ + p) * padded_ + q];
                        if (grouped_ && exact_)
                            sum += groups_.gram[(j * padded_ + p) * groups_.wide() +
                                                other * padded_ + q];
                        const Index row = j * side + place, column = other * side + there;
                        out_.hessian[row * k_ * side + column] = sum;
                        out_.hessian[column * k_ * side + row] = sum;
                    }
            }
        for (Index j = 0; j < k_; ++j) {
            if (observed_[j] == 0.0) continue;
            const double h = rows_.h[j];
            const Index at = j * side + rows_.width;
            out_.score[at] += observed_[j] / h;
            if (curved_) out_.hessian[at * k_ * side + at] -= observed_[j] / (h * h);
            out_.loglik += observed_[j] * (log(h) - HALF_LOG_TWO_PI);
        }
        for (Index t = 0; t < all; ++t)
            for (Index i = 0; i < t; ++i)
                out_.type_hessian[i * all + t] = out_.type_hessian[t * all + i];
    }

    const Rows& rows_;
    const Types& types_;
    TypeSums& out_;
    Index k_, n_types_;
    TypePlan plan_;
    Index padded_, height_;
    bool exact_, curved_, grouped_;
    Index capacity_, pitch_;
    Doubles blocks_, weight_, residual_, curvature_, value_, tau_, codes_, bounds_, a_, moved_, shifted_, gaps_,
        densities_, share_, chance_, centred_, own_, along_, bend_, product_, columns_, group_, weighted_,
        score_, gram_, mixed_, observed_;
    Pointers x_, y_, z_;
    TypeBlock block_;
    GroupScores groups_;
};

bool sum_types(const Rows& rows, const Types& types, TypeSums& out, GoOn go_on) {
    return TypePass(rows, types, out).run(go_on);
}

}  // namespace

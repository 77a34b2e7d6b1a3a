// Unknown index, independent noise that is not normal: one pass over the rows. The oracle is the mixture
// of atoms in `_pieces.py`, by the terms of `noises/shapes/`.
//
// Alternative j has the logarithms O of its density and T of its tail, and parameters of its own: its
// a, t = log h, and those of its shape. With D = t + O - T a row adds the sum of all T and the log-sum of
// all exp(D), whose shares s say who may have been chosen. Its derivatives are
//
//     in those of j            (1 - s) T' + s O',      (1 - s) T'' + s O'' + s (1 - s) D' D'
//     in those of j and of l                           - s_j s_l D_j' D_l'
//
// where t counts as part of O. Shapes with parameters give O'' and T'' less products of O' and T'; with
// these, second derivatives in parameters of j's shape are (1 - s) T'' + s O'' less the product of the
// first ones. Where all alternatives have one shape, its sums are those of all added up.
#pragma once

#include "mixture.hpp"
#include "pairs.hpp"
#include "shapes.hpp"
#include "student.hpp"
#include "unknown.hpp"

namespace {

using selfselect::JointSums;
using selfselect::UnknownNoise;

// D of an alternative that is closed to a row: far below all others.
constexpr double NEVER = -1e300;

// So many objects made of one argument.
template <class T>
class Several {
   public:
    template <class Given>
    Several(Index count, const Given& given) : Several(count) {
        for (Index i = 0; i < count; ++i) items_[i] = new T(given);
    }
    Several(const Several&) = delete;
    Several& operator=(const Several&) = delete;
    ~Several() {
        for (Index i = 0; i < count_; ++i) delete items_[i];
        delete[] items_;
    }
    T& operator[](Index i) { return *items_[i]; }

   private:
    explicit Several(Index count) : count_(count), items_(new T*[count]()) {}
    const Index count_;
    T** items_;
};

// One alternative's log-densities, or log-tails, of a block: as codes say.
class SideTerms {
   public:
    explicit SideTerms(const UnknownNoise& noise)
        : value(BLOCK), slope(BLOCK), bend(BLOCK), noise_(noise), mixture_(noise.n_components),
          student_(TILE), ones_(BLOCK), unused_(BLOCK) {
        fill(ones_, 1.0);
    }

    // The logarithm and its first two derivatives in a.
    Doubles value, slope, bend;

    // Derivatives in a parameter of the shape, and in a and that.
    const double* by(Index i) { return mixed_up() ? mixture_.by + i * STRIDE : student_.by; }
    const double* mixed(Index i) { return mixed_up() ? mixture_.mixed + i * STRIDE : student_.mixed; }

    void evaluate(Index which, const double* a, const double* codes, bool curved) {
        if (mixed_up()) {
            mixture_.evaluate(a, codes, noise_.components + which * mixture_.width);
            if (curved) mixture_.bend();
            std::memcpy(value, mixture_.value, sizeof(double) * BLOCK);
            std::memcpy(slope, mixture_.along, sizeof(double) * BLOCK);
            std::memcpy(bend, mixture_.bent, sizeof(double) * BLOCK);
            return;
        }
        if (noise_.shape == Shape::STUDENT) {
            student_.evaluate(noise_.student, which, a, codes, ones_, slope, bend, value, unused_);
            if (noise_.n_inner) student_.differentiate(noise_.student, which, a, codes, ones_);
        } else {
            const auto terms = noise_.shape == Shape::LOGISTIC ? shape_terms<logistic_at>
                               : noise_.shape == Shape::GUMBEL ? shape_terms<gumbel_at>
                                                               : shape_terms<gumbel_min_at>;
            terms(a, codes, ones_, slope, bend, value, unused_);
        }
        turn(slope);
        turn(bend);
    }

    // Add weighted sums of second derivatives in the shape's parameters, plus products of first ones:
    // the upper triangle.
    void add_own(const double* weight, double* own) {
        if (mixed_up()) {
            mixture_.add_own(weight, own);
        } else if (noise_.n_inner) {
            double* __restrict out = unused_;
            const double *__restrict twice = student_.twice, *__restrict by = student_.by;
            for (Index r = 0; r < BLOCK; ++r) out[r] = twice[r] + by[r] * by[r];
            own[0] += weighted_total(unused_, weight);
        }
    }

   private:
    bool mixed_up() const { return noise_.shape == Shape::MIXTURE; }
    static void turn(double* terms) {
        for (Index r = 0; r < BLOCK; ++r) terms[r] = -terms[r];
    }

    const UnknownNoise& noise_;
    MixtureBlock mixture_;
    StudentBlock student_;
    Doubles ones_, unused_;
};

// ---- the loops over the rows of a block ----------------------------------------------------------

// What an open alternative is asked: its density and its tail. A closed one says nothing anywhere.
inline void ask_both(const double* __restrict codes, double tail, double* __restrict a,
                     double* __restrict of_density, double* __restrict of_tail) {
    for (Index r = 0; r < BLOCK; ++r) {
        const bool open = codes[r] == MAYBE;
        of_density[r] = open ? OBSERVED : UNKNOWN;
        of_tail[r] = open ? tail : UNKNOWN;
        a[r] = open ? a[r] : 0.0;
    }
}

// D of an alternative; the largest so far, and the sum of the T.
inline void take_lead(const double* __restrict a, const double* __restrict codes,
                      const double* __restrict density, const double* __restrict tail, double level,
                      double* __restrict lead, double* __restrict top, double* __restrict value) {
    for (Index r = 0; r < BLOCK; ++r) {
        const double ahead = level + density[r] - tail[r];
        lead[r] = codes[r] == MAYBE ? ahead : NEVER;
        top[r] = lead[r] > top[r] ? lead[r] : top[r];
        // What is no number, or infinite, has to show in the sum.
        value[r] += tail[r] + 0.0 * (ahead + a[r]);
    }
}

inline void conclude_shares(const double* __restrict top, double* __restrict total,
                            double* __restrict value) {
    for (Index r = 0; r < BLOCK; ++r) {
        value[r] += top[r] + logarithm(total[r]);
        total[r] = 1.0 / total[r];
    }
}

// Weigh the sides of an alternative, and an array of either: (1 - s) of the tail and s of the density.
inline void weigh_sides(const double* __restrict weight, const double* __restrict share,
                        const double* __restrict rest, double* __restrict of_density,
                        double* __restrict of_tail) {
    for (Index r = 0; r < BLOCK; ++r) {
        of_density[r] = weight[r] * share[r];
        of_tail[r] = weight[r] * rest[r];
    }
}

inline void mix_sides(const double* __restrict of_density, const double* __restrict density,
                      const double* __restrict of_tail, const double* __restrict tail,
                      double sign, double* __restrict out) {
    for (Index r = 0; r < BLOCK; ++r)
        out[r] = sign * (of_density[r] * density[r] + of_tail[r] * tail[r]);
}

// s D' of an alternative in a, or in a parameter of its shape.
inline void pull_apart(const double* __restrict share, const double* __restrict density,
                       const double* __restrict tail, double* __restrict out) {
    for (Index r = 0; r < BLOCK; ++r) out[r] = share[r] * (density[r] - tail[r]);
}

// Subtract s (1 - s) D' D', of which one s D' is given.
inline void less_apart(const double* __restrict of_tail, const double* __restrict pull,
                       const double* __restrict density, const double* __restrict tail,
                       double* __restrict out) {
    for (Index r = 0; r < BLOCK; ++r)
        out[r] -= of_tail[r] * (pull[r] * (density[r] - tail[r]));
}

// ---- the pass ------------------------------------------------------------------------------------

// Sums of products: of the parameters of each alternative, and of those of two. The last one of an
// alternative is t, in which D has the slope one.
class ShapeProducts {
   public:
    ShapeProducts(Index n_alternatives, Index n_inner)
        : k_(n_alternatives), m_(n_inner), side_(whole_tiles(n_inner + 1)),
          of_one_(k_ * side_ * side_), of_two_(k_ * k_ * side_ * side_), with_t_(k_ * side_) {}

    double* of_one(Index j) { return of_one_ + j * side_ * side_; }
    double* of_two(Index j, Index l) { return of_two_ + (j * k_ + l) * side_ * side_; }
    double* with_t(Index j) { return with_t_ + j * side_; }
    Index pitch() const { return side_; }

    // Second derivatives in t_j and a parameter of l, t_l being its last.
    double at_t(Index j, Index l, Index i) {
        if (j == l) return with_t(j)[i];
        return -(j < l ? of_two(j, l)[m_ * side_ + i] : of_two(l, j)[i * side_ + m_]);
    }

   private:
    const Index k_, m_, side_;
    Doubles of_one_, of_two_, with_t_;
};

bool sum_unknown_shapes(const Rows& rows, const UnknownNoise& noise, bool curved, JointSums& out,
                        GoOn go_on) {
    const Index k = rows.n_alternatives, limit_row = rows.n_covariates + 1;
    const Index m = noise.n_inner, n_extras = noise.n_sets * m;
    // Behind a tile of zeros each alternative has its -c once more: pairs tell them apart.
    const Index own_row = limit_row + 1 + TILE, height = own_row + k;
    const Index n_added = n_extras + k, n_factors = k * n_added, pitch = n_factors + TILE;
    const Index room = whole_tiles(m + 1);
    Plan plan(rows, 1.0);
    Gram sums(k, plan.padded);
    Pairs pairs(rows, own_row, curved);
    ShapeProducts products(k, m);
    Several<SideTerms> density(k, noise), tail(k, noise);
    Doubles block((height + TILE) * STRIDE), codes(k * BLOCK), weight(BLOCK), a(BLOCK);
    Doubles asked_density(BLOCK), asked_tail(BLOCK), top(BLOCK), sum(BLOCK), value(BLOCK);
    Doubles leads(k * STRIDE), relative(k * STRIDE), shares(k * STRIDE), rest(BLOCK), weighted(BLOCK), residual(BLOCK), curvature(BLOCK);
    Doubles of_density(k * STRIDE), of_tail(k * STRIDE), slopes(room * STRIDE), pulls(k * STRIDE);
    Doubles apart(k * room * STRIDE), scaled(room * STRIDE);
    Doubles factors(pitch * STRIDE), with_rows((height + TILE) * pitch), mixed_plain(n_factors);
    Doubles plain(k), plain_curved(k), observed(k), own(noise.n_sets * m * m);
    const auto set = [&](Index j) { return noise.n_sets > 1 ? j : 0; };
    // Where parameter i of alternative j stands among those that are added: t behind all others.
    const auto added_at = [&](Index j, Index i) { return i < m ? set(j) * m + i : n_extras + j; };
    double loglik = 0.0;

    for (Index start = 0, number = 1; start < rows.n_rows; start += BLOCK, ++number) {
        if (number % (BLOCKS_PER_QUESTION / 16) == 0 && !go_on()) return false;
        const Index filled = load_block(rows, start, height + TILE, block, codes, weight);
        double* limit = block + limit_row * STRIDE;
        load_limit(rows, 0, start, filled, limit);
        close_rows(codes, k, limit, weight);
        fill(top, NEVER);
        fill(sum, 0.0);
        fill(value, 0.0);
        for (Index j = 0; j < k; ++j) {
            const double* code = codes + j * BLOCK;
            std::memcpy(block + (own_row + j) * STRIDE, limit, sizeof(double) * BLOCK);
            locate(block, plan, j, a);
            ask_both(code, noise.side > 0.0 ? BELOW : ABOVE, a, asked_density, asked_tail);
            density[j].evaluate(set(j), a, asked_density, curved);
            tail[j].evaluate(set(j), a, asked_tail, curved);
            take_lead(a, code, density[j].value, tail[j].value, log(rows.h[j]), leads + j * STRIDE,
                      top, value);
        }
        for (Index j = 0; j < k; ++j)
            add_relative(leads + j * STRIDE, top, relative + j * STRIDE, sum);
        conclude_shares(top, sum, value);
        for (Index j = 0; j < k; ++j) multiply(relative + j * STRIDE, sum, shares + j * STRIDE);
        loglik += weighted_total(value, weight);

        if (curved) std::memset(factors, 0, sizeof(double) * n_factors * STRIDE);
        for (Index j = 0; j < k; ++j) {
            SideTerms &at = density[j], &beyond = tail[j];
            const double* share = shares + j * STRIDE;
            double *chosen = of_density + j * STRIDE, *passed = of_tail + j * STRIDE;
            // Not 1 - s: what it multiplies may be large where s rounds to one.
            fill(rest, 0.0);
            for (Index l = 0; l < k; ++l)
                if (l != j) add_scaled(shares + l * STRIDE, 1.0, rest);
            weigh_sides(weight, share, rest, chosen, passed);
            mix_sides(chosen, at.slope, passed, beyond.slope, -1.0, residual);
            plain[j] += total(residual);
            observed[j] += total(chosen);
            for (Index i = 0; i < m; ++i)
                out.score[set(j) * m + i] +=
                    weighted_total(at.by(i), chosen) + weighted_total(beyond.by(i), passed);
            if (!curved) {
                sums.add_scores(j, block, plan.sources(j), plan.tiled(j), residual);
                continue;
            }
            double* pull = pulls + j * STRIDE;
            pull_apart(share, at.slope, beyond.slope, pull);
            mix_sides(chosen, at.bend, passed, beyond.bend, -1.0, curvature);
            less_apart(passed, pull, at.slope, beyond.slope, curvature);
            plain_curved[j] += total(curvature);
            sums.add(j, block, plan.sources(j), plan.tiled(j), nullptr, curvature, residual);

            at.add_own(chosen, own + set(j) * m * m);
            beyond.add_own(passed, own + set(j) * m * m);
            double* mine = apart + j * room * STRIDE;
            for (Index i = 0; i < m; ++i) {
                double* factor = factors + (j * n_added + added_at(j, i)) * STRIDE;
                mix_sides(share, at.by(i), rest, beyond.by(i), 1.0, slopes + i * STRIDE);
                multiply(weight, slopes + i * STRIDE, scaled + i * STRIDE);
                pull_apart(share, at.by(i), beyond.by(i), mine + i * STRIDE);
                mix_sides(chosen, at.mixed(i), passed, beyond.mixed(i), -1.0, factor);
                less_apart(passed, mine + i * STRIDE, at.slope, beyond.slope, factor);
                products.with_t(j)[i] += weighted_total(mine + i * STRIDE, passed);
            }
            tiles(scaled, m, slopes, m, products.of_one(j), products.pitch());
            std::memcpy(mine + m * STRIDE, share, sizeof(double) * BLOCK);
            products.with_t(j)[m] += weighted_total(share, passed);
            weigh(passed, pull, -1.0, factors + (j * n_added + added_at(j, m)) * STRIDE);
        }
        if (!curved) continue;
        for (Index j = 0; j < k; ++j) {
            const double* pull = pulls + j * STRIDE;
            multiply(weight, pull, weighted);
            for (Index l = 0; l < k; ++l) {
                if (l == j) continue;
                const double* other = apart + l * room * STRIDE;
                for (Index i = 0; i <= m; ++i)
                    add_product(weighted, other + i * STRIDE,
                                factors + (j * n_added + added_at(l, i)) * STRIDE);
                if (l < j) continue;
                for (Index i = 0; i <= m; ++i)
                    multiply(weight, other + i * STRIDE, scaled + i * STRIDE);
                tiles(apart + j * room * STRIDE, m + 1, scaled, m + 1, products.of_two(j, l),
                      products.pitch());
            }
        }
        for (Index i = 0; i < pairs.count; ++i) {
            pair_weights(pulls + pairs.first(i) * STRIDE, pulls + pairs.second(i) * STRIDE, weight,
                         curvature);
            pairs.add(i, block, curvature);
        }
        for (Index f = 0; f < n_factors; ++f) mixed_plain[f] += total(factors + f * STRIDE);
        tiles(block, limit_row + 1, factors, n_factors, with_rows, pitch);
    }

    out.own.loglik = loglik;
    for (Index j = 0; j < k; ++j)
        scatter_score(rows, plan, j, plain[j], sums.score(j), observed[j], out.own.score);
    if (!curved) return true;
    const Index side = rows.width + 1, last = rows.width;
    for (Index j = 0; j < k; ++j)
        scatter_hessian(rows, plan, j, plain_curved[j], sums.curved(j), sums.gram(j), sums.pitch,
                        observed[j], out.own.hessian);
    pairs.scatter(out.own.cross);
    const auto own_block = [&](Index j, Index p, Index l, Index q) -> double& {
        return j == l ? out.own.hessian[(j * side + p) * side + q]
                      : out.own.cross[((j * side + p) * k + l) * side + q];
    };
    // Second derivatives in what is added and in (g, h) of an alternative, by its places.
    const auto each_place = [&](Index j, const auto& put) {
        for (Index p = 0; p < plan.tiled(j); ++p)
            put(plan.places(j)[p], with_rows + plan.sources(j)[p] * pitch + j * n_added);
        if (plan.constant(j) >= 0) put(plan.constant(j), mixed_plain + j * n_added);
    };
    for (Index j = 0; j < k; ++j) {
        each_place(j, [&](Index place, const double* from) {
            double* mixed = out.mixed + (j * side + place) * n_extras;
            for (Index e = 0; e < n_extras; ++e) mixed[e] += from[e];
        });
        const double turn = 1.0 / rows.h[j];
        for (Index l = 0; l < k; ++l) {
            const auto put = [&](Index place, const double* from) {
                own_block(j, last, l, place) += turn * from[n_extras + j];
                own_block(l, place, j, last) += turn * from[n_extras + j];
            };
            each_place(l, put);
            own_block(j, last, l, last) += turn * products.at_t(j, l, m) / rows.h[l];
            for (Index i = 0; i < m; ++i)
                out.mixed[(j * side + last) * n_extras + set(l) * m + i] +=
                    turn * products.at_t(j, l, i);
        }
        // Of shapes' parameters: those of j, then those of j and of others.
        const double* mine = own + set(j) * m * m;
        const bool first = noise.n_sets > 1 || j == 0;
        for (Index i = 0; i < m; ++i) {
            double* row = out.hessian + (set(j) * m + i) * n_extras;
            for (Index e = 0; e < m; ++e) {
                if (first) row[set(j) * m + e] += i < e ? mine[i * m + e] : mine[e * m + i];
                row[set(j) * m + e] -= products.of_one(j)[i * products.pitch() + e];
                for (Index l = 0; l < k; ++l)
                    if (l != j)
                        row[set(l) * m + e] -= j < l ? products.of_two(j, l)[i * products.pitch() + e]
                                                     : products.of_two(l, j)[e * products.pitch() + i];
            }
        }
    }
    return true;
}

}  // namespace

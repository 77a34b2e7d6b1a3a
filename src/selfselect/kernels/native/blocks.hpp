// Blocks of rows: how the kernels load them, and what all of them add up.
//
// Rows are taken BLOCK at a time. A block is copied, standardised and transposed, into a buffer that
// stays in the nearest caches; every loop after that runs over the rows of the block, in arrays that
// are contiguous and of a length known to the compiler, so all of them become vector instructions
// without remainders. A short last block is filled up with rows that say nothing.
//
// With the limit as one more column, z = (x, -c), an alternative's row has a = -(g, h)'z and adds
// r z to the score and -d z z' to the Hessian. The Gram matrix of z and d z is built by its lower
// triangle, four columns against four at a time, so that sixteen sums stay in registers and a loaded
// number is used four times.
//
// Sums run over LANES numbers side by side and are added up in a fixed order. All names here are
// local to the file that includes them: each instruction set has functions of its own.
#pragma once

#include <new>

#include "interface.hpp"
#include "normal.hpp"

namespace {

using selfselect::GoOn;
using selfselect::Index;
using selfselect::Moving;
using selfselect::Rows;
using selfselect::Shape;
using selfselect::Sums;

// The codes of `status.py`, as doubles: they are compared beside doubles, and the oldest processors
// compare no other numbers as wide.
constexpr double OBSERVED = 0, BELOW = 1, ABOVE = 2, BETWEEN = 3, UNKNOWN = 4, MAYBE = 5;

constexpr Index BLOCK = 256;          // rows: columns of 2 KiB, eight of which fill half an L1 cache
constexpr Index STRIDE = BLOCK + 8;   // distance of two columns: a power of two would map them all
                                      // to the same few cache sets
constexpr Index TILE = 4;             // columns per side of a Gram tile
constexpr Index BLOCKS_PER_QUESTION = 512;  // after which a kernel asks whether to go on

#if defined(__AVX512F__)
constexpr int LANES = 8;
constexpr Index TILE_AT_ONCE = 4;  // columns whose sums fit into the registers
#elif defined(__AVX__)
constexpr int LANES = 4;
constexpr Index TILE_AT_ONCE = 2;
#else
constexpr int LANES = 2;
constexpr Index TILE_AT_ONCE = 2;
#endif

typedef double Lanes __attribute__((vector_size(8 * LANES), may_alias));
typedef double Eight __attribute__((vector_size(64), aligned(8), may_alias));

inline Lanes lanes(const double* from) { return *reinterpret_cast<const Lanes*>(from); }

inline double added(Lanes sum) {
    double result = 0.0;
    for (int i = 0; i < LANES; ++i) result += sum[i];
    return result;
}

// Numbers in memory that begins at a cache line, zero at first.
template <class T>
class Numbers {
   public:
    explicit Numbers(Index count)
        : data_(static_cast<T*>(::operator new(sizeof(T) * count + 64, std::align_val_t(64)))) {
        std::memset(static_cast<void*>(data_), 0, sizeof(T) * count + 64);
    }
    Numbers(const Numbers&) = delete;
    Numbers& operator=(const Numbers&) = delete;
    ~Numbers() { ::operator delete(data_, std::align_val_t(64)); }
    operator T*() { return data_; }

   private:
    T* data_;
};

using Doubles = Numbers<double>;
using Integers = Numbers<std::int64_t>;

inline void fill(double* array, double value) {
    for (Index r = 0; r < BLOCK; ++r) array[r] = value;
}

// The columns of as many tiles as hold so many.
inline Index whole_tiles(Index count) { return (count + TILE - 1) / TILE * TILE; }

// ---- arithmetic of columns of a block ------------------------------------------------------------

inline void multiply(const double* __restrict a, const double* __restrict b,
                     double* __restrict out) {
    for (Index r = 0; r < BLOCK; ++r) out[r] = a[r] * b[r];
}

inline void add_product(const double* __restrict a, const double* __restrict b,
                        double* __restrict out) {
    for (Index r = 0; r < BLOCK; ++r) out[r] += a[r] * b[r];
}

// Add the terms of chances to their sum.
inline void add_relative(const double* __restrict value, const double* __restrict largest,
                         double* __restrict tau, double* __restrict sum) {
    for (Index r = 0; r < BLOCK; ++r) {
        tau[r] = exponential(value[r] - largest[r]);
        sum[r] += tau[r];
    }
}

// ---- loading -------------------------------------------------------------------------------------

// Copy, standardise and transpose the covariates into rows 1, 2, ... of the block.
inline void load_covariates(const Rows& rows, Index start, Index filled, double* block) {
    const Index along = rows.covariates.row, across = rows.covariates.column;
    const double* first = rows.covariates.data + start * along;
    const Index size = rows.n_covariates;
    if (along == 1) {
        for (Index q = 0; q < size; ++q) {
            const double middle = rows.shift[q + 1], factor = rows.scale[q + 1];
            const double* from = first + q * across;
            double* to = block + (q + 1) * STRIDE;
            for (Index r = 0; r < filled; ++r) to[r] = (from[r] - middle) * factor;
        }
        return;
    }
    Index r = 0;
    for (; r + 8 <= filled; r += 8) {
        const double* from = first + r * along;
        for (Index q = 0; q < size; ++q, from += across) {
            const Eight values = {from[0],         from[along],     from[2 * along],
                                  from[3 * along], from[4 * along], from[5 * along],
                                  from[6 * along], from[7 * along]};
            *reinterpret_cast<Eight*>(block + (q + 1) * STRIDE + r) =
                (values - rows.shift[q + 1]) * rows.scale[q + 1];
        }
    }
    for (; r < filled; ++r)
        for (Index q = 0; q < size; ++q)
            block[(q + 1) * STRIDE + r] =
                (first[r * along + q * across] - rows.shift[q + 1]) * rows.scale[q + 1];
}

// Copy and transpose the codes; rows beyond the last say nothing.
inline void load_codes(const Rows& rows, Index start, Index filled, double* codes) {
    for (Index j = 0; j < rows.n_alternatives; ++j) {
        const std::int8_t* from =
            rows.status.data + start * rows.status.row + j * rows.status.column;
        double* to = codes + j * BLOCK;
        for (Index r = 0; r < filled; ++r) to[r] = from[r * rows.status.row];
        for (Index r = filled; r < BLOCK; ++r) to[r] = UNKNOWN;
    }
}

// Copy -c of one alternative, standardised.
inline void load_limit(const Rows& rows, Index j, Index start, Index filled, double* bounds) {
    const double* from = rows.limit.data + start * rows.limit.row + j * rows.limit.column;
    for (Index r = 0; r < filled; ++r)
        bounds[r] = (rows.limit_shift - from[r * rows.limit.row]) * rows.limit_scale;
}

inline void load_weights(const Rows& rows, Index start, Index filled, double* weight) {
    if (!rows.weights.data) {
        fill(weight, 1.0);
        return;
    }
    const double* from = rows.weights.data + start * rows.weights.row;
    for (Index r = 0; r < filled; ++r) weight[r] = from[r * rows.weights.row];
    for (Index r = filled; r < BLOCK; ++r) weight[r] = 0.0;
}

// Load the rows of a block from `start` on, limits aside, and return how many there are. Where they do
// not fill it, `height` columns are zero below them.
inline Index load_block(const Rows& rows, Index start, Index height, double* block, double* codes,
                        double* weight) {
    const Index left = rows.n_rows - start, filled = left < BLOCK ? left : BLOCK;
    if (filled < BLOCK) std::memset(block, 0, sizeof(double) * height * STRIDE);
    load_covariates(rows, start, filled, block);
    load_codes(rows, start, filled, codes);
    load_weights(rows, start, filled, weight);
    return filled;
}

// Asks for some of the next block while this one is computed. Blocks are read in bursts, and between
// two bursts the hardware forgets what it was streaming.
class Ahead {
   public:
    Ahead(const Rows& rows, Index start, Index portions) : data_(rows.covariates.data) {
        const bool flat = rows.covariates.column == 1 && rows.covariates.row == rows.n_covariates;
        at_ = (start + BLOCK) * rows.n_covariates;
        end_ = flat ? (start + 2 * BLOCK) * rows.n_covariates : 0;
        const Index last = rows.n_rows * rows.n_covariates;
        end_ = end_ < last ? end_ : last;
        portion_ = BLOCK * rows.n_covariates / portions + 1;
    }
    void ask() {
        const Index stop = at_ + portion_ < end_ ? at_ + portion_ : end_;
        for (Index i = at_; i < stop; i += 8) __builtin_prefetch(data_ + i, 0, 2);
        at_ += portion_;
    }

   private:
    const double* data_;
    Index at_, end_, portion_;
};

// ---- which columns enter an alternative ----------------------------------------------------------

// Lists per alternative which rows of the block enter the tiles, and where they end up. The block's
// rows are its columns: the covariates from 1 on, then -c, then zeros that fill up the last tile.
// The constant does not enter: its sums come for nothing elsewhere. Parameters are taken `side`
// times, and so is a.
class Plan {
   public:
    Plan(const Rows& rows, double side)
        : padded(rows.width + 1 + TILE),
          sources_(rows.n_alternatives * padded),
          places_(rows.n_alternatives * padded),
          tiled_(rows.n_alternatives),
          constant_(rows.n_alternatives),
          slopes_(rows.n_alternatives * padded),
          intercepts_(rows.n_alternatives) {
        for (Index j = 0; j < rows.n_alternatives; ++j) {
            Index count = 0;
            constant_[j] = -1;
            for (Index p = 0; p < rows.sizes[j]; ++p) {
                const std::int64_t column = rows.columns[j * rows.width + p];
                const double slope = side * rows.g[j * rows.width + p];
                if (column == 0) {
                    constant_[j] = p;
                    intercepts_[j] = slope;
                } else {
                    place(j, count++, column, p, slope);
                }
            }
            place(j, count++, rows.n_covariates + 1, rows.width, side * rows.h[j]);
            tiled_[j] = count;
            for (Index p = count; p < padded; ++p) sources(j)[p] = rows.n_covariates + 2;
        }
    }

    const Index padded;
    std::int64_t* sources(Index j) { return sources_ + j * padded; }
    std::int64_t* places(Index j) { return places_ + j * padded; }
    double* slopes(Index j) { return slopes_ + j * padded; }
    Index tiled(Index j) { return tiled_[j]; }
    Index constant(Index j) { return constant_[j]; }
    double intercept(Index j) { return intercepts_[j]; }

   private:
    void place(Index j, Index at, std::int64_t source, Index place, double slope) {
        sources(j)[at] = source;
        places(j)[at] = place;
        slopes(j)[at] = slope;
    }
    Integers sources_, places_, tiled_, constant_;
    Doubles slopes_, intercepts_;
};

// a = -(g, h)'z of one alternative.
inline void locate(const double* block, Plan& plan, Index j, double* __restrict a) {
    const std::int64_t* sources = plan.sources(j);
    const double* slopes = plan.slopes(j);
    fill(a, -plan.intercept(j));
    for (Index p = 0; p < plan.tiled(j); p += TILE) {
        const double* __restrict x0 = block + sources[p] * STRIDE;
        const double* __restrict x1 = block + sources[p + 1] * STRIDE;
        const double* __restrict x2 = block + sources[p + 2] * STRIDE;
        const double* __restrict x3 = block + sources[p + 3] * STRIDE;
        const double g0 = slopes[p], g1 = slopes[p + 1], g2 = slopes[p + 2], g3 = slopes[p + 3];
        for (Index r = 0; r < BLOCK; ++r)
            a[r] -= (g0 * x0[r] + g1 * x1[r]) + (g2 * x2[r] + g3 * x3[r]);
    }
}

// ---- sums ----------------------------------------------------------------------------------------

inline double total(const double* terms) {
    Lanes sums[4] = {};
    for (Index r = 0; r < BLOCK; r += 4 * LANES)
        for (int i = 0; i < 4; ++i) sums[i] += lanes(terms + r + i * LANES);
    return added((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

inline double weighted_total(const double* terms, const double* weight) {
    Lanes sums[4] = {};
    for (Index r = 0; r < BLOCK; r += 4 * LANES)
        for (int i = 0; i < 4; ++i)
            sums[i] += lanes(terms + r + i * LANES) * lanes(weight + r + i * LANES);
    return added((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// Add the sums of products of four columns with COUNT others, at out[row * pitch + column].
template <Index COUNT>
inline void tile_part(const double* const* x, const double* const* y, double* out, Index pitch) {
    Lanes sums[TILE][COUNT] = {};
    for (Index r = 0; r < BLOCK; r += LANES) {
        Lanes left[TILE];
        for (Index i = 0; i < TILE; ++i) left[i] = lanes(x[i] + r);
        for (Index m = 0; m < COUNT; ++m) {
            const Lanes right = lanes(y[m] + r);
            for (Index i = 0; i < TILE; ++i) sums[i][m] += left[i] * right;
        }
    }
    for (Index i = 0; i < TILE; ++i)
        for (Index m = 0; m < COUNT; ++m) out[i * pitch + m] += added(sums[i][m]);
}

// The sixteen sums of products of four columns with four others.
inline void tile(const double* const* x, const double* const* y, double* out, Index pitch) {
    for (Index m = 0; m < TILE; m += TILE_AT_ONCE)
        tile_part<TILE_AT_ONCE>(x, y + m, out + m, pitch);
}

// Add the sums of products of the first columns of a block with the first of `factors`, four by four.
inline void tiles(const double* block, Index n_columns, const double* factors, Index n_factors,
                  double* out, Index pitch) {
    for (Index p = 0; p < n_columns; p += TILE) {
        for (Index c = 0; c < n_factors; c += TILE) {
            const double *x[TILE], *y[TILE];
            for (Index i = 0; i < TILE; ++i) {
                x[i] = block + (p + i) * STRIDE;
                y[i] = factors + (c + i) * STRIDE;
            }
            tile(x, y, out + p * pitch + c, pitch);
        }
    }
}

// Store d z of four columns; add their sums of r z and of d z, and their own Gram matrix.
inline void corner(const double* const* x, const double* curvature, const double* residual,
                   double* const* weighted, double* score, double* curved, double* gram,
                   Index pitch) {
    Lanes along[TILE] = {}, bend[TILE] = {}, sums[TILE][TILE] = {};
    for (Index r = 0; r < BLOCK; r += LANES) {
        const Lanes d = lanes(curvature + r), e = lanes(residual + r);
        Lanes left[TILE];
        for (Index i = 0; i < TILE; ++i) left[i] = lanes(x[i] + r);
        for (Index m = 0; m < TILE; ++m) {
            const Lanes right = d * left[m];
            *reinterpret_cast<Lanes*>(weighted[m] + r) = right;
            bend[m] += right;
            along[m] += e * left[m];
            for (Index i = m; i < TILE; ++i) sums[i][m] += left[i] * right;
        }
    }
    for (Index m = 0; m < TILE; ++m) {
        score[m] += added(along[m]);
        curved[m] += added(bend[m]);
        for (Index i = m; i < TILE; ++i) gram[i * pitch + m] += added(sums[i][m]);
    }
}

// The sums of r z, of d z and of d z z' (lower triangle) over a list of columns.
class Gram {
   public:
    Gram(Index count, Index length)
        : pitch(length), score_(count * length), curved_(count * length),
          gram_(count * length * length), weighted_(length * STRIDE) {}

    const Index pitch;
    double* score(Index j) { return score_ + j * pitch; }
    double* curved(Index j) { return curved_ + j * pitch; }
    double* gram(Index j) { return gram_ + j * pitch * pitch; }

    // `reach` says per place where the tiles end against which the tile that starts there is taken:
    // at the place itself, or before where not all of the triangle is wanted.
    void add(Index j, const double* block, const std::int64_t* sources, Index count,
             const std::int64_t* reach, const double* curvature, const double* residual) {
        for (Index p = 0; p < count; p += TILE) {
            const double* x[TILE];
            double* own[TILE];
            for (Index i = 0; i < TILE; ++i) {
                x[i] = block + sources[p + i] * STRIDE;
                own[i] = weighted_ + (p + i) * STRIDE;
            }
            const Index end = reach ? reach[p] : p;
            for (Index q = 0; q < end; q += TILE) {
                const double* y[TILE];
                for (Index i = 0; i < TILE; ++i) y[i] = weighted_ + (q + i) * STRIDE;
                tile(x, y, gram(j) + p * pitch + q, pitch);
            }
            corner(x, curvature, residual, own, score(j) + p, curved(j) + p,
                   gram(j) + p * pitch + p, pitch);
        }
    }

    // Those of r z alone.
    void add_scores(Index j, const double* block, const std::int64_t* sources, Index count,
                    const double* residual) {
        for (Index p = 0; p < count; p += TILE) {
            const double* x[TILE];
            for (Index i = 0; i < TILE; ++i) x[i] = block + sources[p + i] * STRIDE;
            tile_part<1>(x, &residual, score(j) + p, 1);
        }
    }

   private:
    Doubles score_, curved_, gram_, weighted_;
};

// Put one alternative's sums of r (`plain`) and of r z at their places in the score. `observed` is the
// weight of the rows that see it.
inline void scatter_score(const Rows& rows, Plan& plan, Index j, double plain, const double* sums,
                          double observed, double* scores) {
    double* score = scores + j * (rows.width + 1);
    for (Index p = 0; p < plan.tiled(j); ++p) score[plan.places(j)[p]] = sums[p];
    if (plan.constant(j) >= 0) score[plan.constant(j)] = plain;
    if (observed != 0.0) score[rows.width] += observed / rows.h[j];
}

// Put its sums of d (`plain`), of d z and of d z z' at their places in the Hessian's two triangles.
inline void scatter_hessian(const Rows& rows, Plan& plan, Index j, double plain, const double* sums,
                            const double* gram, Index pitch, double observed, double* hessians) {
    const Index side = rows.width + 1;
    double* hessian = hessians + j * side * side;
    const std::int64_t* places = plan.places(j);
    const Index constant = plan.constant(j);
    for (Index p = 0; p < plan.tiled(j); ++p) {
        for (Index q = 0; q <= p; ++q)
            hessian[places[p] * side + places[q]] = hessian[places[q] * side + places[p]] =
                -gram[p * pitch + q];
        if (constant >= 0)
            hessian[places[p] * side + constant] = hessian[constant * side + places[p]] = -sums[p];
    }
    if (constant >= 0) hessian[constant * side + constant] = -plain;
    if (observed != 0.0) hessian[side * side - 1] -= observed / (rows.h[j] * rows.h[j]);
}

// ---- the transcendental steps of a block ---------------------------------------------------------

inline void gaps_at(const double* __restrict a, double* __restrict gaps) {
    for (Index r = 0; r < BLOCK; ++r) gaps[r] = gap_at(__builtin_fabs(a[r]));
}

inline void densities_at(const double* __restrict a, double* __restrict densities) {
    for (Index r = 0; r < BLOCK; ++r)
        densities[r] = exponential(-0.5 * a[r] * a[r]) * INV_SQRT_TWO_PI;
}

}  // namespace

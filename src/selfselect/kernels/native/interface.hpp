// What the module hands to a kernel, and the table of kernels of one instruction set.
//
// Only plain structures are shared between the module and the kernels, and nothing here has a body:
// a function that two instruction sets share could be linked from the wrong one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace selfselect {

using Index = std::ptrdiff_t;

// An array by pointer and strides, which count elements. No pointer: no array.
template <class T>
struct Matrix {
    const T* data;
    Index row;
    Index column;
};

template <class T>
struct Column {
    const T* data;
    Index row;
};

// Rows as the caller holds them, and the parameters of every alternative. Columns of
// [1 | covariates] enter as (column - shift) * scale, limits as (limit - limit_shift) * limit_scale.
struct Rows {
    Index n_rows, n_covariates, n_alternatives, width;
    Matrix<double> covariates;        // (n, D)
    Matrix<std::int8_t> status;       // (n, k)
    Matrix<double> limit;             // (n, 1), with column stride 0, or (n, k)
    Matrix<double> upper;             // (n, k), or none
    Column<double> weights;           // (n,), or none
    const std::int64_t* columns;      // (k, width), padded with -1
    const std::int64_t* sizes;        // (k,)
    const double* shift;              // (D + 1,)
    const double* scale;              // (D + 1,)
    double limit_shift, limit_scale;
    const double* g;                  // (k, width)
    const double* h;                  // (k,)
};

// What a pass fills, all zero before. There may be no cross blocks.
struct Sums {
    double loglik;
    double* score;    // (k, width + 1), that of h last
    double* hessian;  // (k, width + 1, width + 1)
    double* cross;    // (k, width + 1, k, width + 1)
};

// What moves the scales of alternatives, and what a pass fills of it, all zero before. A row of an
// alternative has f g and f h in place of g and h, log f = -delta'z, with z columns of its own.
struct Moving {
    Index width;                      // 0 where no scale moves
    const std::int64_t* columns;      // (k, width), padded with -1
    const double* delta;              // (k, width)
    double* score;                    // (k, width)
    double* hessian;                  // (k, width, width)
    double* mixed;                    // (k, width, rows.width + 1)
};

// What joins the alternatives: without nodes the correlation of two, with nodes (of quadrature over a
// shared shock) the loadings of all in units of their scales. `side` is 1 or -1 where the index of two
// correlated alternatives is unknown and the largest or the smallest is seen, else 0.
struct Noise {
    const double* extras;
    Index n_extras;
    const double* nodes;
    const double* node_weights;
    Index n_nodes;
    double side;
};

// What a pass over joined alternatives fills, all zero before.
struct JointSums {
    Sums own;
    double* score;    // (q,) of the extras
    double* hessian;  // (q, q)
    double* mixed;    // (k, width + 1, q)
};

// Atoms of a shared shock: see `shared_shock.py`. All arrays are contiguous; the Hessian may be absent.
struct MixedAtoms {
    Index n, k, n_nodes, n_flat;
    const double* a;               // (n, k)
    const std::int64_t* chosen;    // (n,)
    const std::int8_t* side;       // (n, k)
    const double* loadings;        // (k,)
    const double* nodes;           // of Gauss and Hermite
    const double* log_weights;
    const double* flat_nodes;      // of Gauss and Legendre on [0, 1]
    const double* flat_weights;
    double* loglik;                // (n,)
    double* gradient;              // (n, 2 k)
    double* hessian;               // (n, 2 k, 2 k)
};

// Atoms that are simulated: see `ghk.py`.
struct SimulatedAtoms {
    Index n, p, n_draws;
    const double* limit;           // (n, p)
    const std::int8_t* side;       // (n, p)
    const double* root;            // (p, p) of Cholesky
    const double* points;          // (n_draws, p)
    const std::uint64_t* keys;     // (n,)
    double* loglik;                // (n,)
    double* along_limit;           // (n, p)
    double* along_root;            // (n, p, p)
};

// log Phi, the inverse Mills ratio lambda and d = lambda (lambda + a) at every a.
struct Tails {
    Index n;
    const double* a;
    double *log_cdf, *ratio, *slope;
};

// log P(a < Z < b) and the densities over P at both ends.
struct Intervals {
    Index n;
    const double *lower, *upper;
    double *log_mass, *lower_density, *upper_density;
};

// One alternative's rows of a known index, and their terms; see `known_index.py`.
struct KnownRows {
    Index n;
    double h;
    Column<double> location;
    Column<std::int8_t> status;
    Column<double> limit, upper;   // there may be no upper limits
    double *loglik, *residual, *score_h, *curvature, *curvature_gh, *curvature_hh;
};

// Rows of an unknown index, and what they say of it; see `unknown_index.py`.
struct Memberships {
    Index n, k;
    double side;
    const double* h;               // (k,)
    Matrix<double> location;       // (n, k)
    Column<double> limit;          // (n,)
    Matrix<bool> candidate;        // (n, k), or none where all are open
    double* loglik;                // (n,)
    double *chance, *a, *ratio, *slope;  // (n, k)
};

// Three independent normal outcomes of which each may be the largest; see `chances.hpp`.
struct Chances {
    Index n;
    Matrix<double> means;          // (n, 3)
    Matrix<bool> open;             // (n, 3), or none where all are
    const double* spreads;         // (3,) of the differences of 0 and 1, 0 and 2, 1 and 2
    const double *by_square, *by_product, *weights;  // of every alternative in turn
    const std::int64_t* begins;    // (4,) where those of each begin
    double* chance;                // (n, 3)
};

// Independent normal outcomes where each is the largest; see `largest.py`. Without the last three
// arrays only chances and means are filled, without `first` only chances.
struct Largest {
    Index n, k;
    Matrix<double> means, scales;  // (n, k)
    Matrix<bool> open;             // (n, k), or none where all are
    const double *nodes, *weights; // of every chosen alternative in turn
    const std::int64_t* begins;    // (k + 1,) where those of each begin
    double *chance;                // (n, k)
    double *first, *fall;          // (n, k, k)
    double *pair, *pair_fall;      // (n, k, k, k)
};

// One alternative's rows under a mixture of normals; see `mixture.py`.
struct MixtureRows {
    Index n, n_components;
    Column<std::int8_t> status;
    bool curved;
    const double *a, *weights;     // (n,)
    const double* components;      // (M, 3)
    double* terms;                 // (3 + 6 M, n): value, slope, bend; by components; mixed
    double* twice;                 // (3 M, 3 M), zero before
};

// A mixture for all alternatives, or one for each, of which q parameters are estimated.
struct Mixture {
    Index n_components, n_estimated;
    bool each;
    const double* components;      // (1 or k, M, 3)
    const double* slopes;          // (1 or k, 3 M, q) derivatives of the components
};

// What a pass over a mixture fills, all zero before.
struct MixtureSums {
    Sums own;
    double* mixed;     // (k, width + 1, q)
    double* by;        // (1 or k, 3 M) first derivatives in the components
    double* twice;     // (1 or k, 3 M, 3 M) upper triangle of the components' own second ones
    double* products;  // (1 or k, q, q) lower triangle of the products of rows' scores
};

// Unobserved types of groups of rows: offsets of locations, logarithms of weights, where groups begin.
struct Types {
    Index n_types, n_groups;
    int curvature;                 // 0: none; 1: with known types; 2: exact
    const double* offsets;         // (M, k)
    const double* log_prior;       // (M,)
    const std::int64_t* starts;    // (G,), or none where each row is a group
};

// What a pass over types fills, all zero before: T = M (k + 1) sums of types, of type m those in its k
// offsets and then that of its weight.
struct TypeSums {
    double loglik;
    double* score;         // (k, width + 1)
    double* hessian;       // (k, width + 1, k, width + 1)
    double* type_score;    // (T,)
    double* mixed;         // (k, width + 1, T)
    double* type_hessian;  // (T, T)
};

// Distributions of the noise that a pass takes, numbered as in `fused_known.py`. Mixtures have a pass of
// their own where the index is known.
enum class Shape : int { NORMAL, LOGISTIC, GUMBEL, GUMBEL_MIN, STUDENT, MIXTURE };

// Numbers per Student distribution: degrees of freedom, levels of log f and log F, first and second
// derivative of the first level.
constexpr Index STUDENT_LEVELS = 5;

// One Student distribution for all alternatives, or one for each; see `_student.py`. Where degrees of
// freedom are estimated, also what a pass fills of derivatives in them, all zero before.
struct Student {
    Index n_sets, n_terms;            // no sets where the noise has another shape
    const double* levels;             // (1 or k, STUDENT_LEVELS)
    const double* series;             // (1 or k, 3, n_terms)
    double* score;                    // (1 or k,), or none
    double* hessian;                  // (1 or k,)
    double* mixed;                    // (k, width + 1)
};

// Independent noise, not normal, under an unknown index of which the largest (side 1) or the smallest (-1)
// is seen. One shape for all alternatives or one for each, with so many parameters in which sums are
// differentiated: all of a mixture's components, or degrees of freedom, or none.
struct UnknownNoise {
    Shape shape;
    double side;
    Index n_sets, n_inner, n_components;
    const double* components;  // (1 or k, M, 3) of a mixture
    Student student;
};

// Rows whose columns are known, and what is summed over them at arguments along a direction; see
// `signed.hpp`. All arrays are contiguous. There may be no weights, and no curvature.
struct SignedRows {
    Index n, m;
    const double* values;     // (m, n)
    const double* weights;    // (n,)
    const double* direction;  // (m,)
    double* pull;             // (m,)
    double* curvature;        // (m, m)
};

// What a summary sums over rows, all zero before; see `moments.hpp`. There may be no Gram matrices.
struct MomentSums {
    double* pairs;           // (k, k), above the diagonal
    double* shape;           // (k, 2) of orders 3 and 4
    double* spread;          // (k, width)
    double* observed;        // (k,)
    double* everywhere;      // (k, width, width)
    double* where_observed;  // (k, width, width)
};

// Says every hundred thousand rows or so whether to go on. A kernel that is told to stop returns
// false, and what it filled means nothing.
using GoOn = bool (*)();

struct Kernels {
    bool (*known)(const Rows&, const Moving&, Shape, const Student&, bool curved, Sums&, GoOn);
    bool (*unknown)(const Rows&, double side, bool complete, bool exact, Sums&, GoOn);
    bool (*joint)(const Rows&, const Noise&, bool curved, JointSums&, GoOn);
    bool (*mix)(const MixedAtoms&, GoOn);
    bool (*simulate)(const SimulatedAtoms&, GoOn);
    bool (*tails)(const Tails&, GoOn);
    bool (*intervals)(const Intervals&, GoOn);
    bool (*known_rows)(const KnownRows&, GoOn);
    bool (*memberships)(const Memberships&, GoOn);
    bool (*largest)(const Largest&, GoOn);
    bool (*chances)(const Chances&, GoOn);
    bool (*mixture)(const MixtureRows&, GoOn);
    bool (*types)(const Rows&, const Types&, TypeSums&, GoOn);
    bool (*sum_mixture)(const Rows&, const Mixture&, bool curved, MixtureSums&, GoOn);
    bool (*moments)(const Rows&, MomentSums&, GoOn);
    bool (*signed_rows)(const SignedRows&, double& log_mass, GoOn);
    bool (*unknown_shapes)(const Rows&, const UnknownNoise&, bool curved, JointSums&, GoOn);
};

}  // namespace selfselect

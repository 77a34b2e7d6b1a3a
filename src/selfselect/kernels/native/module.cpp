// The extension module: checks what Python passes, chooses the instruction set, lets other threads
// run while a kernel works.
//
// It keeps to the limited interface of Python 3.11, so one build serves every later version. Arrays
// come through the buffer protocol, with their strides; nothing is copied.
#include "arguments.hpp"

#include <new>

namespace selfselect {
extern const Kernels kernels_baseline;
#ifdef HAVE_X86
extern const Kernels kernels_avx2;
extern const Kernels kernels_avx512;
#endif
}  // namespace selfselect

namespace {

using selfselect::Kernels;
using selfselect::Shape;

// ---- instruction sets ----------------------------------------------------------------------------

struct InstructionSet {
    const char* name;
    const Kernels* kernels;
    bool (*supported)();
};

const InstructionSet INSTRUCTION_SETS[] = {
#ifdef HAVE_X86
    {"avx512", &selfselect::kernels_avx512,
     [] {
         return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
     }},
    {"avx2", &selfselect::kernels_avx2,
     [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }},
#endif
    {"baseline", &selfselect::kernels_baseline, [] { return true; }},
};

const InstructionSet* chosen = nullptr;

// ---- running a kernel ----------------------------------------------------------------------------

thread_local PyThreadState* suspended = nullptr;

// Looks for an interrupt; only Python's main thread ever finds one.
bool go_on() {
    PyEval_RestoreThread(suspended);
    const bool interrupted = PyErr_CheckSignals() != 0;
    suspended = PyEval_SaveThread();
    return !interrupted;
}

// Work, in rows times alternatives, from which it pays to let other threads run meanwhile: below it
// they would take longer to wake up than the kernel takes (a tenth of a millisecond).
constexpr Index WORTH_A_SWITCH = 8192;

// Run a kernel while other threads may run, and raise what an interrupt raised.
template <class Work>
void run(Index size, Work work) {
    if (size < WORTH_A_SWITCH) {
        work();  // too short to ask whether to go on
        return;
    }
    suspended = PyEval_SaveThread();
    bool done = false, enough = true;
    try {
        done = work();
    } catch (const std::bad_alloc&) {
        enough = false;
    }
    PyEval_RestoreThread(suspended);
    if (!enough) {
        PyErr_NoMemory();
        throw Refused{};
    }
    if (!done) throw Refused{};
}

template <PyObject* (*function)(PyObject* const*), Py_ssize_t count>
PyObject* guarded(PyObject*, PyObject* const* given, Py_ssize_t n_given) {
    if (n_given != count) {
        PyErr_SetString(PyExc_TypeError, "wrong number of arguments");
        return nullptr;
    }
    try {
        return function(given);
    } catch (const Refused&) {
        return nullptr;
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

// known(*rows, shape, curved, score, hessian, spreads, delta, score, hessian, mixed, levels, series,
// score, hessian, mixed) -> log-likelihood. Where no scale moves the five from `spreads` on are None;
// where the shape is not Student's those from `levels` on, and where its degrees of freedom are known
// the last three. Only normal noise goes with upper limits, and estimated degrees with no spreads.
PyObject* known(PyObject* const* given) {
    const RowArguments arguments(given);
    given += RowArguments::COUNT;
    const Index k = arguments.rows.n_alternatives, side = arguments.rows.width + 1;
    const double code = number(given[0]);
    if (!(code >= 0.0 && code <= double(Shape::STUDENT))) disagree();
    const Shape shape = Shape(int(code));
    if (shape != Shape::NORMAL && arguments.rows.upper.data) disagree();
    const bool curved = truth(given[1]);
    const Held<double> score(given[2], 2, true), hessian(given[3], 3, true);
    selfselect::Sums sums = {0.0, score.flat(k * side), hessian.flat(k * side * side), nullptr};
    const Perhaps<std::int64_t> spreads(given[4], 2);
    const Perhaps<double> delta(given[5], 2), moved_score(given[6], 2, true),
        moved_hessian(given[7], 3, true), mixed(given[8], 3, true);
    selfselect::Moving moving = {0, nullptr, nullptr, nullptr, nullptr, nullptr};
    if (spreads) {
        if (!delta || !moved_score || !moved_hessian || !mixed || arguments.rows.upper.data) disagree();
        const Index q = spreads->size(1), n_columns = arguments.rows.n_covariates;
        moving = {q,
                  spreads->flat(k * q),
                  delta->flat(k * q),
                  moved_score->flat(k * q),
                  moved_hessian->flat(k * q * q),
                  mixed->flat(k * q * side)};
        for (Index i = 0; i < k * q; ++i)
            if (moving.columns[i] > n_columns || moving.columns[i] == 0) disagree();
    }
    const Perhaps<double> levels(given[9], 2), series(given[10], 3), by_degrees(given[11], 1, true),
        twice(given[12], 1, true), with_degrees(given[13], 2, true);
    selfselect::Student student = {0, 0, nullptr, nullptr, nullptr, nullptr, nullptr};
    if (bool(levels) != (shape == Shape::STUDENT) || bool(series) != bool(levels)) disagree();
    if (levels) {
        const Index sets = levels->size(0), n_terms = series->size(2);
        if ((sets != 1 && sets != k) || n_terms < 1) disagree();
        student.n_sets = sets;
        student.n_terms = n_terms;
        student.levels = levels->flat(sets * selfselect::STUDENT_LEVELS);
        student.series = series->flat(sets * 3 * n_terms);
    }
    if (by_degrees) {
        if (!levels || !twice || !with_degrees || spreads) disagree();
        student.score = by_degrees->flat(student.n_sets);
        student.hessian = twice->flat(student.n_sets);
        student.mixed = with_degrees->flat(k * side);
    }
    run(arguments.rows.n_rows * k, [&] {
        return chosen->kernels->known(arguments.rows, moving, shape, student, curved, sums, go_on);
    });
    return PyFloat_FromDouble(sums.loglik);
}

// moments(*rows, pairs, shape, spread, observed, everywhere, where_observed). The last two, or None for both.
PyObject* moments(PyObject* const* given) {
    const RowArguments arguments(given);
    given += RowArguments::COUNT;
    const Index k = arguments.rows.n_alternatives, width = arguments.rows.width;
    const Held<double> pairs(given[0], 2, true), shape(given[1], 2, true);
    const Held<double> spread(given[2], 2, true), observed(given[3], 1, true);
    const Perhaps<double> everywhere(given[4], 3, true), where_observed(given[5], 3, true);
    if (arguments.rows.upper.data || bool(everywhere) != bool(where_observed)) disagree();
    selfselect::MomentSums sums = {pairs.flat(k * k), shape.flat(2 * k), spread.flat(k * width),
                                   observed.flat(k), nullptr, nullptr};
    if (everywhere) {
        sums.everywhere = everywhere->flat(k * width * width);
        sums.where_observed = where_observed->flat(k * width * width);
    }
    run(arguments.rows.n_rows * k, [&] {
        return chosen->kernels->moments(arguments.rows, sums, go_on);
    });
    Py_RETURN_NONE;
}

// unknown(*rows, side, complete, score, hessian, cross) -> log-likelihood. Cross blocks or None.
PyObject* unknown(PyObject* const* given) {
    const RowArguments arguments(given);
    given += RowArguments::COUNT;
    const Index k = arguments.rows.n_alternatives, width = arguments.rows.width + 1;
    const double side = number(given[0]);
    const bool complete = truth(given[1]);
    const Held<double> score(given[2], 2, true), hessian(given[3], 3, true);
    const Perhaps<double> cross(given[4], 4, true);
    selfselect::Sums sums = {0.0, score.flat(k * width), hessian.flat(k * width * width), nullptr};
    if (cross) sums.cross = cross->flat(k * width * k * width);
    run(arguments.rows.n_rows * k, [&] {
        return chosen->kernels->unknown(arguments.rows, side, complete, bool(cross), sums, go_on);
    });
    return PyFloat_FromDouble(sums.loglik);
}

// unknown_places(*rows, side, g, h, loglik, score): log-likelihoods and scores at several parameters.
PyObject* unknown_places(PyObject* const* given) {
    const RowArguments arguments(given);
    given += RowArguments::COUNT;
    const Index k = arguments.rows.n_alternatives, width = arguments.rows.width;
    const double side = number(given[0]);
    const Held<double> g(given[1], 3), h(given[2], 2);
    const Held<double> loglik(given[3], 1, true), score(given[4], 3, true);
    const Index places = loglik.size(0), size = k * (width + 1);
    const double* all_g = g.flat(places * k * width);
    const double* all_h = h.flat(places * k);
    double* values = loglik.flat(places);
    double* scores = score.flat(places * size);
    std::vector<double> unused(size * (width + 1));
    run(arguments.rows.n_rows * k * places, [&] {
        for (Index i = 0; i < places; ++i) {
            selfselect::Rows rows = arguments.rows;
            rows.g = all_g + i * k * width;
            rows.h = all_h + i * k;
            selfselect::Sums sums = {0.0, scores + i * size, unused.data(), nullptr};
            if (!chosen->kernels->unknown(rows, side, false, false, sums, go_on)) return false;
            values[i] = sums.loglik;
        }
        return true;
    });
    Py_RETURN_NONE;
}

// joint(*rows, extras, nodes, node_weights, side, score, hessian, cross, extra_score, extra_hessian,
// mixed) -> log-likelihood. Without cross blocks (None) only scores are filled. The side is 0 where the
// index is known.
PyObject* joint(PyObject* const* given) {
    const RowArguments arguments(given);
    given += RowArguments::COUNT;
    const Index k = arguments.rows.n_alternatives, width = arguments.rows.width + 1;
    const std::vector<double> extras = copied(Held<double>(given[0], 1));
    const std::vector<double> nodes = copied(Held<double>(given[1], 1));
    const std::vector<double> node_weights = copied(Held<double>(given[2], 1));
    const double side = number(given[3]);
    const Index q = extras.size();
    if (nodes.size() != node_weights.size() || q != (nodes.empty() ? 1 : k) ||
        (nodes.empty() && k != 2) || (side != 0.0 && !nodes.empty()))
        disagree();
    const Held<double> score(given[4], 2, true), hessian(given[5], 3, true);
    const Perhaps<double> cross(given[6], 4, true);
    const Held<double> extra_score(given[7], 1, true), extra_hessian(given[8], 2, true);
    const Held<double> mixed(given[9], 3, true);
    selfselect::JointSums sums = {
        {0.0, score.flat(k * width), hessian.flat(k * width * width), nullptr},
        extra_score.flat(q), extra_hessian.flat(q * q), mixed.flat(k * width * q)};
    if (cross) sums.own.cross = cross->flat(k * width * k * width);
    const selfselect::Noise noise = {extras.data(), q, nodes.data(), node_weights.data(),
                                     Index(nodes.size()), side};
    const Index size = arguments.rows.n_rows * k * (nodes.size() + 1);
    run(size, [&] {
        return chosen->kernels->joint(arguments.rows, noise, bool(cross), sums, go_on);
    });
    return PyFloat_FromDouble(sums.own.loglik);
}

// mix(a, chosen, side, loadings, nodes, log_weights, flat_nodes, flat_weights, loglik, gradient,
// hessian). The Hessian or None.
PyObject* mix(PyObject* const* given) {
    const Held<double> a(given[0], 2), loadings(given[3], 1), nodes(given[4], 1);
    const Held<std::int64_t> alternative(given[1], 1);
    const Held<std::int8_t> side(given[2], 2);
    const Held<double> log_weights(given[5], 1), flat(given[6], 1), flat_weights(given[7], 1);
    const Held<double> loglik(given[8], 1, true), gradient(given[9], 2, true);
    const Perhaps<double> hessian(given[10], 3, true);
    const Index n = a.size(0), k = a.size(1), n_nodes = nodes.size(0), n_flat = flat.size(0);
    if (n_nodes < 1 || n_flat < 1) disagree();
    const selfselect::MixedAtoms atoms = {
        n, k, n_nodes, n_flat, a.flat(n * k), alternative.flat(n), side.flat(n * k), loadings.flat(k),
        nodes.flat(n_nodes), log_weights.flat(n_nodes), flat.flat(n_flat),
        flat_weights.flat(n_flat), loglik.flat(n), gradient.flat(2 * n * k),
        hessian ? hessian->flat(4 * n * k * k) : nullptr};
    for (Index i = 0; i < n; ++i)
        if (atoms.chosen[i] < 0 || atoms.chosen[i] >= k) disagree();
    run(n * k * n_nodes, [&] { return chosen->kernels->mix(atoms, go_on); });
    Py_RETURN_NONE;
}

// simulate(limit, side, root, points, keys, loglik, along_limit, along_root)
PyObject* simulate(PyObject* const* given) {
    const Held<double> limit(given[0], 2), root(given[2], 2), points(given[3], 2);
    const Held<std::int8_t> side(given[1], 2);
    const Held<std::uint64_t> keys(given[4], 1);
    const Held<double> loglik(given[5], 1, true), along_limit(given[6], 2, true);
    const Held<double> along_root(given[7], 3, true);
    const Index n = limit.size(0), p = limit.size(1), n_draws = points.size(0);
    if (n_draws < 1) disagree();
    const selfselect::SimulatedAtoms atoms = {
        n, p, n_draws, limit.flat(n * p), side.flat(n * p), root.flat(p * p),
        points.flat(n_draws * p), keys.flat(n), loglik.flat(n), along_limit.flat(n * p),
        along_root.flat(n * p * p)};
    run(n * p * n_draws, [&] { return chosen->kernels->simulate(atoms, go_on); });
    Py_RETURN_NONE;
}

// tails(a, log_cdf, ratio, slope), all flat
PyObject* tails(PyObject* const* given) {
    const Held<double> a(given[0], 1);
    const Held<double> log_cdf(given[1], 1, true), ratio(given[2], 1, true), slope(given[3], 1, true);
    const Index n = a.size(0);
    const selfselect::Tails work = {n, a.flat(n), log_cdf.flat(n), ratio.flat(n), slope.flat(n)};
    run(n, [&] { return chosen->kernels->tails(work, go_on); });
    Py_RETURN_NONE;
}

// signed_rows(values, weights, direction, pull, curvature) -> log mass. Weights and curvature or None.
PyObject* signed_rows(PyObject* const* given) {
    const Held<double> values(given[0], 2);
    const Perhaps<double> weights(given[1], 1);
    const Held<double> direction(given[2], 1), pull(given[3], 1, true);
    const Perhaps<double> curvature(given[4], 2, true);
    const Index m = values.size(0), n = values.size(1);
    const selfselect::SignedRows work = {
        n, m, values.flat(m * n), weights ? weights->flat(n) : nullptr, direction.flat(m),
        pull.flat(m), curvature ? curvature->flat(m * m) : nullptr};
    double log_mass = 0.0;
    run(n * m, [&] { return chosen->kernels->signed_rows(work, log_mass, go_on); });
    return PyFloat_FromDouble(log_mass);
}

// intervals(lower, upper, log_mass, lower_density, upper_density), all flat
PyObject* intervals(PyObject* const* given) {
    const Held<double> lower(given[0], 1), upper(given[1], 1);
    const Held<double> mass(given[2], 1, true), at_low(given[3], 1, true), at_high(given[4], 1, true);
    const Index n = lower.size(0);
    const selfselect::Intervals work = {n, lower.flat(n), upper.flat(n), mass.flat(n),
                                        at_low.flat(n), at_high.flat(n)};
    run(n, [&] { return chosen->kernels->intervals(work, go_on); });
    Py_RETURN_NONE;
}

// known_rows(location, h, status, limit, upper, terms): six columns of terms, one after the other
PyObject* known_rows(PyObject* const* given) {
    const Held<double> location(given[0], 1);
    const double h = number(given[1]);
    const Held<std::int8_t> status(given[2], 1);
    const Held<double> limit(given[3], 1);
    const Perhaps<double> upper(given[4], 1);
    const Held<double> terms(given[5], 2, true);
    const Index n = location.size(0);
    if (status.size(0) != n || limit.size(0) != n || (upper && upper->size(0) != n)) disagree();
    double* out = terms.flat(6 * n);
    const selfselect::KnownRows work = {
        n, h, {location.data(), location.stride(0)}, {status.data(), status.stride(0)},
        {limit.data(), limit.stride(0)},
        {upper ? upper->data() : nullptr, upper ? upper->stride(0) : 0},
        out, out + n, out + 2 * n, out + 3 * n, out + 4 * n, out + 5 * n};
    run(n, [&] { return chosen->kernels->known_rows(work, go_on); });
    Py_RETURN_NONE;
}

// memberships(location, h, limit, side, candidate, loglik, chance, a, ratio, slope)
PyObject* memberships(PyObject* const* given) {
    const Held<double> location(given[0], 2), h(given[1], 1), limit(given[2], 1);
    const double side = number(given[3]);
    const Perhaps<bool> candidate(given[4], 2);
    const Held<double> loglik(given[5], 1, true), chance(given[6], 2, true), a(given[7], 2, true);
    const Held<double> ratio(given[8], 2, true), slope(given[9], 2, true);
    const Index n = location.size(0), k = location.size(1);
    const std::vector<double> scales = copied(h);
    if (h.size(0) != k || limit.size(0) != n ||
        (candidate && (candidate->size(0) != n || candidate->size(1) != k)))
        disagree();
    selfselect::Memberships work = {
        n, k, side, scales.data(), {location.data(), location.stride(0), location.stride(1)},
        {limit.data(), limit.stride(0)}, {nullptr, 0, 0}, loglik.flat(n), chance.flat(n * k),
        a.flat(n * k), ratio.flat(n * k), slope.flat(n * k)};
    if (candidate)
        work.candidate = {candidate->data(), candidate->stride(0), candidate->stride(1)};
    run(n * k, [&] { return chosen->kernels->memberships(work, go_on); });
    Py_RETURN_NONE;
}

// largest(means, scales, open, nodes, weights, begins, chance, first, fall, pair, pair_fall), the last
// three None where no slopes are wanted, the last four where only chances are.
PyObject* largest(PyObject* const* given) {
    const Held<double> means(given[0], 2), scales(given[1], 2);
    const Perhaps<bool> open(given[2], 2);
    const Held<double> nodes(given[3], 1), weights(given[4], 1);
    const Held<std::int64_t> begins(given[5], 1);
    const Held<double> chance(given[6], 2, true);
    const Perhaps<double> first(given[7], 3, true), fall(given[8], 3, true), pair(given[9], 4, true), pair_fall(given[10], 4, true);
    const Index n = means.size(0), k = means.size(1), n_nodes = nodes.size(0);
    const std::vector<std::int64_t> places = copied(begins);
    bool agree = scales.size(0) == n && scales.size(1) == k && begins.size(0) == k + 1 && k &&
                 weights.size(0) == n_nodes && bool(fall) == bool(pair) && bool(fall) == bool(pair_fall) &&
                 (first || !fall) &&
                 (!open || (open->size(0) == n && open->size(1) == k));
    for (Index j = 0; agree && j <= k; ++j)
        agree = places[j] >= (j ? places[j - 1] : 0) && places[j] <= n_nodes;
    if (!agree) disagree();
    selfselect::Largest work = {
        n, k, {means.data(), means.stride(0), means.stride(1)},
        {scales.data(), scales.stride(0), scales.stride(1)}, {nullptr, 0, 0}, nodes.flat(n_nodes),
        weights.flat(n_nodes), places.data(), chance.flat(n * k), first ? first->flat(n * k * k) : nullptr,
        fall ? fall->flat(n * k * k) : nullptr, pair ? pair->flat(n * k * k * k) : nullptr,
        pair_fall ? pair_fall->flat(n * k * k * k) : nullptr};
    if (open) work.open = {open->data(), open->stride(0), open->stride(1)};
    // A kernel asks whether to go on from 4,096 rows on: by then it has let other threads run.
    run(n * k * (n_nodes + 2), [&] { return chosen->kernels->largest(work, go_on); });
    Py_RETURN_NONE;
}

// chances(means, open, spreads, by_square, by_product, weights, begins, chance): of three alternatives
PyObject* chances(PyObject* const* given) {
    const Held<double> means(given[0], 2);
    const Perhaps<bool> open(given[1], 2);
    const Held<double> spreads(given[2], 1), by_square(given[3], 1), by_product(given[4], 1);
    const Held<double> weights(given[5], 1);
    const std::vector<std::int64_t> begins = copied(Held<std::int64_t>(given[6], 1));
    const Held<double> chance(given[7], 2, true);
    const Index n = means.size(0), n_nodes = weights.size(0);
    bool agree = means.size(1) == 3 && begins.size() == 4 && begins[0] == 0 && begins[3] == n_nodes &&
                 (!open || (open->size(0) == n && open->size(1) == 3));
    for (Index j = 0; agree && j < 3; ++j) agree = begins[j] <= begins[j + 1];
    if (!agree) disagree();
    selfselect::Chances work = {
        n, {means.data(), means.stride(0), means.stride(1)}, {nullptr, 0, 0}, spreads.flat(3),
        by_square.flat(n_nodes), by_product.flat(n_nodes), weights.flat(n_nodes), begins.data(),
        chance.flat(n * 3)};
    if (open) work.open = {open->data(), open->stride(0), open->stride(1)};
    run(n * 3 * (n_nodes + 1), [&] { return chosen->kernels->chances(work, go_on); });
    Py_RETURN_NONE;
}

// mixture_rows(a, status, components, weights, curved, terms, twice)
PyObject* mixture_rows(PyObject* const* given) {
    const Held<double> a(given[0], 1);
    const Held<std::int8_t> status(given[1], 1);
    const Held<double> components(given[2], 2), weights(given[3], 1);
    const double curved = number(given[4]);
    const Held<double> terms(given[5], 2, true), twice(given[6], 2, true);
    const Index n = a.size(0), m = components.size(0);
    if (components.size(1) != 3 || weights.size(0) != n || status.size(0) != n) disagree();
    const selfselect::MixtureRows work = {
        n, m, {status.data(), status.stride(0)}, curved != 0.0, a.flat(n), weights.flat(n), components.flat(3 * m),
        terms.flat((3 + 6 * m) * n), twice.flat(9 * m * m)};
    run(n * m, [&] { return chosen->kernels->mixture(work, go_on); });
    Py_RETURN_NONE;
}

// types(*rows, offsets, log_prior, starts, curvature, score, hessian, type_score, mixed, type_hessian)
// -> log-likelihood. Where each row is a group starts are None.
PyObject* types(PyObject* const* given) {
    const RowArguments arguments(given);
    given += RowArguments::COUNT;
    const Index k = arguments.rows.n_alternatives, side = arguments.rows.width + 1;
    const Held<double> offsets(given[0], 2), log_prior(given[1], 1);
    const Perhaps<std::int64_t> starts(given[2], 1);
    const double curvature = number(given[3]);
    const Index m = log_prior.size(0), all = m * (k + 1), n = arguments.rows.n_rows;
    if (arguments.rows.upper.data || m < 1 || !(curvature >= 0.0 && curvature <= 2.0)) disagree();
    const Held<double> score(given[4], 2, true), hessian(given[5], 4, true);
    const Held<double> type_score(given[6], 1, true), mixed(given[7], 3, true);
    const Held<double> type_hessian(given[8], 2, true);
    selfselect::Types work = {m, n, int(curvature), offsets.flat(m * k), log_prior.flat(m), nullptr};
    if (starts) {
        work.n_groups = starts->size(0);
        work.starts = starts->flat(work.n_groups);
        bool ordered = (n > 0) == (work.n_groups > 0) && (!n || work.starts[0] == 0);
        for (Index g = 0; ordered && g < work.n_groups; ++g)
            ordered = work.starts[g] < (g + 1 < work.n_groups ? work.starts[g + 1] : n);
        if (!ordered) disagree();
    }
    selfselect::TypeSums sums = {0.0,
                                 score.flat(k * side),
                                 hessian.flat(k * side * k * side),
                                 type_score.flat(all),
                                 mixed.flat(k * side * all),
                                 type_hessian.flat(all * all)};
    run(n * k * m, [&] { return chosen->kernels->types(arguments.rows, work, sums, go_on); });
    return PyFloat_FromDouble(sums.loglik);
}

// mixture(*rows, components, slopes, curved, score, hessian, mixed, by, twice, products)
// -> log-likelihood
PyObject* mixture(PyObject* const* given) {
    const RowArguments arguments(given);
    given += RowArguments::COUNT;
    const Index k = arguments.rows.n_alternatives, side = arguments.rows.width + 1;
    const Held<double> components(given[0], 3), slopes(given[1], 3);
    const bool curved = truth(given[2]);
    const Index sets = components.size(0), m = components.size(1), q = slopes.size(2);
    const bool agree = (sets == 1 || sets == k) && m > 0 && q > 0 && !arguments.rows.upper.data;
    if (!agree) disagree();
    const selfselect::Mixture work = {m, q, sets > 1, components.flat(sets * m * 3),
                                      slopes.flat(sets * 3 * m * q)};
    const Held<double> score(given[3], 2, true), hessian(given[4], 3, true);
    const Held<double> mixed(given[5], 3, true), by(given[6], 2, true);
    const Held<double> twice(given[7], 3, true), products(given[8], 3, true);
    selfselect::MixtureSums sums = {
        {0.0, score.flat(k * side), hessian.flat(k * side * side), nullptr},
        mixed.flat(k * side * q), by.flat(sets * 3 * m), twice.flat(sets * 9 * m * m),
        products.flat(sets * q * q)};
    run(arguments.rows.n_rows * k * m, [&] {
        return chosen->kernels->sum_mixture(arguments.rows, work, curved, sums, go_on);
    });
    return PyFloat_FromDouble(sums.own.loglik);
}

// unknown_shapes(*rows, side, shape, components, levels, series, curved, score, hessian, cross,
// extra_score, extra_hessian, mixed) -> log-likelihood. Components or None, levels and series or None,
// cross blocks or None. The extra ones are of the shapes' parameters, and empty where these are known.
PyObject* unknown_shapes(PyObject* const* given) {
    const RowArguments arguments(given);
    given += RowArguments::COUNT;
    const Index k = arguments.rows.n_alternatives, width = arguments.rows.width + 1;
    const double side = number(given[0]), code = number(given[1]);
    const Perhaps<double> components(given[2], 3), levels(given[3], 2), series(given[4], 3);
    if (!(code > 0.0 && code <= double(Shape::MIXTURE)) || arguments.rows.upper.data) disagree();
    const Shape shape = Shape(int(code));
    if (bool(components) != (shape == Shape::MIXTURE) ||
        bool(levels) != (shape == Shape::STUDENT) || bool(series) != bool(levels))
        disagree();
    const bool curved = truth(given[5]);
    const Held<double> score(given[6], 2, true), hessian(given[7], 3, true);
    const Perhaps<double> cross(given[8], 4, true);
    const Held<double> extra_score(given[9], 1, true), extra_hessian(given[10], 2, true);
    const Held<double> mixed(given[11], 3, true);
    const Index q = extra_score.size(0);
    const Index sets = components ? components->size(0) : levels ? levels->size(0) : 1;
    const Index m = components ? components->size(1) : 0;
    const Index most = components ? 3 * m * sets : levels ? sets : 0;
    if ((sets != 1 && sets != k) || (components && m < 1) || bool(cross) != curved ||
        (q != most && (q || components)))
        disagree();
    selfselect::UnknownNoise noise = {shape, side, sets, q / sets, m, nullptr,
                                      {0, 0, nullptr, nullptr, nullptr, nullptr, nullptr}};
    if (components) noise.components = components->flat(sets * 3 * m);
    if (levels) {
        const Index n_terms = series->size(2);
        if (n_terms < 1) disagree();
        noise.student.n_sets = sets;
        noise.student.n_terms = n_terms;
        noise.student.levels = levels->flat(sets * selfselect::STUDENT_LEVELS);
        noise.student.series = series->flat(sets * 3 * n_terms);
    }
    selfselect::JointSums sums = {
        {0.0, score.flat(k * width), hessian.flat(k * width * width), nullptr},
        extra_score.flat(q), extra_hessian.flat(q * q), mixed.flat(k * width * q)};
    if (cross) sums.own.cross = cross->flat(k * width * k * width);
    run(arguments.rows.n_rows * k * (m + 1), [&] {
        return chosen->kernels->unknown_shapes(arguments.rows, noise, curved, sums, go_on);
    });
    return PyFloat_FromDouble(sums.own.loglik);
}

// ---- instruction sets, from Python ---------------------------------------------------------------

// instructions() -> the names this machine can run, the best first; the first one is in use after
// the module was loaded.
PyObject* instructions(PyObject* const*) {
    PyObject* names = PyList_New(0);
    if (!names) throw Refused{};
    for (const InstructionSet& set : INSTRUCTION_SETS) {
        if (!set.supported()) continue;
        PyObject* name = PyUnicode_FromString(set.name);
        if (!name || PyList_Append(names, name)) {
            Py_XDECREF(name);
            Py_DECREF(names);
            throw Refused{};
        }
        Py_DECREF(name);
    }
    return names;
}

// use(name): take the kernels of that instruction set.
PyObject* use(PyObject* const* given) {
    const char* name = PyUnicode_AsUTF8AndSize(given[0], nullptr);
    if (!name) throw Refused{};
    for (const InstructionSet& set : INSTRUCTION_SETS)
        if (!std::strcmp(name, set.name) && set.supported()) {
            chosen = &set;
            Py_RETURN_NONE;
        }
    refuse(PyExc_ValueError, "this machine has no such instruction set");
}

#define METHOD(name, count) \
    {#name, (PyCFunction)(void (*)())guarded<name, count>, METH_FASTCALL, nullptr}

PyMethodDef METHODS[] = {
    METHOD(instructions, 0),
    METHOD(use, 1),
    METHOD(known, RowArguments::COUNT + 14),
    METHOD(unknown, RowArguments::COUNT + 5),
    METHOD(unknown_places, RowArguments::COUNT + 5),
    METHOD(joint, RowArguments::COUNT + 10),
    METHOD(mix, 11),
    METHOD(simulate, 8),
    METHOD(tails, 4),
    METHOD(signed_rows, 5),
    METHOD(intervals, 5),
    METHOD(known_rows, 6),
    METHOD(memberships, 10),
    METHOD(largest, 11),
    METHOD(chances, 8),
    METHOD(mixture_rows, 7),
    METHOD(unknown_shapes, RowArguments::COUNT + 12),
    METHOD(mixture, RowArguments::COUNT + 9),
    METHOD(types, RowArguments::COUNT + 9),
    METHOD(moments, RowArguments::COUNT + 6),
    {nullptr, nullptr, 0, nullptr},
};

int prepare(PyObject* module) {
    for (const InstructionSet& set : INSTRUCTION_SETS)
        if (!chosen && set.supported()) chosen = &set;
    // The build looks for the digest in the file itself, behind these words.
    static const char digest[] = "digest of the sources: " SOURCE_DIGEST;
    return PyModule_AddStringConstant(module, "DIGEST", digest + std::strlen("digest of the sources: "));
}

PyModuleDef_Slot SLOTS[] = {
    {Py_mod_exec, reinterpret_cast<void*>(prepare)},
    {0, nullptr},
};

PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_native", "Compiled kernels; see `compiled.py`.", 0, METHODS, SLOTS,
    nullptr, nullptr, nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit__native() { return PyModuleDef_Init(&MODULE); }

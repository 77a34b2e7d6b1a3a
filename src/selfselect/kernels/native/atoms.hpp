// Atoms one by one: a shared shock of any steepness, and simulation for three or more correlated
// alternatives. The loops run over the nodes or the draws of an atom.
#pragma once

#include "blocks.hpp"

namespace {

using selfselect::MixedAtoms;
using selfselect::SimulatedAtoms;

constexpr Index ATOMS_PER_QUESTION = 512;

inline Index padded_to_lanes(Index count) { return (count + LANES - 1) / LANES * LANES; }

// The sum of products of two arrays whose padding is zero.
inline double dot(const double* x, const double* y, Index padded) {
    Lanes sum = {};
    for (Index q = 0; q < padded; q += LANES) sum += lanes(x + q) * lanes(y + q);
    return added(sum);
}

// log Phi, lambda and d at the first `count` numbers of an array.
inline void tails_at(const double* __restrict a, Index count, double* __restrict gaps,
                     double* __restrict densities, double* __restrict log_cdf,
                     double* __restrict ratio, double* __restrict slope) {
    for (Index q = 0; q < count; ++q) gaps[q] = gap_at(__builtin_fabs(a[q]));
    for (Index q = 0; q < count; ++q)
        densities[q] = exponential(-0.5 * a[q] * a[q]) * INV_SQRT_TWO_PI;
    for (Index q = 0; q < count; ++q) {
        const Tail tail = tail_at(a[q], gaps[q], densities[q]);
        log_cdf[q] = tail.log_cdf;
        ratio[q] = tail.ratio;
        slope[q] = tail.slope;
    }
}

// Turn logarithms into numbers relative to the largest, which is returned. The padding becomes zero.
inline double relative_to_largest(double* __restrict logs, Index count, Index padded) {
    double largest = logs[0];
    for (Index q = 1; q < count; ++q) largest = logs[q] > largest ? logs[q] : largest;
    for (Index q = 0; q < count; ++q) logs[q] = exponential(logs[q] - largest);
    for (Index q = count; q < padded; ++q) logs[q] = 0.0;
    return largest;
}

// ---- a shared shock ------------------------------------------------------------------------------

// Slope of a factor, per standard deviation of the shock given the outcome, from which the range is
// cut around it; and standard deviations that are then integrated over.
constexpr double STEEP = 1.2, REACH = 8.0;

// Where the range is cut around a step, in standard deviations of what makes it.
constexpr double AROUND[] = {-6.0, -2.0, 2.0, 6.0};

// Fill in nodes and log weights of pieces between the steps; return how many there are.
inline Index cut_range(const MixedAtoms& atoms, const double* a, const std::int8_t* side, Index j,
                       double centre, double spread, double* edges, double* shock,
                       double* log_weight) {
    const double low = centre - REACH * spread, high = centre + REACH * spread;
    Index n_edges = 0;
    const auto insert = [&](double edge) {
        Index at = n_edges++;
        for (; at > 0 && edges[at - 1] > edge; --at) edges[at] = edges[at - 1];
        edges[at] = edge;
    };
    insert(low);
    insert(centre);
    insert(high);
    for (Index m = 0; m < atoms.k; ++m) {
        if (m == j || side[m] == 0 || !(__builtin_fabs(atoms.loadings[m]) * spread > STEEP))
            continue;
        for (const double reach : AROUND) {
            const double edge = (a[m] + reach) / atoms.loadings[m];
            if (low < edge && edge < high) insert(edge);
        }
    }
    Index count = 0;
    for (Index piece = 0; piece + 1 < n_edges; ++piece) {
        const double width = edges[piece + 1] - edges[piece];
        if (!(width > 0.0)) continue;
        for (Index q = 0; q < atoms.n_flat; ++q, ++count) {
            const double u = edges[piece] + width * atoms.flat_nodes[q];
            const double z = (u - centre) / spread;
            shock[count] = u;
            log_weight[count] =
                log(width * atoms.flat_weights[q] / spread) - 0.5 * z * z - HALF_LOG_TWO_PI;
        }
    }
    return count;
}

bool mix_atoms(const MixedAtoms& atoms, GoOn go_on) {
    const Index k = atoms.k, cut = (4 * k + 2) * atoms.n_flat;
    const Index most = padded_to_lanes(atoms.n_nodes > cut ? atoms.n_nodes : cut);
    Doubles edges(4 * k + 3), shock(most), logs(most), b(most), gaps(most), densities(most);
    Doubles log_cdf(most), ratio(most), fall(most), shared(most), product(most);
    Doubles slope(k * most), bend(k * most);
    for (Index i = 0; i < atoms.n; ++i) {
        if (i % ATOMS_PER_QUESTION == ATOMS_PER_QUESTION - 1 && !go_on()) return false;
        const double* a = atoms.a + i * k;
        const std::int8_t* side = atoms.side + i * k;
        const Index j = atoms.chosen[i];
        const double own = atoms.loadings[j], total = 1.0 + own * own;
        const double centre = own * a[j] / total, spread = 1.0 / sqrt(total);
        bool steep = false;
        for (Index m = 0; m < k; ++m)
            steep |= m != j && side[m] != 0 && __builtin_fabs(atoms.loadings[m]) * spread > STEEP;
        Index count = atoms.n_nodes;
        if (steep) {
            count = cut_range(atoms, a, side, j, centre, spread, edges, shock, logs);
        } else {
            for (Index q = 0; q < count; ++q) {
                shock[q] = centre + spread * atoms.nodes[q];
                logs[q] = atoms.log_weights[q];
            }
        }
        const Index padded = padded_to_lanes(count);
        for (Index q = count; q < padded; ++q) shock[q] = 0.0;
        for (Index m = 0; m < k; ++m) {
            double* slopes = slope + m * most;
            double* bends = bend + m * most;
            const double turn = m == j ? 0.0 : side[m], loading = atoms.loadings[m];
            for (Index q = 0; q < padded; ++q) slopes[q] = bends[q] = 0.0;
            if (m == j) {
                for (Index q = 0; q < count; ++q) {
                    slopes[q] = loading * shock[q] - a[m];
                    bends[q] = -1.0;
                }
            } else if (turn != 0.0) {
                for (Index q = 0; q < count; ++q) b[q] = turn * (a[m] - loading * shock[q]);
                tails_at(b, count, gaps, densities, log_cdf, ratio, fall);
                for (Index q = 0; q < count; ++q) {
                    logs[q] += log_cdf[q];
                    slopes[q] = turn * ratio[q];
                    bends[q] = -fall[q];
                }
            }
        }
        const double largest = relative_to_largest(logs, count, padded);
        double mass = 0.0;
        for (Index q = 0; q < count; ++q) mass += logs[q];
        for (Index q = 0; q < count; ++q) logs[q] /= mass;
        atoms.loglik[i] = largest + log(mass) - 0.5 * a[j] * a[j] / total - 0.5 * log(total) -
                          HALF_LOG_TWO_PI;
        double* gradient = atoms.gradient + i * 2 * k;
        for (Index q = 0; q < padded; ++q) shared[q] = logs[q] * shock[q];
        for (Index m = 0; m < k; ++m) {
            gradient[m] = dot(logs, slope + m * most, padded);
            gradient[k + m] = -dot(shared, slope + m * most, padded);
        }
        if (!atoms.hessian) continue;
        double* hessian = atoms.hessian + i * 4 * k * k;
        const auto put = [&](Index p, Index q, double value) {
            hessian[p * 2 * k + q] = hessian[q * 2 * k + p] = value - gradient[p] * gradient[q];
        };
        for (Index m = 0; m < k; ++m) {
            for (Index o = 0; o <= m; ++o) {
                const double* first = slope + m * most;
                const double* second = slope + o * most;
                const double* own_bend = bend + m * most;
                const double same = m == o ? 1.0 : 0.0;
                for (Index q = 0; q < padded; ++q)
                    product[q] = first[q] * second[q] + same * own_bend[q];
                const double once = dot(shared, product, padded);
                for (Index q = 0; q < padded; ++q) b[q] = product[q] * shock[q];
                put(m, o, dot(logs, product, padded));
                put(k + m, o, -once);
                put(k + o, m, -once);
                put(k + m, k + o, dot(shared, b, padded));
            }
        }
    }
    return true;
}

// ---- simulation ----------------------------------------------------------------------------------

// A number in [0, 1) that a key and a dimension determine (splitmix64).
inline double rotation(std::uint64_t key, Index dimension) {
    std::uint64_t z = key + 0x9E3779B97F4A7C15u * std::uint64_t(dimension + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z = z ^ (z >> 31);
    return double(z >> 11) * 0x1p-53;
}

inline double polynomial(const double (&coefficients)[8], double at) {
    double value = coefficients[7];
    for (int i = 6; i >= 0; --i) value = value * at + coefficients[i];
    return value;
}

// The normal quantile of p in (0, 1), to 16 digits (Wichura 1988, AS 241).
inline double quantile(double p) {
    static constexpr double MIDDLE[2][8] = {
        {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
         1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
         3.3430575583588128105e4, 2.5090809287301226727e3},
        {1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
         2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
         5.2264952788528545610e3},
    };
    static constexpr double NEAR[2][8] = {
        {1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
         3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
         2.27238449892691845833e-2, 7.74545014278341407640e-4},
        {1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
         1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
         1.05075007164441684324e-9},
    };
    static constexpr double FAR[2][8] = {
        {6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
         2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
         2.71155556874348757815e-5, 2.01033439929228813265e-7},
        {1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
         7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
         2.04426310338993978564e-15},
    };
    const double q = p - 0.5;
    if (__builtin_fabs(q) <= 0.425) {
        const double r = 0.180625 - q * q;
        return q * polynomial(MIDDLE[0], r) / polynomial(MIDDLE[1], r);
    }
    const double r = sqrt(-log(q < 0.0 ? p : 1.0 - p));
    const auto& parts = r <= 5.0 ? NEAR : FAR;
    const double at = r <= 5.0 ? r - 1.6 : r - 5.0;
    const double value = polynomial(parts[0], at) / polynomial(parts[1], at);
    return q < 0.0 ? -value : value;
}

// Below this nothing is left to divide: the draw is at the limit itself.
constexpr double SMALLEST_CHANCE = 1e-300;

// Points are kept off both ends of [0, 1] by this.
constexpr double EDGE = 1e-13;

// The simulator of Geweke, Hajivassiliou and Keane with the adjoint of its recursion; see `ghk.py`.
bool simulate_atoms(const SimulatedAtoms& atoms, GoOn go_on) {
    const Index p = atoms.p, count = atoms.n_draws, padded = padded_to_lanes(count);
    Doubles points(p * padded), tau(p * padded), eps(p * padded), ratio(p * padded);
    Doubles pass_on(p * padded), back(p * padded);
    Doubles u(padded), b(padded), gaps(padded), densities(padded), log_cdf(padded), slope(padded);
    Doubles lambda(padded), logs(padded), along(padded);
    for (Index q = 0; q < count; ++q)
        for (Index m = 0; m < p; ++m) points[m * padded + q] = atoms.points[q * p + m];
    for (Index i = 0; i < atoms.n; ++i) {
        if (i % ATOMS_PER_QUESTION == ATOMS_PER_QUESTION - 1 && !go_on()) return false;
        for (Index q = 0; q < padded; ++q) logs[q] = 0.0;
        for (Index m = 0; m < p; ++m) {
            const double* root = atoms.root + m * p;
            const double shift = rotation(atoms.keys[i], m), limit = atoms.limit[i * p + m];
            const double turn = atoms.side[i * p + m], inverse = 1.0 / root[m];
            double* t = tau + m * padded;
            double* e = eps + m * padded;
            const double* point = points + m * padded;
            for (Index q = 0; q < count; ++q) t[q] = limit;
            for (Index o = 0; o < m; ++o)
                for (Index q = 0; q < count; ++q) t[q] -= root[o] * eps[o * padded + q];
            for (Index q = 0; q < count; ++q) {
                t[q] *= inverse;
                b[q] = turn * t[q];
                double at = point[q] + shift;
                at = at >= 1.0 ? at - 1.0 : at;
                // Folded, points that a rotation wraps around come back where they left.
                at = at < 0.5 ? 2.0 * at : 2.0 - 2.0 * at;
                at = at > EDGE ? at : EDGE;
                u[q] = at < 1.0 - EDGE ? at : 1.0 - EDGE;
            }
            tails_at(b, count, gaps, densities, log_cdf, lambda, slope);
            for (Index q = 0; q < count; ++q) {
                logs[q] += log_cdf[q];
                ratio[m * padded + q] = turn * lambda[q];
                b[q] = u[q] * exponential(log_cdf[q]);
            }
            for (Index q = 0; q < count; ++q)
                e[q] = b[q] > SMALLEST_CHANCE ? turn * quantile(b[q]) : t[q];
            for (Index q = 0; q < count; ++q)
                pass_on[m * padded + q] =
                    b[q] > SMALLEST_CHANCE ? u[q] * exponential(0.5 * (e[q] * e[q] - t[q] * t[q]))
                                           : 1.0;
        }
        const double largest = relative_to_largest(logs, count, padded);
        double mass = 0.0;
        for (Index q = 0; q < count; ++q) mass += logs[q];
        atoms.loglik[i] = largest + log(mass / count);

        std::memset(back, 0, sizeof(double) * p * padded);
        double* along_root = atoms.along_root + i * p * p;
        for (Index m = p - 1; m >= 0; --m) {
            const double* root = atoms.root + m * p;
            const double inverse = 1.0 / root[m];
            for (Index q = 0; q < count; ++q)
                along[q] = (ratio[m * padded + q] + back[m * padded + q] * pass_on[m * padded + q]) *
                           inverse;
            for (Index o = 0; o < m; ++o)
                for (Index q = 0; q < count; ++q) back[o * padded + q] -= along[q] * root[o];
            for (Index q = 0; q < count; ++q) along[q] *= logs[q] / mass;
            double sum = 0.0;
            for (Index q = 0; q < count; ++q) sum += along[q];
            atoms.along_limit[i * p + m] = sum;
            for (Index o = 0; o < p; ++o)
                along_root[m * p + o] = o > m ? 0.0
                                        : -dot(along, o < m ? eps + o * padded : tau + m * padded,
                                               padded);
        }
    }
    return true;
}

}  // namespace

// The normal mass between two limits, one row at a time, for kernels in which such rows are few.
#pragma once

#include "normal.hpp"

namespace {

// log P(a < Z < b), and the densities phi(a)/P and phi(b)/P at the two ends.
struct Interval {
    double log_mass, lower_density, upper_density;
};

// Nodes and weights of Gauss and Legendre on [-1, 1], the positive half.
constexpr double LEGENDRE_NODES[5] = {
    0.14887433898163122, 0.4333953941292472, 0.6794095682990244,
    0.8650633666889845,  0.9739065285171717,
};
constexpr double LEGENDRE_WEIGHTS[5] = {
    0.29552422471475287, 0.26926671930999635, 0.21908636251598204,
    0.1494513491505806,  0.06667134430868814,
};

// Width of an interval, and fall of the log density over it, up to which ten nodes are exact.
constexpr double NARROW = 1.0;

// (1 - Phi(x))/phi(x) for x >= 0.
inline double mills_ratio(double x) { return 1.0 / (x + gap_at(x)); }

// The interval is reflected so that its end nearer to zero comes first. The mass over the density
// there is the integral of exp(-near t - t^2/2) over its width: by Gauss and Legendre where the
// interval is narrow (a difference of two tails would cancel), else by Mills ratios, which neither
// underflow nor cancel. Where a wide interval holds zero, what lies outside of it is small.
inline Interval interval_at(double lower, double upper) {
    const bool reflect = lower + upper < 0.0;
    const double near = reflect ? -upper : lower, far = reflect ? -lower : upper;
    const double width = far - near, fall = 0.5 * width * (far + near);
    const double log_density = -0.5 * near * near - HALF_LOG_TWO_PI;
    double relative, log_mass;
    if (near < 0.0 && width >= NARROW) {
        const double outside = exp(log_density) * mills_ratio(-near) +
                               exp(-0.5 * far * far - HALF_LOG_TWO_PI) * mills_ratio(far);
        relative = (1.0 - outside) * exp(-log_density);
        log_mass = log1p(-outside);
    } else if (width < NARROW && fall < NARROW) {
        double sum = 0.0;
        for (int i = 0; i < 5; ++i) {
            const double before = 0.5 * width * (1.0 - LEGENDRE_NODES[i]);
            const double after = 0.5 * width * (1.0 + LEGENDRE_NODES[i]);
            sum += LEGENDRE_WEIGHTS[i] *
                   (exp(-before * (near + 0.5 * before)) + exp(-after * (near + 0.5 * after)));
        }
        relative = 0.5 * width * sum;
        log_mass = log_density + log(relative);
    } else {
        relative = mills_ratio(near) - exp(-fall) * mills_ratio(far);
        log_mass = log_density + log(relative);
    }
    const double near_density = 1.0 / relative, far_density = exp(-fall) / relative;
    return {log_mass, reflect ? far_density : near_density, reflect ? near_density : far_density};
}

// The terms of a row between two limits in (g, h): log-likelihood, its first derivatives, and its
// second ones.
struct BetweenTerms {
    double loglik, residual, score_h, curvature, curvature_gh, curvature_hh;
};

inline BetweenTerms between_at(double location, double h, double low, double high) {
    const double lower = h * low - location, upper = h * high - location;
    const Interval mass = interval_at(lower, upper);
    const double at_low = mass.lower_density, at_high = mass.upper_density;
    const double slope_low = lower * at_low, slope_high = upper * at_high;
    // Squares of the scores, not of the end densities: those of a narrow interval are huge.
    const double along_g = at_low - at_high, along_h = at_high * high - at_low * low;
    return {mass.log_mass,
            along_g,
            along_h,
            slope_low - slope_high - along_g * along_g,
            slope_high * high - slope_low * low - along_g * along_h,
            slope_low * low * low - slope_high * high * high - along_h * along_h};
}

}  // namespace

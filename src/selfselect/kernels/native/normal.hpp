// Elementary functions of one number, free of branches and of library calls.
//
// Each is inlined into a loop over the rows of a block; a call into the mathematics library would
// keep that loop from being vectorised.
//
// Everything wanted of a censored row follows from lambda(a) = phi(a)/Phi(a). The usual road is
// erfcx: lambda(-x) = sqrt(2/pi) / erfcx(x/sqrt 2) for x >= 0. But lambda(-x) is x + 1/x - ..., so
// the curvature d = lambda (lambda - x) cancels: at x = 1000 six digits are gone. Here the *gap* is
// approximated instead,
//
//     gap(x) = lambda(-x) - x,    (x + K) gap(x) = polynomial in u = (x - K)/(x + K),
//
// by the map of Shepherd and Laframboise (1981), which takes the half line to [-1, 1). The left
// side is 0.8 K at zero, one at infinity and smooth between; degree 26 gives it to the last digits.
// Then lambda = x + gap and d = lambda gap are sums and products of positive numbers: right to a
// few ulps at any distance, by one formula. On the other side of zero, with e = phi(x),
//
//     Phi(-x) = e / lambda(-x),    lambda(x) = e lambda(-x) / (lambda(-x) - e),
//     d = lambda(x) (lambda(x) + x),    log Phi(x) = log(1 - Phi(-x)),
//
// and on the left log Phi(-x) = -x^2/2 - log sqrt(2 pi) - log lambda(-x). So a row takes one
// exponential and one logarithm.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

// The polynomials are those of `_erfcx.py`; `experiments/erfcx_polynomial.py` makes them.
constexpr double CENTRE = 3.5;

// (x + K) gap(x) in powers of u, constant first.
constexpr double GAP[27] = {
    1.759738854003898,
    -1.0299783886096476,
    0.21069624634473574,
    0.15371368344127304,
    -0.10078958422801461,
    -0.022180098790743338,
    0.03558751629498637,
    0.002029881836001316,
    -0.01186264447989421,
    0.0002721673457207138,
    0.003867808465371549,
    -0.00020437342949799247,
    -0.0012316426374607324,
    5.552572711087451e-05,
    0.00037629665843801394,
    -4.2916814295049775e-06,
    -0.0001072893424264666,
    -3.675385431391949e-06,
    2.756686355490996e-05,
    2.0924115675619227e-06,
    -6.115895927130362e-06,
    -5.907644787894084e-07,
    1.1048085189734638e-06,
    9.26145657281075e-08,
    -1.4613858731101652e-07,
    -6.120025003418614e-09,
    1.068782117800838e-08,
};

// exp(r) in powers of r, constant first, for |r| <= log(2)/2.
constexpr double EXP[12] = {
    1.0,
    1.0,
    0.5000000000000019,
    0.1666666666666668,
    0.04166666666648795,
    0.008333333333319589,
    0.0013888888952352863,
    0.00019841269890076403,
    2.4801485441561313e-05,
    2.755724088722987e-06,
    2.763265472252779e-07,
    2.5110049204818658e-08,
};

// (log((1+s)/(1-s)) - 2 s)/s^3 in powers of s^2, constant first, |s| < 0.1716.
constexpr double LOG[8] = {
    0.6666666666666666,
    0.4000000000000088,
    0.2857142857080323,
    0.2222222239180047,
    0.18181795630884753,
    0.15386240205813478,
    0.13268759668560612,
    0.13086767009948175,
};

constexpr double HALF_LOG_TWO_PI = 0.9189385332046727;
constexpr double INV_SQRT_TWO_PI = 0.3989422804014327;
constexpr double LN2 = 0.6931471805599453;
constexpr double INV_LN2 = 1.4426950408889634;

// log 2 in two parts; the first ends in zeros, so its product with an exponent is exact.
constexpr double LN2_HIGH = 6.93147180369123816490e-01;
constexpr double LN2_LOW = 1.90821492927058770002e-10;

// Adding this leaves no room for a fraction: the low bits become the nearest integer.
constexpr double ROUNDER = 6755399441055744.0;
constexpr std::uint64_t ROUNDER_BITS = 0x4338000000000000u;
constexpr std::uint64_t ONE_BITS = 0x3ff0000000000000u;
constexpr std::uint64_t SQRT_HALF_BITS = 0x3fe6a09e667f3bcdu;

// exp underflows (nearly) left of this, and is taken as zero there.
constexpr double SMALLEST_EXPONENT = -708.0;

// Where 1 - p falls below sqrt(1/2) its logarithm is taken of 2 (1 - p).
constexpr double UPPER_HALVES = 0.2928932188134524;

inline std::uint64_t bits_of(double number) {
    std::uint64_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    return bits;
}

inline double number_of(std::uint64_t bits) {
    double number;
    std::memcpy(&number, &bits, sizeof number);
    return number;
}

// lambda(-x) - x for x >= 0.
inline double gap_at(double x) {
    const double reciprocal = 1.0 / (x + CENTRE);
    const double u = 1.0 - 2.0 * CENTRE * reciprocal;
    // Even and odd powers apart: two chains of half the length run side by side.
    const double v = u * u;
    double even = GAP[26], odd = GAP[25];
#pragma GCC unroll 16
    for (int i = 24; i >= 2; i -= 2) {
        even = even * v + GAP[i];
        odd = odd * v + GAP[i - 1];
    }
    even = even * v + GAP[0];
    return (odd * u + even) * reciprocal;
}

// exp of a number that is not positive, split into a power of two and the rest.
inline double exponential(double exponent) {
    const double bounded = exponent >= SMALLEST_EXPONENT ? exponent : SMALLEST_EXPONENT;
    const double rounded = bounded * INV_LN2 + ROUNDER;
    const double power = rounded - ROUNDER;
    const double rest = (bounded - power * LN2_HIGH) - power * LN2_LOW;
    const double square = rest * rest;
    double even = EXP[10], odd = EXP[11];
#pragma GCC unroll 8
    for (int i = 8; i >= 0; i -= 2) {
        even = even * square + EXP[i];
        odd = odd * square + EXP[i + 1];
    }
    const double scale = number_of((bits_of(rounded) << 52) + ONE_BITS);
    return exponent >= SMALLEST_EXPONENT ? (odd * rest + even) * scale : 0.0;
}

// A positive number as m 2^n with m in [sqrt(1/2), sqrt 2).
inline void split(double number, double& mantissa, double& twos) {
    const std::uint64_t bits = bits_of(number);
    // With 1024 added the exponent is positive, and a shift without sign will do.
    const std::uint64_t whole = (bits - SQRT_HALF_BITS + (std::uint64_t(1024) << 52)) >> 52;
    mantissa = number_of(bits + (std::uint64_t(1024) << 52) - (whole << 52));
    twos = number_of(whole + ROUNDER_BITS) - (ROUNDER + 1024.0);
}

// log((1 + s)/(1 - s)) = 2 artanh s, which is log(1 + f) for s = f/(2 + f). It starts from f rather
// than from 1 + f, so it is right to all digits of an f however small.
inline double log_of_quotient(double s) {
    const double z = s * s;
    double series = LOG[7];
#pragma GCC unroll 8
    for (int i = 6; i >= 0; --i) series = series * z + LOG[i];
    return 2.0 * s + s * z * series;
}

// log of a number from 1 on.
inline double logarithm(double number) {
    double mantissa, twos;
    split(number, mantissa, twos);
    return twos * LN2 + log_of_quotient((mantissa - 1.0) / (mantissa + 1.0));
}

// log Phi, lambda and d = lambda (lambda + a) at a, of which the gap and the density at |a| are
// known. One logarithm serves both sides of zero: on the left it is that of lambda, on the right
// that of 1 - Phi(-x), and its series starts from f = -Phi(-x), which is known to all its digits
// even where 1 - Phi(-x) rounds to one.
struct Tail {
    double log_cdf, ratio, slope;
};

inline Tail tail_at(double a, double gap, double density) {
    const double x = __builtin_fabs(a);
    const double left_ratio = x + gap;
    const bool left = a <= 0.0;

    // lambda = 2^twos (1 + f); 1 - phi(x)/lambda, of which half or all is 1 + f. Only f/(2 + f) is
    // formed, as top/bottom.
    double mantissa, left_twos;
    split(left_ratio, mantissa, left_twos);
    const bool twice = density > left_ratio * UPPER_HALVES;
    const double right_top = twice ? left_ratio - 2.0 * density : -density;
    const double right_bottom = 2.0 * left_ratio + (twice ? right_top : -density);
    const double top = left ? mantissa - 1.0 : right_top;
    const double bottom = left ? mantissa + 1.0 : right_bottom;
    const double twos = left ? left_twos : (twice ? -1.0 : 0.0);

    // One division for two quotients.
    const double rest_of_one = left_ratio - density;
    const double inverse = 1.0 / (rest_of_one * bottom);
    const double right_ratio = density * left_ratio * (bottom * inverse);
    const double ratio = left ? left_ratio : right_ratio;
    const double slope = ratio * (left ? gap : ratio + x);
    const double logarithm = twos * LN2 + log_of_quotient(top * (rest_of_one * inverse));
    const double log_cdf = left ? -0.5 * x * x - HALF_LOG_TWO_PI - logarithm : logarithm;
    return {log_cdf, ratio, slope};
}

}  // namespace

// What a row says of its alternatives, in registers: the mathematics of native/known.hpp and
// native/unknown.hpp, one row at a time and free of branches.
//
// Who compiles this defines K (alternatives) and the polynomials of `tails`.

#define OBSERVED 0
#define BELOW 1
#define ABOVE 2
#define MAYBE 5
#define BITS 4

constexpr double CLOSED = 1e100;  // the a of an alternative that is not open; its square is finite
constexpr double INV_SQRT_TWO_PI = 0.3989422804014327;
constexpr double HALF_LOG_TWO_PI = 0.9189385332046727;
constexpr double LN2 = 0.6931471805599453, INV_LN2 = 1.4426950408889634;
constexpr double LN2_HIGH = 6.93147180369123816490e-01, LN2_LOW = 1.90821492927058770002e-10;
constexpr double ROUNDER = 6755399441055744.0;  // 1.5 * 2^52
constexpr double SMALLEST_EXPONENT = -708.0;
constexpr double UPPER_HALVES = 0.2928932188134524;  // 1 - sqrt(1/2)
constexpr long long ONE_BITS = 0x3ff0000000000000LL, SQRT_HALF_BITS = 0x3fe6a09e667f3bcdLL;
constexpr long long ROUNDER_BITS = 0x4338000000000000LL;

// The elementary functions of native/normal.hpp, one number at a time.

__device__ __forceinline__ double gap_at(double x) {
  const double reciprocal = 1.0 / (x + CENTRE), u = (x - CENTRE) * reciprocal, v = u * u;
  double even = v * GAP[26] + GAP[24], odd = v * GAP[25] + GAP[23];
#pragma unroll
  for (int i = 2; i < 13; i++) {
    even = even * v + GAP[26 - 2 * i];
    odd = odd * v + GAP[25 - 2 * i];
  }
  even = even * v + GAP[0];
  return (odd * u + even) * reciprocal;
}

// exp of a number that is not positive.
__device__ __forceinline__ double exponential(double exponent) {
  const double bounded = fmax(exponent, SMALLEST_EXPONENT);
  const double rounded = bounded * INV_LN2 + ROUNDER, power = rounded - ROUNDER;
  const double rest = (bounded - power * LN2_HIGH) - power * LN2_LOW, square = rest * rest;
  double even = square * EXP[10] + EXP[8], odd = square * EXP[11] + EXP[9];
#pragma unroll
  for (int i = 2; i < 6; i++) {
    even = even * square + EXP[10 - 2 * i];
    odd = odd * square + EXP[11 - 2 * i];
  }
  const double scale = __longlong_as_double((__double_as_longlong(rounded) << 52) + ONE_BITS);
  return exponent >= SMALLEST_EXPONENT ? (odd * rest + even) * scale : 0.0;
}

// A positive number as m 2^n with m in [sqrt(1/2), sqrt(2)).
__device__ __forceinline__ double split(double number, double &twos) {
  const long long bits = __double_as_longlong(number), whole = (bits - SQRT_HALF_BITS) >> 52;
  twos = __longlong_as_double(whole + ROUNDER_BITS) - ROUNDER;
  return __longlong_as_double(bits - (whole << 52));
}

// log((1 + s) / (1 - s)).
__device__ __forceinline__ double log_of_quotient(double s) {
  const double z = s * s;
  double series = z * LOG[7] + LOG[6];
#pragma unroll
  for (int i = 2; i < 8; i++) series = series * z + LOG[7 - i];
  return 2.0 * s + s * z * series;
}

struct KnownRow {
  double residual, curvature, value;
};

// Residual, curvature with its sign turned, and log-likelihood of an alternative, weighted.
__device__ __forceinline__ KnownRow known_row(double at, int code, double weight) {
  const double x = fabs(at), gap = gap_at(x), half_square = -0.5 * x * x;
  const double density = exponential(half_square) * INV_SQRT_TWO_PI, left_ratio = x + gap;
  const bool below = code == BELOW, left = (at <= 0.0) == below;
  double left_twos;
  const double mantissa = split(left_ratio, left_twos);
  const bool twice = density > left_ratio * UPPER_HALVES;
  const double right_top = twice ? left_ratio - 2.0 * density : -density;
  const double top = left ? mantissa - 1.0 : right_top;
  const double bottom = left ? mantissa + 1.0 : 2.0 * left_ratio + (twice ? right_top : -density);
  const double twos = left ? left_twos : (twice ? -1.0 : 0.0);
  const double rest_of_one = left_ratio - density, inverse = 1.0 / (rest_of_one * bottom);
  const double ratio = left ? left_ratio : density * left_ratio * (bottom * inverse);
  const double slope = ratio * (left ? gap : ratio + x);
  const double logarithm = twos * LN2 + log_of_quotient(top * (rest_of_one * inverse));
  const double log_cdf = left ? half_square - HALF_LOG_TWO_PI - logarithm : logarithm;
  const bool observed = code == OBSERVED;
  const double told = code <= ABOVE ? weight : 0.0;
  return {told * (observed ? at : (below ? -ratio : ratio)), told * (observed ? 1.0 : slope),
          told * (observed ? half_square : log_cdf)};
}

struct UnknownRow {
  double share[K], excess[K], ratio[K];  // shares relative to their total; a + lambda; lambda
  double total, value;
};

// What a row of the unknown index says of all its alternatives: they meet in their chances.
__device__ __forceinline__ UnknownRow unknown_row(const double (&a)[K], const double *h) {
  UnknownRow row;
  double nearest = a[0];
#pragma unroll
  for (int j = 1; j < K; j++) nearest = fmin(nearest, a[j]);
  nearest = fmax(nearest, 0.0);
  const double half_square = -0.5 * nearest * nearest, common = exponential(half_square);
  double product = 1.0, total = 0.0, value = half_square;
#pragma unroll
  for (int j = 0; j < K; j++) {
    const double x = fabs(a[j]), gap = gap_at(x), left_ratio = x + gap;
    const double density =
        exponential(-0.5 * (x - nearest) * (x + nearest)) * INV_SQRT_TWO_PI;
    const bool left = a[j] <= 0.0;
    const double rest_of_one = left_ratio - density * common;
    const double inverse = 1.0 / (rest_of_one * left_ratio);
    const double relative = left ? left_ratio : density * left_ratio * (left_ratio * inverse);
    row.share[j] = h[j] * relative;
    row.excess[j] = left ? gap : relative * common + x;
    row.ratio[j] = relative * common;
    total += row.share[j];
    product *= (left ? 1.0 : rest_of_one) * (rest_of_one * inverse);
    value += left ? -0.5 * x * x - HALF_LOG_TWO_PI : 0.0;
  }
  double twos;
  const double mantissa = split(product * total, twos);
  // Taking a number apart loses that it is not one, and the sum has to say so.
  row.value = value + twos * LN2 + log_of_quotient((mantissa - 1.0) / (mantissa + 1.0)) +
              0.0 * total;
  row.total = total;
  return row;
}

// The terms of rows one by one, where limits differ between alternatives or the table is too wide.
//
// Who compiles this defines K (alternatives), WEIGHTED and TURN (1 or -1).

extern "C" __global__ void known_terms(const double *a, const signed char *status,
                                       const double *weights, double *residuals,
                                       double *curvatures, double *values, long long n_rows,
                                       long long a_stride, long long status_stride) {
  const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y;
  if (row >= n_rows) return;
  const int code = status[j * status_stride + row];
  const double at = code <= ABOVE ? a[j * a_stride + row] : 0.0;
  const KnownRow found = known_row(at, code, WEIGHTED ? weights[row] : 1.0);
  residuals[j * n_rows + row] = found.residual;
  curvatures[j * n_rows + row] = found.curvature;
  values[j * n_rows + row] = found.value;
}

// `kept` (7, K, n) takes the terms of `UnknownTerms` in their order.
extern "C" __global__ void unknown_terms(const double *given, const signed char *status,
                                         const double *weights, const double *scales,
                                         double *logliks, double *kept, long long n_rows,
                                         long long a_stride, long long status_stride) {
  const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n_rows) return;
  double a[K], h[K];
  bool is_open = false;
#pragma unroll
  for (int j = 0; j < K; j++) {
    const bool open_here = status[j * status_stride + row] == MAYBE;
    is_open |= open_here;
    a[j] = open_here ? given[j * a_stride + row] : CLOSED;
    h[j] = scales[j];
  }
  const double weight = is_open ? (WEIGHTED ? weights[row] : 1.0) : 0.0;
  const UnknownRow found = unknown_row(a, h);
  const double inverse = 1.0 / (is_open ? found.total : 1.0);
  logliks[row] = weight * (is_open ? found.value : 0.0);
#pragma unroll
  for (int j = 0; j < K; j++) {
    const bool closed = a[j] == CLOSED;
    const double excess = closed ? 0.0 : found.excess[j], ratio = closed ? 0.0 : found.ratio[j];
    const double chance = found.share[j] * inverse;
    double others = 0.0;
#pragma unroll
    for (int i = 0; i < K; i++) others += i == j ? 0.0 : found.share[i];
    others *= inverse;
    const double terms[7] = {chance,
                             chance * weight,
                             TURN * (chance * excess - ratio) * weight,
                             (chance + others * (ratio * excess)) * weight,
                             TURN * chance * excess,
                             chance * excess * others * weight,
                             excess};
#pragma unroll
    for (int i = 0; i < 7; i++) kept[(i * (long long)K + j) * n_rows + row] = terms[i];
  }
}

// Sums over rows on a card: each row is read once, evaluated in registers and multiplied there.
//
// A block is a team of warps with 32 rows each per step. Rows are copied to shared memory while
// those before them are worked on. First a thread evaluates a row, and leaves behind what z is
// multiplied with: `side` factors s, which give sums of s z, and Gram factors c, which give sums
// of c z z'. Then warps form those products by the card's matrix units, in double precision, in
// tiles of 8 by 8; of a symmetric matrix the tiles above the diagonal and on it. Every block
// leaves its sums behind, and they are added in the order of the blocks.
//
// Who compiles this defines: KIND, WIDTH (rows of the table), K (alternatives), WEIGHTED, TURN (1
// or -1), GRAMS and SIDES (factors of either kind), SUMS (plain sums), TEAM (warps), EACH (Gram
// factors per warp), STAGES, BLOCKS (per multiprocessor) and SHARED (bytes).

#define KNOWN 0
#define UNKNOWN_INDEX 1
#define EXACT 2
#define GIVEN 3

constexpr int TILES = (WIDTH + 7) / 8;
constexpr int COLUMNS = 8 * TILES;
constexpr int ROWS = 32 * TEAM;
constexpr int SIDE_TILES = (SIDES + 7) / 8;
constexpr int SIDES_EACH = (SIDE_TILES + TEAM - 1) / TEAM;
constexpr int NUMBERS = SUMS + SIDES * WIDTH + GRAMS * WIDTH * WIDTH;

// Numbers of one column lie side by side; every second column is turned by 8 rows, so that the 8
// columns a warp reads at once for its matrix units lie in different banks.
__device__ __forceinline__ int place_of(int column, int row) {
  return column * ROWS + (row ^ ((column & 1) << 3));
}

__device__ __forceinline__ void meet() {
  if (TEAM == 1)
    __syncwarp();
  else
    __syncthreads();
}

template <int BYTES>
__device__ __forceinline__ void copy(void *to, const void *from, bool inside) {
  const unsigned address = (unsigned)__cvta_generic_to_shared(to);
  const int present = inside ? BYTES : 0;
  if (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(present) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from),
                 "n"(BYTES), "r"(present) : "memory");
}

typedef double (&Tile)[2];

// Multiply 8 by 8 rows: those of a thread are rows 2i and 2i + 1 of its place i in its group.
__device__ __forceinline__ void multiply(Tile sum, double2 a, double2 b) {
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
      : "+d"(sum[0]), "+d"(sum[1]) : "d"(a.x), "d"(b.x));
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
      : "+d"(sum[0]), "+d"(sum[1]) : "d"(a.y), "d"(b.y));
}

// The same for two tiles on top of each other; cards from Hopper on do them at once.
__device__ __forceinline__ void multiply(Tile upper, Tile lower, double2 a, double2 c, double2 b) {
#if __CUDA_ARCH__ >= 900 && !defined(SMALL_TILES)
  asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+d"(upper[0]), "+d"(upper[1]), "+d"(lower[0]), "+d"(lower[1])
      : "d"(a.x), "d"(c.x), "d"(a.y), "d"(c.y), "d"(b.x), "d"(b.y));
#else
  multiply(upper, a, b);
  multiply(lower, c, b);
#endif
}

struct Shared {
  double z[STAGES][COLUMNS * ROWS];
  double factors[(GRAMS + SIDES) * ROWS];
  double parameters[K * COLUMNS];
  double h[K];
  double sums[TEAM][SUMS + 1];
  int codes[STAGES][ROWS];
};
static_assert(sizeof(Shared) <= SHARED, "who compiles this asks for too little shared memory");

// Start copying the rows of a step; what lies beyond the last row is zero.
__device__ __forceinline__ void fetch(Shared &shared, int stage, const double *table,
                                      const int *codes, long long first, long long n_rows,
                                      long long stride, bool aligned) {
  const int thread = threadIdx.x;
  if (aligned) {
    // Half of the threads take a column, two rows each, and the others the next one.
    const int half = thread / (ROWS / 2), row = 2 * (thread % (ROWS / 2));
    const bool one = first + row < n_rows, two = first + row + 1 < n_rows;
    const double *from = table + half * stride + first + row;
    double *to = &shared.z[stage][place_of(half, row)];
#pragma unroll
    for (int column = 0; column < WIDTH; column += 2, from += 2 * stride, to += 2 * ROWS) {
      if (column + 1 == WIDTH && half) break;
      if (two) {
        copy<16>(to, from, true);
      } else {
        copy<8>(to, one ? from : table, one);
        copy<8>(to + 1, table, false);
      }
    }
  } else {
#pragma unroll 4
    for (int column = 0; column < WIDTH; column++) {
      const bool inside = first + thread < n_rows;
      const double *from = inside ? table + column * stride + first + thread : table;
      copy<8>(&shared.z[stage][place_of(column, thread)], from, inside);
    }
  }
  if (KIND != GIVEN) {
    const bool inside = first + thread < n_rows;
    copy<4>(&shared.codes[stage][thread], inside ? codes + first + thread : codes, inside);
  }
}

// Evaluate the row of this thread; leave its factors behind and add to its plain sums.
__device__ __forceinline__ void evaluate(Shared &shared, int stage, double weight,
                                         const double *given, long long given_stride,
                                         double (&sums)[SUMS + 1]) {
  const int row = threadIdx.x;
  auto gram = [&](int i) -> double & { return shared.factors[place_of(i, row)]; };
  auto side = [&](int i) -> double & { return shared.factors[place_of(GRAMS + i, row)]; };
#if KIND == GIVEN
#pragma unroll
  for (int i = 0; i < GRAMS; i++) gram(i) = weight == 0.0 ? 0.0 : given[i * given_stride];
#else
  double a[K];
#pragma unroll
  for (int j = 0; j < K; j++) a[j] = 0.0;
#pragma unroll
  for (int column = 0; column < COLUMNS; column += 2) {
    const double one = shared.z[stage][place_of(column, row)];
    const double two = shared.z[stage][place_of(column + 1, row)];
#pragma unroll
    for (int j = 0; j < K; j++) {
      const double2 slopes = *(const double2 *)&shared.parameters[j * COLUMNS + column];
      a[j] = fma(-one, slopes.x, a[j]);
      a[j] = fma(-two, slopes.y, a[j]);
    }
  }
  const int packed = shared.codes[stage][row];
#if KIND == KNOWN
#pragma unroll
  for (int j = 0; j < K; j++) {
    const int code = (packed >> (BITS * j)) & 15;
    const KnownRow found = known_row(a[j], code, weight);
    sums[0] += found.value;
    sums[1 + j] += code == OBSERVED ? weight : 0.0;
    side(j) = found.residual;
    if (GRAMS) gram(j) = found.curvature;
  }
#else
  bool is_open = false;
#pragma unroll
  for (int j = 0; j < K; j++) {
    const bool open_here = ((packed >> (BITS * j)) & 15) == MAYBE;
    is_open |= open_here;
    a[j] = open_here ? TURN * a[j] : CLOSED;
  }
  weight = is_open ? weight : 0.0;
  const UnknownRow found = unknown_row(a, shared.h);
  // A row to which nothing is open has nothing to say, and a total of zero.
  const double inverse = 1.0 / (is_open ? found.total : 1.0);
  sums[0] += weight * (is_open ? found.value : 0.0);
  double chance[K], pull[K];
#pragma unroll
  for (int j = 0; j < K; j++) {
    // Where an alternative is closed its a is huge, and so is a + lambda.
    const bool closed = a[j] == CLOSED;
    const double excess = closed ? 0.0 : found.excess[j], ratio = closed ? 0.0 : found.ratio[j];
    chance[j] = found.share[j] * inverse;
    pull[j] = TURN * chance[j] * excess;
    side(j) = (pull[j] - TURN * ratio) * weight;
    sums[1 + j] += weight * chance[j];
    if (GRAMS) {
      // Not 1 - r: the square of a + lambda may be large where r rounds to one.
      double others = 0.0;
#pragma unroll
      for (int i = 0; i < K; i++) others += i == j ? 0.0 : found.share[i];
      others *= inverse;
      const double held = chance[j] + others * (ratio * excess);
      const double missing = chance[j] * excess * others;
      gram(j) = weight * (KIND == EXACT ? held - missing * excess : held);
      if (KIND == EXACT) side(K + K * K + j) = weight * missing;
    }
  }
#if KIND == EXACT
  int pair = K;
#pragma unroll
  for (int j = 0; j < K; j++) {
    const double drawn = weight * pull[j];
#pragma unroll
    for (int i = 0; i < K; i++) {
      side(K + j * K + i) = drawn * chance[i];
      if (i >= j) sums[1 + K + j * K + i] += weight * chance[j] * chance[i];
      if (i > j) gram(pair++) = drawn * pull[i];
    }
  }
#endif
#endif
#endif
}

extern "C" __global__ void __launch_bounds__(ROWS, BLOCKS)
    sum_rows(const double *table, const int *codes, const double *weights,
             const double *parameters, const double *given, double *out, long long n_rows,
             long long stride, long long given_stride, long long aligned) {
  extern __shared__ __align__(16) unsigned char memory[];
  Shared &shared = *(Shared *)memory;
  const int thread = threadIdx.x, lane = thread & 31, warp = TEAM == 1 ? 0 : thread >> 5;
  const int group = lane >> 2, within = 2 * (lane & 3);

  for (int stage = 0; stage < STAGES; stage++)
    for (int column = WIDTH; column < COLUMNS; column++)
      shared.z[stage][place_of(column, thread)] = 0.0;
  if (KIND != GIVEN) {
    const double *own = parameters + (long long)blockIdx.y * K * WIDTH;
    for (int i = thread; i < K * COLUMNS; i += ROWS) {
      const int j = i / COLUMNS, column = i % COLUMNS;
      shared.parameters[i] = column < WIDTH ? own[j * WIDTH + column] : 0.0;
    }
    if (thread < K) shared.h[thread] = own[thread * WIDTH + WIDTH - 1];
  }

  // Tiles of Gram matrices: those of column u are EACH * (u + 1) and then the sides'.
  double tiles[TILES][EACH * TILES + SIDES_EACH][2] = {};
  double sums[SUMS + 1] = {};
  const long long steps = (n_rows + ROWS - 1) / ROWS;
  long long step = blockIdx.x, ahead = blockIdx.x;
#pragma unroll
  for (int stage = 0; stage < STAGES - 1; stage++) {
    if (ahead < steps)
      fetch(shared, stage, table, codes, ahead * ROWS, n_rows, stride, aligned);
    asm volatile("cp.async.commit_group;");
    ahead += gridDim.x;
  }
  for (int stage = 0; step < steps; step += gridDim.x, ahead += gridDim.x) {
    const long long row = step * ROWS + thread;
    double weight = row < n_rows ? 1.0 : 0.0;
    if (WEIGHTED && row < n_rows) weight = weights[row];
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
    meet();
    if (ahead < steps)
      fetch(shared, stage == 0 ? STAGES - 1 : stage - 1, table, codes, ahead * ROWS, n_rows,
            stride, aligned);
    asm volatile("cp.async.commit_group;");
    evaluate(shared, stage, weight, given + row, given_stride, sums);
    meet();
    const double *z = shared.z[stage];
    for (int first = 0; first < ROWS; first += 8) {
      double2 here[TILES], factor[EACH + 1], sides[SIDES_EACH + 1];
#pragma unroll
      for (int t = 0; t < TILES; t++)
        here[t] = *(const double2 *)&z[place_of(8 * t + group, first + within)];
#pragma unroll
      for (int i = 0; i < EACH; i++) {
        const int own = min(warp * EACH + i, GRAMS - 1);
        factor[i] = *(const double2 *)&shared.factors[place_of(own, first + within)];
      }
#pragma unroll
      for (int i = 0; i < SIDES_EACH; i++) {
        const int own = GRAMS + min(8 * (warp * SIDES_EACH + i) + group, SIDES - 1);
        sides[i] = *(const double2 *)&shared.factors[place_of(own, first + within)];
      }
#pragma unroll
      for (int u = 0; u < TILES; u++) {
        const int n_grams = EACH * (u + 1), n_tiles = n_grams + SIDES_EACH;
        auto left = [&](int i) -> double2 {
          if (i >= n_grams) return sides[i - n_grams];
          const double2 z = here[i % (u + 1)], c = factor[i / (u + 1)];
          return make_double2(z.x * c.x, z.y * c.y);
        };
#pragma unroll
        for (int i = 0; i + 1 < n_tiles; i += 2)
          multiply(tiles[u][i], tiles[u][i + 1], left(i), left(i + 1), here[u]);
        if (n_tiles % 2) multiply(tiles[u][n_tiles - 1], left(n_tiles - 1), here[u]);
      }
    }
    stage = stage == STAGES - 1 ? 0 : stage + 1;
  }

  out += ((long long)blockIdx.y * gridDim.x + blockIdx.x) * NUMBERS;
#pragma unroll
  for (int i = 0; i < SUMS; i++) {
#pragma unroll
    for (int other = 16; other; other /= 2)
      sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], other);
    if (lane == 0) shared.sums[warp][i] = sums[i];
  }
  meet();
  for (int i = thread; i < SUMS; i += ROWS) {
    double total = 0.0;
    for (int one = 0; one < TEAM; one++) total += shared.sums[one][i];
    out[i] = total;
  }
#pragma unroll
  for (int u = 0; u < TILES; u++) {
    const int n_grams = EACH * (u + 1);
#pragma unroll
    for (int i = 0; i < n_grams + SIDES_EACH; i++) {
#pragma unroll
      for (int e = 0; e < 2; e++) {
        const int column = 8 * u + within + e;
        if (i >= n_grams) {
          const int own = 8 * (warp * SIDES_EACH + i - n_grams) + group;
          if (own < SIDES && column < WIDTH) out[SUMS + own * WIDTH + column] = tiles[u][i][e];
        } else {
          const int own = warp * EACH + i / (u + 1), t = i % (u + 1), line = 8 * t + group;
          double *gram = out + SUMS + SIDES * WIDTH + own * WIDTH * WIDTH;
          if (own < GRAMS && line < WIDTH && column < WIDTH) {
            gram[line * WIDTH + column] = tiles[u][i][e];
            if (t < u) gram[column * WIDTH + line] = tiles[u][i][e];
          }
        }
      }
    }
  }
}

"use strict";
/* What a fitted model expects of a row: chances, and means of all outcomes, with derivatives.

Cells of a row, k + k² + k numbers: the chance of each alternative g; E[y_l; g], the outcome of l
where g is chosen, times that chance, at [k + l k + g]; the latent means. Derivatives are in the
"local" parameters of the row: k means, k scales, the correlation. */

const DATA = JSON.parse(document.getElementById("data").textContent);
const ROOT_TWO_PI = Math.sqrt(2 * Math.PI);
const DIGITS = 33;
const RANGE = 8.5;

/* Density over upper tail, for x >= 0: the package's own polynomial, x and what exceeds it. */
const hazard = (x) => {
  const { centre, gap } = DATA.tail;
  const u = (x - centre) / (x + centre);
  let sum = 0;
  for (let i = gap.length - 1; i >= 0; i -= 1) sum = sum * u + gap[i];
  return x + sum / (x + centre);
};
const density = (x) => Math.exp(-0.5 * x * x) / ROOT_TWO_PI;
const below = (x) => {
  const tail = density(x) / hazard(Math.abs(x));
  return x > 0 ? 1 - tail : tail;
};
/* Density over distribution, exact where both are tiny. */
const ratio = (x) => (x > 0 ? density(x) / below(x) : hazard(-x));

const countCells = (k) => 2 * k + k * k;
const countLocal = (k) => 2 * k + 1;

/* Two alternatives, jointly normal, in closed form. */
const pairCells = (row, way) => {
  const { means, scales, correlation, costs, open } = row;
  const cells = new Float64Array(8);
  const slope = new Float64Array(8 * 5);
  cells[6] = means[0];
  cells[7] = means[1];
  slope[6 * 5] = 1;
  slope[7 * 5 + 1] = 1;
  if (!open[0] || !open[1]) {
    const g = open[0] ? 0 : 1;
    cells[g] = 1;
    for (let l = 0; l < 2; l += 1) {
      cells[2 + 2 * l + g] = means[l];
      slope[(2 + 2 * l + g) * 5 + l] = 1;
    }
    return { cells, slope };
  }
  const [one, two] = scales;
  const shared = correlation * one * two;
  const spread = Math.sqrt(one * one + two * two - 2 * shared);
  const gap = way * (means[0] - means[1]) - (costs[0] - costs[1]);
  const delta = gap / spread;
  const mass = density(delta);
  const lean = [way * (one * one - shared), way * (shared - two * two)];
  const spreadBy = [0, 0, (one - correlation * two) / spread, (two - correlation * one) / spread,
    -one * two / spread];
  const deltaBy = spreadBy.map((by) => -delta * by / spread);
  deltaBy[0] += way / spread;
  deltaBy[1] -= way / spread;
  const leanBy = [
    [0, 0, way * (2 * one - correlation * two), -way * correlation * one, -way * one * two],
    [0, 0, way * correlation * two, way * (correlation * one - 2 * two), way * one * two],
  ];
  [1, -1].forEach((sign, g) => {
    const chance = below(sign * delta);
    cells[g] = chance;
    for (let p = 0; p < 5; p += 1) slope[g * 5 + p] = sign * mass * deltaBy[p];
    for (let l = 0; l < 2; l += 1) {
      const at = 2 + 2 * l + g;
      const gain = sign * lean[l] * mass / spread;
      cells[at] = means[l] * chance + gain;
      for (let p = 0; p < 5; p += 1) {
        slope[at * 5 + p] = means[l] * slope[g * 5 + p]
          + sign * mass * (leanBy[l][p] / spread - lean[l] * spreadBy[p] / (spread * spread)
            - lean[l] * delta * deltaBy[p] / spread);
      }
      slope[at * 5 + l] += chance;
    }
  });
  return { cells, slope };
};

/* Any number of independent normal outcomes: the trapezoid rule over the chosen one's noise. */
const independentCells = (row, way) => {
  const { means, scales, costs, open } = row;
  const k = means.length;
  const width = countLocal(k);
  const cells = new Float64Array(countCells(k));
  const slope = new Float64Array(countCells(k) * width);
  const first = new Float64Array(k);
  const fall = new Float64Array(k);
  const square = new Float64Array(k);
  const cube = new Float64Array(k);
  for (let g = 0; g < k; g += 1) {
    if (!open[g]) continue;
    let steepness = 0;
    for (let m = 0; m < k; m += 1) steepness += (scales[g] / scales[m]) ** 2;
    const half = Math.ceil(RANGE / Math.sqrt(2 * Math.PI ** 2 / (DIGITS * steepness)));
    const step = RANGE / half;
    const sum = new Float64Array(k);
    const sumFall = new Float64Array(k);
    const pair = new Float64Array(k * k);
    const pairFall = new Float64Array(k * k);
    let chance = 0;
    for (let node = -half; node <= half; node += 1) {
      const z = node * step;
      let mass = density(z) * step;
      for (let m = 0; m < k; m += 1) {
        if (m === g) {
          first[m] = z; fall[m] = z * z - 1; square[m] = z * z; cube[m] = z * z * z - z;
          continue;
        }
        if (!open[m]) {
          first[m] = 0; fall[m] = 0; square[m] = 1; cube[m] = 0;
          continue;
        }
        const limit = (way * (means[g] - means[m]) - costs[g] + costs[m] + scales[g] * z)
          / scales[m];
        const lean = ratio(limit);
        mass *= below(limit);
        first[m] = -lean;
        fall[m] = -limit * lean;
        square[m] = 1 - limit * lean;
        cube[m] = -(limit * limit + 1) * lean;
      }
      if (mass === 0) continue;
      chance += mass;
      for (let l = 0; l < k; l += 1) {
        const weighted = first[l] * mass;
        sum[l] += weighted;
        sumFall[l] += fall[l] * mass;
        for (let m = 0; m < k; m += 1) {
          pair[l * k + m] += l === m ? square[l] * mass : weighted * first[m];
          pairFall[l * k + m] += l === m ? cube[l] * mass : weighted * fall[m];
        }
      }
    }
    cells[g] = chance;
    for (let m = 0; m < k; m += 1) {
      slope[g * width + m] = way * sum[m] / scales[m];
      slope[g * width + k + m] = sumFall[m] / scales[m];
    }
    for (let l = 0; l < k; l += 1) {
      const at = k + l * k + g;
      cells[at] = means[l] * chance + way * scales[l] * sum[l];
      for (let m = 0; m < k; m += 1) {
        slope[at * width + m]
          = way * (means[l] * sum[m] + way * scales[l] * pair[l * k + m]) / scales[m];
        slope[at * width + k + m]
          = (means[l] * sumFall[m] + way * scales[l] * pairFall[l * k + m]) / scales[m];
      }
    }
  }
  for (let l = 0; l < k; l += 1) {
    cells[k + k * k + l] = means[l];
    slope[(k + k * k + l) * width + l] = 1;
  }
  return { cells, slope };
};

/* Means, scales and correlation of a row from its coded numbers: covariates, costs, availability. */
const describeRow = (model, numbers, k, p) => {
  const at = (column) => (column === 0 ? 1 : numbers[column - 1]);
  const value = (place) => (place < 0 ? 1 : model.estimates[place]);
  const line = (columns, places) =>
    columns.reduce((sum, column, i) => sum + value(places[i]) * at(column), 0);
  return {
    means: model.equations.map(({ columns, places }) => line(columns, places)),
    scales: model.scales.map((scale) => {
      if (scale.value !== undefined) return scale.value;
      if (scale.place !== undefined) return value(scale.place);
      return Math.exp(value(scale.log) + line(scale.columns, scale.places));
    }),
    correlation: model.correlation.value,
    costs: Array.from(numbers.slice(p, p + k)),
    open: Array.from(numbers.slice(p + k, p + 2 * k), (number) => number !== 0),
  };
};

/* Add the derivatives of a row's cells in the estimates, times a weight, to a table (q, m). */
const carryBack = (model, numbers, row, slope, weight, total) => {
  const k = row.means.length;
  const q = countCells(k);
  const width = countLocal(k);
  const m = model.estimates.length;
  const at = (column) => (column === 0 ? 1 : numbers[column - 1]);
  const add = (local, place, factor) => {
    if (place < 0 || factor === 0) return;
    for (let cell = 0; cell < q; cell += 1) {
      total[cell * m + place] += weight * factor * slope[cell * width + local];
    }
  };
  for (let j = 0; j < k; j += 1) {
    const { columns, places } = model.equations[j];
    columns.forEach((column, i) => add(j, places[i], at(column)));
    const scale = model.scales[j];
    if (scale.place !== undefined) add(k + j, scale.place, 1);
    if (scale.log !== undefined) {
      add(k + j, scale.log, row.scales[j]);
      scale.columns.forEach((column, i) => add(k + j, scale.places[i], row.scales[j] * at(column)));
    }
  }
  add(2 * k, model.correlation.place, 1);
};

/* Average the cells of rows (value), with derivatives in the estimates (slope).

change: { subsidy: amounts by alternative, closed: whether, by alternative }. */
const averageCells = (model, rows, weights, change, way, k, p) => {
  const q = countCells(k);
  const value = new Float64Array(q);
  const slope = new Float64Array(q * model.estimates.length);
  const whole = weights ? weights.reduce((sum, one) => sum + one, 0) : rows.length;
  rows.forEach((numbers, i) => {
    const row = describeRow(model, numbers, k, p);
    row.costs = row.costs.map((cost, j) => cost - change.subsidy[j]);
    row.open = row.open.map((open, j) => open && !change.closed[j]);
    const found = k === 2 ? pairCells(row, way) : independentCells(row, way);
    const weight = (weights ? weights[i] : 1) / whole;
    for (let cell = 0; cell < q; cell += 1) value[cell] += weight * found.cells[cell];
    carryBack(model, numbers, row, found.slope, weight, slope);
  });
  return { value, slope };
};

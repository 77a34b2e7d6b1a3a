/* Numbers that are shown: quotients of sums of averaged cells, with errors by the delta method. */

const ROUNDING = 1e-9;
/* Chance below which no mean of a group is shown: too little of its outcomes' range is left. */
const NOBODY = 1e-8;

/* Where cells stand: the chance of g, the outcome of l where g is chosen, the mean of l. */
const cellPlaces = (k, offset = 0) => ({
  chance: (g) => offset + g,
  outcome: (l, g) => offset + k + l * k + g,
  mean: (l) => offset + k + k * k + l,
});

/* One sum of cells less another. */
const less = (terms, others) => [...terms, ...others.map(([cell, factor]) => [cell, -factor])];

/* Put averages before and after a change side by side. */
const joinAverages = (one, other) => {
  const value = new Float64Array(one.value.length + other.value.length);
  value.set(one.value);
  value.set(other.value, one.value.length);
  const slope = new Float64Array(one.slope.length + other.slope.length);
  slope.set(one.slope);
  slope.set(other.slope, one.slope.length);
  return { value, slope };
};

/* Evaluate Σ coefficient cell / (constant + Σ coefficient cell) with its interval.

quantity: { over: [[cell, coefficient], ...], under, underPlus, share }. */
const evaluate = (quantity, averages, model, reach) => {
  const m = model.estimates.length;
  const sum = (terms, plus) =>
    terms.reduce((total, [cell, factor]) => total + factor * averages.value[cell], plus);
  const over = sum(quantity.over, 0);
  const under = quantity.under ? sum(quantity.under, quantity.underPlus ?? 0) : 1;
  const estimate = over / under;
  if (!Number.isFinite(estimate) || Math.abs(under) < NOBODY) {
    return { estimate: NaN, error: NaN, low: NaN, high: NaN };
  }
  if (!model.matrix) return { estimate, error: NaN, low: NaN, high: NaN };
  const slope = new Float64Array(m);
  const add = (terms, factor) => {
    for (const [cell, coefficient] of terms) {
      const size = coefficient * factor;
      for (let i = 0; i < m; i += 1) slope[i] += size * averages.slope[cell * m + i];
    }
  };
  add(quantity.over, 1 / under);
  if (quantity.under) add(quantity.under, -estimate / under);
  let variance = 0;
  for (let i = 0; i < m; i += 1) {
    if (slope[i] === 0) continue;
    let along = 0;
    for (let j = 0; j < m; j += 1) along += model.matrix[i * m + j] * slope[j];
    variance += slope[i] * along;
  }
  let error = Math.sqrt(Math.max(variance, 0));
  if (error < ROUNDING * Math.abs(estimate)) error = 0;
  return { estimate, error, ...ends(estimate, error, reach, quantity.share) };
};

/* Ends of an interval; that of a share is made on the logit scale. */
const ends = (estimate, error, reach, share) => {
  if (!share || !(estimate > 0 && estimate < 1)) {
    return { low: estimate - reach * error, high: estimate + reach * error };
  }
  const odds = estimate / (1 - estimate);
  const factor = Math.exp(Math.min(reach * error / (estimate * (1 - estimate)), 700));
  return { low: odds / (factor + odds), high: odds / (1 / factor + odds) };
};

/* The gain of a over b: for all, for those who choose a, for those who do not. */
const gainQuantities = (k, a, b) => {
  const { chance, outcome, mean } = cellPlaces(k);
  const everyone = [[mean(a), 1], [mean(b), -1]];
  const chosen = [[outcome(a, a), 1], [outcome(b, a), -1]];
  return {
    ate: { over: everyone },
    att: { over: chosen, under: [[chance(a), 1]] },
    atu: {
      over: less(everyone, chosen),
      under: [[chance(a), -1]],
      underPlus: 1,
    },
  };
};

/* Who goes from where to where when alternative c alone got better (1) or worse (-1): for each pair
the cells of share, and of outcomes before and after times share. Where c got worse, whoever chose
another stays, and those who choose h afterwards chose it before or left c for it. */
const moveQuantities = (k, c, direction) => {
  const size = countCells(k);
  const before = cellPlaces(k, direction < 0 ? 0 : size);
  const after = cellPlaces(k, direction < 0 ? size : 0);
  const found = [];
  for (let h = 0; h < k; h += 1) {
    if (h === c) continue;
    const rise = (cell) => [[cell(after), 1], [cell(before), -1]];
    const share = rise((cells) => cells.chance(h));
    const atC = rise((cells) => cells.outcome(c, h));
    const atH = rise((cells) => cells.outcome(h, h));
    const [from, to] = direction < 0 ? [c, h] : [h, c];
    const [old, fresh] = direction < 0 ? [atC, atH] : [atH, atC];
    found.push({
      from,
      to,
      share: { over: share, share: true },
      before: { over: old, under: share },
      after: { over: fresh, under: share },
      change: { over: less(fresh, old), under: share },
    });
  }
  return found;
};

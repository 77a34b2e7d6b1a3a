/* The page: reads the controls, shows numbers with intervals, lines, and the calls behind them. */
{
  const find = (id) => document.getElementById(id);
  const data = DATA;
  const k = data.labels.length;
  const p = data.covariates;
  const COLOURS = ["blue", "orange", "green", "purple", "seen", "amber", "sky"];
  const DASHES = ["", "7 4", "7 3 2 3", "2 3", "10 3", "6 2 2 2 2 2", "1 3"];
  const GROUPS = {
    ate: () => "everyone with these values",
    att: (label) => `those of them who choose ${label}`,
    atu: (label) => `those of them who do not choose ${label}`,
  };

  const unpack = (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Float64Array(bytes.buffer);
  };
  const square = (lower, m) => {
    const full = new Float64Array(m * m);
    let at = 0;
    for (let i = 0; i < m; i += 1) {
      for (let j = 0; j <= i; j += 1) {
        full[i * m + j] = full[j * m + i] = lower[at];
        at += 1;
      }
    }
    return full;
  };
  for (const model of data.fits) {
    model.matrix = model.covariance && square(unpack(model.covariance), model.estimates.length);
  }
  const flat = unpack(data.rows);
  const width = p + 2 * k;
  const rows = Array.from({ length: flat.length / width },
    (_, i) => flat.subarray(i * width, (i + 1) * width));
  const nothing = { subsidy: new Array(k).fill(0), closed: new Array(k).fill(false) };

  /* Stops of the correlation's slider in order, the fit's own among them. */
  const order = data.fits.map((_, i) => i)
    .sort((a, b) => data.fits[a].correlation.value - data.fits[b].correlation.value);

  const positions = data.controls.map((control) => control.typical);
  const state = { fit: 0, to: Math.min(1, k - 1), versus: 0, along: 0, change: nothing };

  /* numbers and text */

  const written = (value, share) => {
    if (!Number.isFinite(value)) return "not known";
    if (share) return `${(100 * value).toFixed(1)}%`;
    if (value === 0) return "0";
    const size = Math.abs(value);
    return size >= 1e6 || size < 1e-4 ? value.toExponential(3) : String(Number(value.toPrecision(4)));
  };
  const withRange = (found, share) => (Number.isFinite(found.low)
    ? `${written(found.estimate, share)} (${written(found.low, share)} to ${written(found.high, share)})`
    : written(found.estimate, share));
  const cell = (name, found, share) => {
    const made = document.createElement("td");
    made.dataset.quantity = name;
    for (const part of ["estimate", "low", "high"]) made.dataset[part] = found[part];
    made.append(written(found.estimate, share));
    if (Number.isFinite(found.low)) {
      const range = document.createElement("span");
      range.className = "range";
      range.textContent = `${written(found.low, share)} to ${written(found.high, share)}`;
      made.append(range);
    }
    return made;
  };
  const line = (title, cells) => {
    const made = document.createElement("tr");
    const head = document.createElement("th");
    const text = document.createElement("bdi");
    head.scope = "row";
    text.dir = "ltr";
    text.textContent = title;
    head.append(text);
    made.append(head, ...cells);
    return made;
  };
  const fill = (id, lines) => find(id).querySelector("tbody").replaceChildren(...lines);

  /* one row */

  const numbersAt = (places) => Float64Array.from(data.numbers, (one) => {
    if (one.on === undefined) return one.value;
    const [first, second] = one.on;
    if (second === undefined) return one.values[places[first]];
    return one.values[places[first] * data.controls[second].shown.length + places[second]];
  });
  const cellsAt = (places) =>
    averageCells(data.fits[state.fit], [numbersAt(places)], null, nothing, data.way, k, p);
  const ask = (quantity, averages) =>
    evaluate(quantity, averages, data.fits[state.fit], data.reach);
  const { chance, outcome, mean } = cellPlaces(k);
  const chanceOf = (g) => ({ over: [[chance(g), 1]], share: true });
  const meanOf = (l) => ({ over: [[mean(l), 1]] });

  const showRow = () => {
    const here = cellsAt(positions);
    const chances = data.labels.map((_, g) => ask(chanceOf(g), here));
    fill("here", data.labels.map((label, g) => line(label, [
      cell(`chance-${g}`, chances[g], true),
      cell(`mean-${g}`, ask(meanOf(g), here)),
      cell(`chosen-${g}`, ask({ over: [[outcome(g, g), 1]], under: [[chance(g), 1]] }, here)),
    ])));
    if (!find("gains")) return;
    const { to, versus } = state;
    const [a, b] = [data.labels[to], data.labels[versus]];
    if (to === versus) {
      fill("gains", []);
      find("words").textContent = "Choose two different alternatives.";
      return;
    }
    const gains = gainQuantities(k, to, versus);
    fill("gains", Object.entries(GROUPS).map(([name, who]) =>
      line(who(a), [cell(name, ask(gains[name], here))])));
    find("words").textContent = `At these values the chance of ${a} is `
      + `${withRange(chances[to], true)}. The difference in mean ${data.outcome}, ${a} less ${b}, `
      + `is ${withRange(ask(gains.ate, here))}.`;
  };

  /* lines along a column */

  const drawn = (name, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const ticks = (low, high, count) => {
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((one) => one * power >= rough) * power;
    const found = [];
    for (let i = Math.ceil(low / step); i * step <= high + 1e-9 * step; i += 1) found.push(i * step);
    return found;
  };
  const look = (j) => `stroke: var(--${COLOURS[j % 7]}); stroke-dasharray: ${DASHES[j % 7] || "none"}`;

  const drawLines = (id, series, { share = false, zero = false } = {}) => {
    const control = data.controls[state.along];
    const [left, right, top, bottom] = [52, 350, 8, 205];
    const place = control.category
      ? (i) => left + (i + 0.5) / control.shown.length * (right - left)
      : (i) => left + (control.at[i] - control.at[0])
        / (control.at[control.at.length - 1] - control.at[0]) * (right - left);
    const all = series.flat().flatMap((one) => [one.low, one.high, one.estimate]).filter(Number.isFinite);
    let [low, high] = share ? [0, 1] : [Math.min(...all), Math.max(...all)];
    if (!(high > low)) [low, high] = [low - 1, high + 1];
    // Ends of intervals do not touch the frame.
    if (!share) [low, high] = [low - 0.04 * (high - low), high + 0.04 * (high - low)];
    const height = (value) => bottom - (value - low) / (high - low) * (bottom - top);
    const svg = find(id);
    const made = [];
    for (const tick of ticks(low, high, 5)) {
      const y = height(tick);
      made.push(drawn("line", { class: "axis", x1: left - 4, x2: left, y1: y, y2: y }));
      made.push(drawn("text", { x: left - 7, y: y + 4, "text-anchor": "end" },
        share ? `${Math.round(100 * tick)}%` : written(tick)));
    }
    made.push(drawn("path", { class: "axis", fill: "none",
      d: `M${left} ${top}V${bottom}H${right}` }));
    const below = (x, text) => made.push(drawn("text", { x, y: bottom + 15, "text-anchor": "middle" },
      text.length > 9 ? `${text.slice(0, 8)}…` : text));
    if (control.category) {
      const every = Math.ceil(control.shown.length / 6);
      control.shown.forEach((shown, i) => { if (i % every === 0) below(place(i), shown); });
    } else {
      const [first, last] = [control.at[0], control.at[control.at.length - 1]];
      for (const tick of ticks(first, last, 5)) {
        below(left + (tick - first) / (last - first) * (right - left), written(tick));
      }
    }
    if (zero && low < 0 && high > 0) {
      made.push(drawn("line", { class: "axis", x1: left, x2: right, y1: height(0), y2: height(0) }));
    }
    made.push(drawn("text", { x: (left + right) / 2, y: bottom + 31, "text-anchor": "middle" },
      control.name));
    series.forEach((values, j) => {
      const points = values.map((one, i) => [place(i), one]).filter(([, one]) => Number.isFinite(one.estimate));
      const banded = points.filter(([, one]) => Number.isFinite(one.low));
      if (control.category) {
        for (const [x, one] of points) {
          const at = x + (j - (k - 1) / 2) * 6;
          if (Number.isFinite(one.low)) {
            made.push(drawn("line", { class: "line", style: `stroke: var(--${COLOURS[j % 7]})`,
              x1: at, x2: at, y1: height(one.low), y2: height(one.high) }));
          }
          made.push(drawn("circle", { cx: at, cy: height(one.estimate), r: 3.5,
            style: `fill: var(--${COLOURS[j % 7]})` }));
        }
        return;
      }
      if (banded.length) {
        const up = banded.map(([x, one]) => `${x} ${height(one.high)}`);
        const down = banded.map(([x, one]) => `${x} ${height(one.low)}`).reverse();
        made.push(drawn("path", { class: "band", style: `fill: var(--${COLOURS[j % 7]})`,
          d: `M${[...up, ...down].join("L")}Z` }));
      }
      made.push(drawn("path", { class: "line", style: look(j),
        d: `M${points.map(([x, one]) => `${x} ${height(one.estimate)}`).join("L")}` }));
    });
    const now = place(positions[state.along]);
    made.push(drawn("line", { class: "now", x1: now, x2: now, y1: top, y2: bottom }));
    svg.replaceChildren(...made);
    svg.setAttribute("aria-label", `${svg.parentNode.querySelector("figcaption").textContent} `
      + `Along ${control.name}, from ${control.shown[0]} to ${control.shown[control.shown.length - 1]}.`);
  };

  const showLines = () => {
    if (!data.controls.length) return;
    const count = data.controls[state.along].shown.length;
    const averages = Array.from({ length: count }, (_, i) => {
      const places = positions.slice();
      places[state.along] = i;
      return cellsAt(places);
    });
    const each = (quantity) =>
      data.labels.map((_, g) => averages.map((one) => ask(quantity(g), one)));
    drawLines("chances", each(chanceOf), { share: true });
    drawLines("outcomes", each(meanOf));
    const { to, versus } = state;
    find("difference").parentNode.hidden = to === versus;
    if (to === versus) return;
    find("compared").textContent = `${data.labels[to]} less ${data.labels[versus]}`;
    const { ate } = gainQuantities(k, to, versus);
    drawLines("difference", [averages.map((one) => ask(ate, one))], { zero: true });
  };

  /* everyone */

  const before = new Map();
  const averagesOf = (change) => averageCells(
    data.fits[state.fit], rows, data.weights, change, data.way, k, p);
  const changes = () => {
    const found = state.change.closed.map((closed, j) => [j, closed ? -1 : 0]);
    found.push(...state.change.subsidy.map((amount, j) => [j, Math.sign(amount)]));
    return found.filter(([, direction]) => direction !== 0);
  };

  const stranded = () => rows.filter((numbers) => data.labels
    .every((_, j) => state.change.closed[j] || numbers[p + k + j] === 0)).length;

  const showChange = () => {
    const left = stranded();
    if (left) {
      find("moved").textContent = `Nothing would be left to ${left} rows: open something again.`;
      find("moves").parentNode.hidden = true;
      ["shares", "moves"].forEach((name) => fill(name, []));
      return;
    }
    if (!before.has(state.fit)) before.set(state.fit, averagesOf(nothing));
    const made = changes();
    const both = joinAverages(before.get(state.fit),
      made.length ? averagesOf(state.change) : before.get(state.fit));
    const then = cellPlaces(k, countCells(k));
    const three = (name, old, fresh, share) => [
      cell(`${name}-before`, ask({ over: old, share }, both), share),
      ...(made.length ? [
        cell(`${name}-after`, ask({ over: fresh, share }, both), share),
        cell(`${name}-change`, ask({ over: less(fresh, old) }, both), share),
      ] : []),
    ];
    const each = data.labels.map((_, g) => g);
    const lines = each.map((g) => line(`share of ${data.labels[g]}`,
      three(`share-${g}`, [[chance(g), 1]], [[then.chance(g), 1]], true)));
    lines.push(line(`mean ${data.outcome}`, three("observed",
      each.map((g) => [outcome(g, g), 1]), each.map((g) => [then.outcome(g, g), 1]))));
    if (state.change.subsidy.some((amount) => amount !== 0)) {
      const paid = each.map((g) => [then.chance(g), state.change.subsidy[g]]);
      const empty = document.createElement("td");
      lines.push(line("subsidies paid, per row",
        [empty, cell("paid", ask({ over: paid }, both)), empty.cloneNode()]));
    }
    fill("shares", lines);
    showMoves(made, both);
  };

  const showMoves = (made, both) => {
    const table = find("moves").parentNode;
    table.hidden = made.length !== 1;
    if (made.length !== 1) {
      find("moved").textContent = made.length
        ? "Who moves is shown where one thing is changed at a time; counterfactual() simulates the rest."
        : "Nothing is changed yet: move the slider, or close an alternative.";
      fill("moves", []);
      return;
    }
    const moves = moveQuantities(k, ...made[0]);
    const found = moves.map((one) => ({
      ...one, size: ask(one.share, both),
    })).filter((one) => one.size.estimate > NOBODY);
    const everyone = ask({ over: moves.flatMap((one) => one.share.over) , share: true }, both);
    find("moved").textContent = found.length
      ? `${withRange(everyone, true)} of all move.` : "Nobody moves.";
    fill("moves", found.map((one) => {
      const name = `move-${one.from}-${one.to}`;
      return line(`${data.labels[one.from]} → ${data.labels[one.to]}`, [
        cell(`${name}-share`, one.size, true),
        ...["before", "after", "change"].map((what) => cell(`${name}-${what}`, ask(one[what], both))),
      ]);
    }));
  };

  /* the calls */

  const showCall = () => {
    const model = data.fits[state.fit];
    const set = data.controls.map((control, i) => [control, positions[i]])
      .filter(([control, place]) => place !== control.typical)
      .map(([control, place]) => `${control.code}: ${control.codes[place]}`);
    const at = set.length ? `{${set.join(", ")}}` : "'means'";
    const level = data.level === 0.95 ? "" : `, level=${data.level}`;
    const [to, versus] = [data.codes[state.to], data.codes[state.versus]];
    const given = data.given ? "data=data, " : "";
    const lines = [data.given
      ? "# result is the fit, data the table that the page was made with."
      : "# result is the fit."];
    if (model.assumed !== null) {
      lines.push(`# At the assumed correlation it is fitted again: ss.fit(..., noise=${model.code})`);
    }
    lines.push(`result.choice_probabilities(${given}at=${at}${level})`);
    lines.push(`result.potential_outcomes(${given}at=${at}${level})`);
    if (to !== versus) {
      lines.push(`result.treatment_effects(${to}, ${versus}, ${given}at=${at}${level})`);
    }
    const parts = [];
    const paid = state.change.subsidy
      .map((amount, j) => (amount ? `${data.codes[j]}: ${amount}` : "")).filter(Boolean);
    const shut = state.change.closed
      .map((closed, j) => (closed ? data.codes[j] : "")).filter(Boolean);
    if (paid.length) parts.push(`subsidy={${paid.join(", ")}}`);
    if (shut.length) parts.push(`close=[${shut.join(", ")}]`);
    if (parts.length) {
      if (data.base) parts.push(data.base);
      lines.push(`result.counterfactual(${parts.join(", ")}, covariates='fixed'${level})`);
    }
    /* Each quoted part runs in the direction of its own letters. */
    find("call").replaceChildren(...lines.join("\n").split(/('(?:[^'\\]|\\.)*')/).map((part, i) => {
      if (i % 2 === 0) return part;
      const quoted = document.createElement("bdi");
      quoted.textContent = part;
      return quoted;
    }));
  };

  /* what happens when something is moved */

  const wanted = new Set();
  const parts = { row: showRow, lines: showLines, change: showChange, call: showCall };
  const show = (...names) => {
    if (!wanted.size) {
      requestAnimationFrame(() => {
        for (const name of wanted) parts[name]();
        wanted.clear();
      });
    }
    names.forEach((name) => wanted.add(name));
  };
  const say = (input, text) => {
    const output = input.parentNode.querySelector("output");
    if (output) output.textContent = text;
    input.setAttribute("aria-valuetext", text);
  };
  const inputs = [...document.querySelectorAll("[data-control]")];
  const sayAll = () => inputs.forEach((input, i) => say(input, data.controls[i].shown[positions[i]]));

  data.controls.forEach((control) => { control.at = control.category ? null : control.shown.map(Number); });
  inputs.forEach((input, i) => input.addEventListener("input", () => {
    positions[i] = Number(input.value);
    state.along = i;
    find("along").value = String(i);
    say(input, data.controls[i].shown[positions[i]]);
    show("row", "lines", "call");
  }));
  const correlation = find("correlation");
  const sayCorrelation = () => {
    const model = data.fits[state.fit];
    say(correlation, `${written(model.correlation.value)}${model.assumed === null ? " as fitted" : " assumed"}`);
  };
  if (correlation) {
    correlation.value = String(order.indexOf(0));
    correlation.addEventListener("input", () => {
      state.fit = order[Number(correlation.value)];
      sayCorrelation();
      show("row", "lines", "change", "call");
    });
    sayCorrelation();
  }
  find("controls").addEventListener("reset", (event) => {
    event.preventDefault();
    data.controls.forEach((control, i) => {
      positions[i] = control.typical;
      inputs[i].value = String(control.typical);
    });
    state.fit = 0;
    if (correlation) {
      correlation.value = String(order.indexOf(0));
      sayCorrelation();
    }
    sayAll();
    show("row", "lines", "change", "call");
  });
  for (const name of ["to", "versus"]) {
    find(name)?.addEventListener("input", () => {
      state[name] = Number(find(name).value);
      show("row", "lines", "call");
    });
  }
  find("along")?.addEventListener("input", () => {
    state.along = Number(find("along").value);
    show("lines");
  });

  const boxes = [...document.querySelectorAll("[data-close]")];
  const readChange = () => {
    const amount = data.amounts[Number(find("amount").value)];
    say(find("amount"), String(amount));
    const closed = boxes.map((box) => box.checked);
    boxes.forEach((box) => {
      box.disabled = !box.checked && closed.filter((one) => !one).length === 1;
    });
    const subsidy = new Array(k).fill(0);
    subsidy[Number(find("subsidised").value)] = amount;
    state.change = { subsidy, closed };
    show("change", "call");
  };
  find("changes").addEventListener("input", readChange);
  find("changes").addEventListener("reset", (event) => {
    event.preventDefault();
    boxes.forEach((box) => { box.checked = false; });
    find("amount").value = String((data.amounts.length - 1) / 2);
    readChange();
  });

  find("copy").addEventListener("click", async () => {
    const text = find("call").textContent;
    try {
      await navigator.clipboard.writeText(text);
      find("copied").textContent = "Copied.";
    } catch {
      getSelection().selectAllChildren(find("call"));
      find("copied").textContent = "Selected: copy it with the keyboard.";
    }
  });

  const root = document.documentElement;
  const dark = () => (root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches);
  find("theme").addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; });

  const legend = find("legend");
  legend?.append(...data.labels.map((label, j) => {
    const entry = document.createElement("li");
    const text = document.createElement("bdi");
    const swatch = drawn("svg", { viewBox: "0 0 36 12", "aria-hidden": "true" });
    swatch.append(drawn("line", { class: "line", style: look(j), x1: 0, x2: 36, y1: 6, y2: 6 }));
    text.textContent = label;
    entry.append(swatch, text);
    return entry;
  }));
  sayAll();
  readChange();
  show("row", "lines", "change", "call");
}

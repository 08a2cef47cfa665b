// Live runs of a study beside what the simulation predicts.

const kLiveSeries = {predicted_parallel_ns: "predicted", parallel_ns: "live, median", least_parallel_ns: "live, least",
  greatest_parallel_ns: "live, greatest"};

function livePointName(row, varied) {
  return row.oversubscribed === "yes" ? [...pointWords(row, varied), "oversubscribed"].join(", ") : pointName(row, varied);
}

function numberOf(text) {
  return isNumber(text) ? Number(text) : null;
}

function liveFigure(program, rows, varied, source) {
  const {live} = source;
  const more = rows.some((row) => row.oversubscribed === "yes") ? "; oversubscribed: with more threads than processors" : "";
  return {
    title: `${program}: time in parallel(), live and predicted`,
    about: `live on ${live.host || "this host"}, ${live.processors} processors, ${live.repetitions} runs of each point${more}`,
    kind: "bars", x: {label: "point", values: rows.map((row) => livePointName(row, varied))},
    series: Object.entries(kLiveSeries).map(([key, name]) => ({name, values: rows.map((row) => numberOf(row[key]))})),
    y: "nanoseconds", command: source.command,
  };
}

function liveTable(source, columns, rows) {
  const varied = columns.slice(2, columns.indexOf("runs"));
  const figures = columns.slice(columns.indexOf("runs"));
  const row = (point) => [programOf(point), ...varied.map((key) => point[key] || ""),
    ...figures.map((name) => isNumber(point[name]) ? Number(point[name]) : point[name] || null)];
  return dataTable(`Live runs of ${source.label}, medians`, ["program", ...varied, ...figures.map((name) => name.replaceAll("_", " "))],
    rows.map(row), source.command);
}

function liveSection(source) {
  const {live, label} = source;
  const {columns, rows} = readTable(live.medians_csv);
  const varied = variedOf(rows, columns.slice(2, columns.indexOf("runs")));
  const programs = [...new Set(rows.map(programOf))];
  const reasons = [["Failed live runs", live.failed], ["Points refused as live runs", live.refused],
    ["Points that are only simulated", live.only_simulated]];
  return element("section", {id: "live"}, element("h2", {}, `Live runs of ${label} beside their prediction`),
    live.missing > 0 ? element("p", {}, `${live.missing} live runs have not run yet.`) : null,
    element("p", {class: "quiet"}, "The prediction is the simulated time with the model's costs. It is of this host only if the model is."),
    element("div", {class: "charts"}, ...programs.map((program) =>
      figureElement(liveFigure(program, rows.filter((row) => programOf(row) === program), varied, source)))),
    rows.length === 0 ? null : liveTable(source, columns, rows),
    element("div", {class: "controls"}, element("span", {}, "Each live run:"), downloadButton(`each live run of ${label}`, () => live.csv)),
    ...reasons.filter(([, list]) => list.length > 0).map(([title, list]) =>
      dataTable(`${title} of ${label}`, ["point", "why"], list.map((one) => [one.what, one.why]), source.command)));
}

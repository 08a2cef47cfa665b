// The pages of studies: charts of any figure over any setting, the points, and two studies side by side.

const kFigures = {
  parallel_cycles: "time in parallel(), cycles", whole_cycles: "time of the run, cycles", messages: "messages",
  message_bytes: "bytes of a message, mean", messages_per_million_cycles: "messages in a million cycles",
  messages_per_million_cycles_and_cluster: "messages in a million cycles and cluster",
  message_cycles: "time of a message, cycles", wait_to_send_cycles: "waiting to be sent, cycles", send_cycles: "being sent, cycles",
  network_cycles: "on the network, cycles", wait_for_link_cycles: "waiting for the link, cycles",
  wait_to_receive_cycles: "waiting to be received, cycles", receive_cycles: "being received, cycles",
  queue: "queue length at a proxy, mean", utilisation: "utilisation of a proxy, mean", most_queued: "longest queue",
  largest_utilisation: "largest utilisation of a proxy",
};
const kShownAtFirst = ["parallel_cycles", "message_cycles", "queue", "utilisation"];
const kNotFigures = ["trace_hash", "deterministic", "point", "real_seconds", "hand_overs", "events"];
const kSeed = "faults.seed";

function programOf(row) {
  return [row.application.split("/").pop(), row.arguments].filter((word) => word !== "").join(" ");
}

// points.csv as objects; the settings stand before the first figure.
function readStudy(source, index) {
  const {columns, rows} = readTable(source.csv);
  const first = columns.indexOf("parallel_cycles");
  const settings = columns.slice(0, first);
  const figures = columns.slice(first).filter((name) => !kNotFigures.includes(name));
  const points = rows.map((row) => ({source: index, ...row, program: programOf(row)}));
  return {source, settings, figures, points};
}

function studies() {
  return report.sources.map((source, index) => source.kind === "study" ? readStudy(source, index) : null)
    .filter((study) => study !== null);
}

const several = () => report.sources.length > 1;

// Settings whose values differ among the points, without programs and seeds.
function variedOf(points, settings) {
  return settings.filter((key) => key !== "application" && key !== "arguments" && key !== kSeed &&
    new Set(points.map((point) => point[key])).size > 1);
}

// What tells a point from the others of its program.
function pointWords(point, keys) {
  return keys.map((key) => `${key.split(".").pop()} ${wordsOf(point[key] || "default")}`);
}
function pointName(point, keys) {
  return pointWords(point, keys).join(", ") || "all points";
}

function firstNumeric(keys, points) {
  const numeric = keys.filter((key) => points.every((point) => isNumber(point[key] ?? "")));
  return ["proxies", "compute", "clusters"].find((key) => numeric.includes(key)) ?? numeric[0] ?? keys[0];
}

// Points that differ in their seed are samples of one thing.
function seriesOver(points, x, keys, figure) {
  const groups = new Map();
  for (const point of points) {
    const words = pointWords(point, keys);
    if (several()) words.unshift(report.sources[point.source].label);
    const name = words.join(", ") || "all points";
    if (!groups.has(name)) groups.set(name, {points: [], mode: point["simulation.mode"], source: point.source,
      color: words.filter((word) => !word.startsWith("mode ")).join()});
    groups.get(name).points.push(point);
  }
  const values = distinct(points.map((point) => point[x] ?? ""));
  const colors = [...new Set([...groups.values()].map((group) => group.color))];
  const series = [...groups].map(([name, group]) => ({
    name, color: colors.indexOf(group.color), dash: {"no-delay": "short", "no-contention": "long"}[group.mode] ?? "none",
    values: values.map((value) => {
      const found = group.points.filter((point) => (point[x] ?? "") === value && isNumber(point[figure] ?? ""));
      return found.length === 0 ? null : median(found.map((point) => Number(point[figure])));
    }),
  }));
  return {x: {label: x, values}, series};
}

function figureOver(points, program, x, keys, figure) {
  const seeds = new Set(points.map((point) => point[kSeed] ?? "")).size;
  const {x: over, series} = seriesOver(points, x, keys, figure);
  const numeric = over.values.length > 1 && over.values.every(isNumber);
  return {
    title: `${program}: ${kFigures[figure] ?? figure}`, about: seeds > 1 ? `median of ${seeds} seeds` : "",
    kind: numeric ? "line" : "bars", x: over, series, y: kFigures[figure] ?? figure,
    command: [...new Set(points.map((point) => report.sources[point.source].command))].join("\n"),
  };
}

function choice(label, values, chosen, change) {
  const select = element("select", {onchange: () => change(select.value)},
    ...values.map(([value, text]) => element("option", {value, selected: value === chosen}, text)));
  return element("label", {}, `${label} `, select);
}

const kDefault = "default";  // in place of a value: the setting was not given

const view = {figures: null, x: null, filters: {}};  // what the user chose, kept from page to page

function chooser(all, x, varied, redraw) {
  const figures = [...new Set(all.flatMap((study) => study.figures))];
  const box = (name) => element("label", {}, element("input", {type: "checkbox", checked: view.figures.includes(name),
    onchange: (event) => {
      view.figures = event.target.checked ? [...view.figures, name] : view.figures.filter((other) => other !== name);
      redraw();
    }}), ` ${kFigures[name] ?? name}`);
  const points = all.flatMap((study) => study.points);
  const filters = varied.filter((key) => key !== x).map((key) => choice(key,
    [["", "all"], ...distinct(points.map((point) => point[key] || kDefault)).map((value) => [value, wordsOf(value)])],
    view.filters[key] ?? "", (value) => { view.filters[key] = value; redraw(); }));
  return element("div", {},
    element("details", {}, element("summary", {}, "Choose figures"),
      element("fieldset", {}, element("legend", {}, "Figures"), element("div", {class: "controls"}, ...figures.map(box)))),
    element("div", {class: "controls"},
      choice("Over", varied.map((key) => [key, key]), x, (value) => { view.x = value; redraw(); }), ...filters));
}

function chartsOf(all) {
  const points = all.flatMap((study) => study.points);
  if (points.length === 0) return element("p", {}, "No point has finished.");
  const settings = [...new Set(all.flatMap((study) => study.settings))];
  const varied = variedOf(points, settings);
  if (varied.length === 0) varied.push("proxies");
  view.figures ??= kShownAtFirst;
  const place = element("div", {});
  const redraw = () => {
    dropCharts(place);
    const x = varied.includes(view.x) ? view.x : firstNumeric(varied, points);
    const keys = varied.filter((key) => key !== x);
    const chosen = points.filter((point) => keys.every((key) => !view.filters[key] || (point[key] || kDefault) === view.filters[key]));
    const programs = [...new Set(chosen.map((point) => point.program))];
    const figures = programs.flatMap((program) => {
      const named = variedOf(points.filter((point) => point.program === program), keys);
      const own = chosen.filter((point) => point.program === program);
      return view.figures.map((figure) => figureElement(figureOver(own, program, x, named, figure)));
    });
    place.replaceChildren(chooser(all, x, varied, redraw), element("div", {class: "charts"}, ...figures));
  };
  redraw();
  return place;
}

function pointLink(point) {
  return `#/point/${point.source}/${point.point}`;
}

// A table of the points; the first column leads to a point's page.
function pointsTable(study) {
  const varied = variedOf(study.points, study.settings);
  const seeds = study.settings.includes(kSeed) ? [kSeed] : [];
  const columns = ["program", ...varied, ...seeds, ...kShownAtFirst, "page"];
  const row = (point) => [point.program, ...[...varied, ...seeds].map((key) => point[key] || ""),
    ...kShownAtFirst.map((name) => isNumber(point[name]) ? Number(point[name]) : null), point.point];
  const links = {[columns.length - 1]: (cells) => `#/point/${study.points[0].source}/${cells.at(-1)}`};
  const place = element("div", {}, tableOf("Points", columns, study.points.map(row), links));
  const find = element("input", {type: "search", oninput: () => {
    const words = find.value.toLowerCase().split(" ");
    const rows = study.points.map(row).filter((cells) => words.every((word) => cells.join(" ").toLowerCase().includes(word)));
    place.replaceChildren(tableOf("Points", columns, rows, links));
    announce(`${rows.length} points`);
  }});
  return element("div", {}, element("div", {class: "controls"}, element("label", {}, "Find points ", find),
    downloadButton(`points of ${study.source.label}`, () => study.source.csv)), place);
}

function studySection(study) {
  const {source, points} = study;
  const state = [`${points.length} points`, source.failed.length > 0 ? `${source.failed.length} failed` : "",
    source.missing > 0 ? `${source.missing} not run yet` : ""].filter((part) => part !== "").join(", ");
  return element("section", {}, element("h2", {}, `Points of ${source.label}`), element("p", {}, `${state}.`),
    commandOf(source.command), source.text === "" ? null : commandOf(source.text, "the study's file"),
    source.failed.length === 0 ? null
      : dataTable(`Failed points of ${source.label}`, ["point", "why"], source.failed.map((f) => [f.what, f.why]), source.command),
    points.length === 0 ? null : pointsTable(study));
}

function overview() {
  const all = studies();
  const runs = report.sources.map((source, index) => ({source, index})).filter(({source}) => source.kind !== "study");
  return element("div", {}, element("h1", {}, report.sources.map((source) => source.label).join(" and ")),
    all.length > 0 ? chartsOf(all) : null,
    ...report.sources.filter((source) => source.live !== undefined).map(liveSection),
    ...report.sources.filter((source) => source.mva !== undefined).map(mvaSection), ...all.map(studySection),
    runs.length > 0 ? element("section", {}, element("h2", {}, "Runs"), element("ul", {}, ...runs.map(({source, index}) =>
      element("li", {}, element("a", {href: `#/point/${index}/run`}, `${source.label}: ${embedded(`point-${index}-run`).title}`), ` (${source.kind})`)))) : null);
}

// --- Side by side

function keyOf(point, keys) {
  return keys.map((key) => point[key] ?? "").join("\n");
}

function compareStudies(all) {
  const keys = all[0].settings.filter((key) => all[1].settings.includes(key));
  const [own, others] = all.map((study) => Map.groupBy(study.points, (point) => keyOf(point, keys)));
  const found = [...own].filter(([key]) => others.has(key)).map(([key, points]) => [points, others.get(key)]);
  const pairs = found.filter((both) => both.every((points) => points.length === 1)).map(([[first], [second]]) => [first, second]);
  const figures = all[0].figures.filter((name) => all[1].figures.includes(name));
  const ownSettings = all.flatMap((study) => variedOf(study.points, study.settings)).filter((key) => !keys.includes(key));
  const [a, b] = all.map((study) => study.source.label);
  const place = element("div", {});
  const show = (figure) => {
    dropCharts();
    const varied = variedOf(pairs.map(([point]) => point), keys);
    const seeds = keys.includes(kSeed) ? [kSeed] : [];
    const name = (point) => [point.program, ...[...varied, ...seeds].map((key) => `${key} ${point[key] || "default"}`)].join(", ");
    const found = pairs.filter((pair) => pair.every((point) => isNumber(point[figure] ?? "")));
    const values = found.map((pair) => pair.map((point) => Number(point[figure])));
    const ratios = values.map(([first, second]) => first === 0 ? null : second / first);
    const command = all.map((study) => study.source.command).join("\n");
    const title = `${kFigures[figure] ?? figure}, ${b} against ${a}`;
    place.replaceChildren(
      choice("Figure", figures.map((other) => [other, kFigures[other] ?? other]), figure, show),
      figureElement({title: `Ratio of ${title}`, about: found.length > 60 ? `the first 60 of ${found.length}; the table below has all` : "",
        kind: "lying", wide: true, x: {label: "point", values: found.slice(0, 60).map(([point]) => name(point))},
        series: [{name: `${b} / ${a}`, values: ratios.slice(0, 60)}], y: `${b} / ${a}`, command}),
      dataTable(title, ["point", a, b, "ratio"], found.map(([point], i) => [name(point), ...values[i], ratios[i]]), command));
  };
  show("parallel_cycles");
  return element("div", {}, element("h1", {}, `${b} against ${a}`),
    element("p", {}, `${pairs.length} points are in both, of ${all[0].points.length} and ${all[1].points.length}.`),
    pairs.length === found.length ? null : element("p", {}, "Points that differ only in settings which one of the studies varies have no single " +
      `counterpart in the other, and are left out: ${ownSettings.join(", ")}.`),
    pairs.length === 0 ? null : place);
}

// The numbers of a run's report, by their place in it.
function numbersIn(json, place = "", numbers = new Map()) {
  for (const [key, value] of Object.entries(json)) {
    const here = place === "" ? key : `${place}.${key}`;
    if (typeof value === "number") numbers.set(here, value);
    else if (value !== null && typeof value === "object" && !Array.isArray(value)) numbersIn(value, here, numbers);
  }
  return numbers;
}

function compareRuns(indices) {
  const runs = indices.map((index) => numbersIn(embedded(`point-${index}-run`)));
  const [a, b] = indices.map((index) => report.sources[index].label);
  const rows = [...runs[0]].filter(([key]) => runs[1].has(key))
    .map(([key, value]) => [key, value, runs[1].get(key), value === 0 ? null : runs[1].get(key) / value]);
  return element("div", {}, element("h1", {}, `${b} against ${a}`),
    dataTable("All numbers that both have", ["figure", a, b, "ratio"], rows,
      indices.map((index) => report.sources[index].command).join("\n")));
}

function comparison() {
  const all = studies();
  if (all.length >= 2) return compareStudies(all);
  const indices = report.sources.map((source, index) => index).filter((index) => report.sources[index].kind !== "study");
  return indices.length >= 2 ? compareRuns(indices) : element("p", {}, "A study and a run have no points in common.");
}

// A figure: one object from which its chart, its table and its download are made, so they cannot differ.
//
//   {title, about, kind, x: {label, values, end?}, series: [{name, values, dash?, color?}], y, command, tall?, wide?}
//
// kind: "line" (over words or steps), "time" (a line over numbers), "bars", "stacked", "lying" (stacked, each bar a line of text).

const charts = new Set();  // those on the page

function styleOf(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const kPointStyles = ["circle", "rect", "triangle", "rectRot", "cross", "star", "crossRot", "rectRounded"];
const kDashes = {none: [], short: [3, 3], long: [8, 4]};
const kColors = 8;

const isLine = (figure) => figure.kind === "line" || figure.kind === "time";
const numberOfColor = (series, index) => series.color ?? index;

function colorOf(index) {
  return styleOf(`--series-${index % kColors + 1}`);
}

// More series than colours differ by what else is drawn: lines by dashes and points, areas by stripes.
function dashOf(figure, series, index) {
  const round = Math.floor(numberOfColor(series, index) / kColors);
  return series.dash ?? (figure.kind === "time" ? Object.keys(kDashes)[round % 3] : "none");
}
function pointOf(series, index) {
  const number = numberOfColor(series, index);
  return kPointStyles[(number + Math.floor(number / kColors)) % kPointStyles.length];
}
function stripesOf(index) {
  return ["none", "rising", "falling"][Math.floor(index / kColors) % 3];
}

function fillOf(index) {
  const color = colorOf(index), stripes = stripesOf(index);
  if (stripes === "none") return color;
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const pen = tile.getContext("2d");
  pen.strokeStyle = color;
  pen.lineWidth = 3;
  for (const shift of [-8, 0, 8]) {
    pen.moveTo(shift, stripes === "rising" ? 8 : 0);
    pen.lineTo(shift + 8, stripes === "rising" ? 0 : 8);
  }
  pen.stroke();
  return pen.createPattern(tile, "repeat");
}

// Series differ by shape as well as by colour.
function datasetOf(figure, series, index) {
  const number = numberOfColor(series, index);
  const points = figure.kind === "time"
    ? series.values.map((value, i) => ({x: figure.x.values[i], y: value})) : series.values;
  if (!isLine(figure)) return {label: series.name, data: points, backgroundColor: fillOf(number), borderWidth: 0};
  return {label: series.name, data: points, backgroundColor: colorOf(number), borderColor: colorOf(number), borderWidth: 2,
    borderDash: kDashes[dashOf(figure, series, index)], spanGaps: true, pointStyle: pointOf(series, index),
    pointRadius: figure.kind === "time" ? 0 : 4, stepped: figure.kind === "time" ? "before" : false};
}

function axis(title, extra) {
  const color = styleOf("--text"), line = styleOf("--line");
  return {title: {display: title !== "", text: title, color}, grid: {color: line, borderColor: line}, ...extra, ticks: {color, ...extra?.ticks}};
}

// --- Words at an axis

const kLabelChars = 30, kWideLabelChars = 64, kLabelLines = 3;

// A value of a setting for people: a list, which is JSON in the tables, in words; what differs in its cluster only, once,
// and without what an entry does not have (-1).
function wordsOf(value) {
  const text = shown(value) || "default";
  if (!text.startsWith("[")) return text;
  let list;
  try { list = JSON.parse(text); } catch { return text; }
  const groups = new Map();
  for (const {cluster, kind, ...rest} of list) {
    const words = [kind ?? "", ...Object.entries(rest).filter(([, part]) => part !== -1).map(([key, part]) => `${key} ${part}`)].join(" ").trim();
    groups.set(words, [...(groups.get(words) ?? []), ...(cluster === undefined ? [] : [cluster])]);
  }
  const all = [...groups].map(([words, clusters]) =>
    clusters.length === 0 ? words : `${words} cluster${clusters.length > 1 ? "s" : ""} ${clusters.join(", ")}`);
  return all.join("; ") || "none";
}

function linesOf(value, chars) {
  const lines = [""];
  for (const word of wordsOf(value).split(" ")) {
    if (lines.at(-1) !== "" && lines.at(-1).length + word.length >= chars) lines.push("");
    lines.push(`${lines.pop()} ${word}`.trim());
  }
  return lines.length <= kLabelLines ? lines : [...lines.slice(0, kLabelLines - 1), `${lines[kLabelLines - 1]} …`];
}

// One list of lines for each bar. Where shortening makes two alike, they are numbered, as the table's rows are.
function labelsOf(figure) {
  const chars = figure.wide && document.documentElement.clientWidth > 900 ? kWideLabelChars : kLabelChars;
  const labels = figure.x.values.map((value) => linesOf(value, chars));
  if (new Set(labels.map(String)).size === labels.length) return labels;
  return labels.map((lines, i) => [`${i + 1}: ${lines[0]}`, ...lines.slice(1)]);
}

// Bars lie where their names would not stand beside each other.
function liesDown(figure) {
  if (figure.kind !== "bars") return figure.kind === "lying";
  const lengths = figure.x.values.map((value) => wordsOf(value).length);
  return lengths.some((length) => length > 16) || (lengths.length > 8 && sum(lengths) > 200);
}

// In rem.
function heightOf(figure) {
  if (!liesDown(figure)) return figure.tall ? 34 : 20;
  const lines = Math.max(...labelsOf(figure).map((label) => label.length), 1);
  const bar = Math.max(figure.kind === "lying" ? 1.25 : 0.6 * figure.series.length + 0.5, lines + 0.4);
  return Math.max(9, 5 + bar * figure.x.values.length);
}

function optionsOf(figure) {
  const lying = liesDown(figure), stacked = figure.kind === "lying" || figure.kind === "stacked";
  const labels = lying ? labelsOf(figure) : [];
  const words = axis(figure.x.label, {stacked, ...(figure.kind === "time" ? {type: "linear", min: 0, max: figure.x.end} : {}),
    ...(lying ? {ticks: {autoSkip: false, callback: (_, i) => labels[i]}} : {})});
  const numbers = axis(figure.y, {stacked, beginAtZero: true});
  return {
    animation: false, responsive: true, maintainAspectRatio: false, indexAxis: lying ? "y" : "x",
    interaction: {mode: "index", axis: lying ? "y" : "x", intersect: false},
    scales: lying ? {x: numbers, y: words} : {x: words, y: numbers},
    plugins: {legend: {display: false}},
  };
}

// --- The legend: of the page and not of the canvas, so that it wraps, is read aloud and takes nothing from the plot

const kMarks = {
  circle: "<circle cx='16' cy='7' r='4'/>", rect: "<rect x='12.5' y='3.5' width='7' height='7'/>",
  triangle: "<path d='M16 2.5 L20.5 10.5 L11.5 10.5 Z'/>", rectRot: "<path d='M16 2 L21 7 L16 12 L11 7 Z'/>",
  cross: "<path d='M16 2 V12 M11 7 H21'/>", crossRot: "<path d='M12 3 L20 11 M12 11 L20 3'/>",
  star: "<path d='M16 2 V12 M11 7 H21 M12 3 L20 11 M12 11 L20 3'/>",
  rectRounded: "<rect x='12.5' y='3.5' width='7' height='7' rx='2'/>",
};

function swatchOf(figure, series, index) {
  const number = numberOfColor(series, index), color = `var(--series-${number % kColors + 1})`;
  if (!isLine(figure)) return element("span", {class: `swatch ${stripesOf(number)}`, style: `--color: ${color}`, "aria-hidden": "true"});
  const made = element("span", {class: "swatch line", "aria-hidden": "true"});
  made.innerHTML = `<svg width="32" height="14" style="stroke: ${color}; fill: ${color}" stroke-width="2">` +
    `<path d="M0 7 H32" stroke-dasharray="${kDashes[dashOf(figure, series, index)].join(" ")}"/>` +
    `${figure.kind === "time" ? "" : kMarks[pointOf(series, index)]}</svg>`;
  return made;
}

// `chart`: a function, for the chart is drawn later.
function legendOf(figure, chart) {
  if (figure.series.length < 2) return null;
  return element("ul", {class: "legend", "aria-label": "Series"}, ...figure.series.map((series, i) => {
    const key = element("button", {type: "button", "aria-pressed": "true", title: "Hide or show it", onclick: () => {
      const visible = !chart().isDatasetVisible(i);
      chart().setDatasetVisibility(i, visible);
      chart().update("none");
      key.setAttribute("aria-pressed", String(visible));
    }}, swatchOf(figure, series, i), wordsOf(series.name));
    return element("li", {}, key);
  }));
}

function drawn(figure, canvas) {
  const type = isLine(figure) ? "line" : "bar";
  const chart = new Chart(canvas, {
    type,
    data: {labels: figure.kind === "time" ? undefined : figure.x.values,
      datasets: figure.series.map((series, i) => datasetOf(figure, series, i))},
    options: optionsOf(figure),
  });
  chart.figure = figure;
  charts.add(chart);
  return chart;
}

// Light or dark has changed, or the page is printed.
function recolor() {
  for (const chart of charts) {
    if (chart.restyle !== undefined) { chart.restyle(); continue; }
    chart.options = optionsOf(chart.figure);
    chart.data.datasets = chart.figure.series.map((series, i) => datasetOf(chart.figure, series, i));
    chart.update("none");
  }
}

// Those in `place`; without it all.
function dropCharts(place = null) {
  for (const chart of charts) {
    if (place !== null && !place.contains(chart.canvas)) continue;
    chart.destroy();
    charts.delete(chart);
  }
}

function columnsOf(figure) {
  return [figure.x.label || "name", ...figure.series.map((series) => series.name)];
}

function rowsOf(figure) {
  return figure.x.values.map((x, i) => [x, ...figure.series.map((series) => series.values[i] ?? null)]);
}

function tableOf(title, columns, rows, links = {}) {
  const head = element("tr", {}, ...columns.map((name, i) => element("th", {scope: "col", class: i === 0 || rows.some((row) => typeof row[i] === "string") ? "text" : ""}, name)));
  const body = rows.map((row) => element("tr", {}, ...row.map((value, i) => {
    const text = shown(value), target = links[i]?.(row);
    const content = target === undefined ? text : element("a", {href: target}, text);
    return i === 0 ? element("th", {scope: "row", style: `min-width: ${Math.min(text.length, 24)}ch`}, content)
      : element("td", typeof value === "number" || value === null ? {} : {class: "text"}, content);
  })));
  return element("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": title},
    element("table", {}, element("caption", {class: "hidden"}, title), element("thead", {}, head), element("tbody", {}, ...body)));
}

function download(name, text) {
  const link = element("a", {href: URL.createObjectURL(new Blob([text], {type: "text/csv"})), download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function fileName(title) {
  return title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") + ".csv";
}

function downloadButton(title, csv) {
  return element("button", {type: "button", class: "download", "aria-label": `Download the data of ${title} as CSV`,
    onclick: () => download(fileName(title), csv())}, "Download CSV");
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    announce("Copied");
  } catch {
    announce("The browser does not allow copying; select the text instead");
  }
}

function commandOf(text, what = "the command that repeats it") {
  return element("details", {}, element("summary", {}, `Show ${what}`), element("pre", {tabindex: "0"}, text),
    element("button", {type: "button", onclick: () => copy(text)}, "Copy"));
}

function dataTable(title, columns, rows, command, links) {
  return element("section", {}, element("h3", {}, title), tableOf(title, columns, rows, links),
    element("div", {class: "controls"}, downloadButton(title, () => toCsv(columns, rows))),
    command === undefined ? null : commandOf(command));
}

// What a screen reader says of the chart; its table follows.
function summaryOf(figure) {
  const all = figure.series.flatMap((series) => series.values).filter((value) => typeof value === "number");
  const range = all.length === 0 ? "no data" : `values from ${shown(Math.min(...all))} to ${shown(Math.max(...all))}`;
  return `Chart: ${figure.title}. ${figure.series.length} series over ${figure.x.values.length} values of ` +
    `${figure.x.label || "the rows"}; ${range}. The table below has all numbers; the arrow keys read single values.`;
}

// Left and right go through the chart's values.
function readByKeys(canvas, chart, figure) {
  let at = -1;
  canvas.addEventListener("keydown", (event) => {
    const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
    if (step === undefined) return;
    event.preventDefault();
    at = Math.min(figure.x.values.length - 1, Math.max(0, at + step));
    const active = figure.series.map((_, datasetIndex) => ({datasetIndex, index: at}));
    chart.setActiveElements(active);
    chart.tooltip.setActiveElements(active, {x: 0, y: 0});
    chart.update("none");
    announce(`${figure.x.label} ${shown(figure.x.values[at])}: ` +
      figure.series.map((series) => `${series.name} ${shown(series.values[at])}`).join(", "));
  });
}

function figureElement(figure) {
  const canvas = element("canvas", {role: "img", tabindex: "0", "aria-label": summaryOf(figure)});
  const title = figure.title;
  let chart;
  const made = element("figure", {},
    element("figcaption", {}, title, figure.about ? element("span", {class: "about"}, figure.about) : null),
    legendOf(figure, () => chart),
    element("div", {class: "plot", style: `height: ${heightOf(figure)}rem`}, canvas),
    element("div", {class: "controls"}, downloadButton(title, () => toCsv(columnsOf(figure), rowsOf(figure)))),
    element("details", {}, element("summary", {}, "Show the table"), tableOf(title, columnsOf(figure), rowsOf(figure))),
    commandOf(figure.command));
  // A canvas must be on the page before it is measured.
  queueMicrotask(() => {
    chart = drawn(figure, canvas);
    readByKeys(canvas, chart, figure);
  });
  return made;
}

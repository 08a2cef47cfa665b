// A figure: one object from which its chart, its table and its download are made, so they cannot differ.
//
//   {title, about, kind, x: {label, values, end?}, series: [{name, values, dash?, color?}], y, command, tall?}
//
// kind: "line" (over words or steps), "time" (a line over numbers), "bars", "stacked", "lying" (stacked, each bar a line of text).

const charts = new Set();  // those on the page

function styleOf(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const kPointStyles = ["circle", "rect", "triangle", "rectRot", "cross", "star", "crossRot", "dash"];
const kDashes = {none: [], short: [3, 3], long: [8, 4]};

function colorOf(index) {
  return styleOf(`--series-${index % 8 + 1}`);
}

// Series differ by shape as well as by colour.
function datasetOf(figure, series, index) {
  const color = colorOf(series.color ?? index);
  const points = figure.kind === "time"
    ? series.values.map((value, i) => ({x: figure.x.values[i], y: value})) : series.values;
  const common = {label: series.name, data: points, backgroundColor: color, borderColor: color};
  if (figure.kind !== "line" && figure.kind !== "time") return {...common, borderWidth: 0};
  return {...common, borderWidth: 2, borderDash: kDashes[series.dash ?? "none"], spanGaps: true,
    pointStyle: kPointStyles[(series.color ?? index) % kPointStyles.length], pointRadius: figure.kind === "time" ? 0 : 4,
    stepped: figure.kind === "time" ? "before" : false};
}

function axis(title, extra) {
  const color = styleOf("--text"), line = styleOf("--line");
  return {title: {display: title !== "", text: title, color}, ticks: {color}, grid: {color: line, borderColor: line}, ...extra};
}

// A legend of lines: with their dashes.
function lineLabels(chart) {
  return Chart.defaults.plugins.legend.labels.generateLabels(chart).map((label) => ({...label, pointStyle: "line"}));
}

function optionsOf(figure) {
  const lying = figure.kind === "lying", stacked = lying || figure.kind === "stacked";
  const words = axis(figure.x.label, {stacked, ...(figure.kind === "time" ? {type: "linear", min: 0, max: figure.x.end} : {})});
  const numbers = axis(figure.y, {stacked, beginAtZero: true});
  return {
    animation: false, responsive: true, maintainAspectRatio: false, indexAxis: lying ? "y" : "x",
    interaction: {mode: "index", axis: lying ? "y" : "x", intersect: false},
    scales: lying ? {x: numbers, y: words} : {x: words, y: numbers},
    plugins: {legend: {display: figure.series.length > 1, labels: {color: styleOf("--text"), usePointStyle: true, boxHeight: 7,
      ...(figure.kind === "line" ? {pointStyleWidth: 32, generateLabels: lineLabels} : {})}}},
  };
}

function drawn(figure, canvas) {
  const type = figure.kind === "line" || figure.kind === "time" ? "line" : "bar";
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
    return i === 0 ? element("th", {scope: "row"}, content)
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
  const made = element("figure", {},
    element("figcaption", {}, title, figure.about ? element("span", {class: "about"}, figure.about) : null),
    element("div", {class: figure.tall ? "plot tall" : "plot"}, canvas),
    element("div", {class: "controls"}, downloadButton(title, () => toCsv(columnsOf(figure), rowsOf(figure)))),
    element("details", {}, element("summary", {}, "Show the table"), tableOf(title, columnsOf(figure), rowsOf(figure))),
    commandOf(figure.command));
  // A canvas must be on the page before it is measured.
  queueMicrotask(() => readByKeys(canvas, drawn(figure, canvas), figure));
  return made;
}

// What queueing theory predicts of a study's messages, beside the simulation.

const kMvaFigures = {message_cycles: "time of a message, cycles", utilisation: "utilisation of a proxy, mean"};

// Points that differ in their seed are samples of one thing.
function mvaFigure(program, rows, varied, column, source) {
  const own = variedOf(rows, varied), groups = new Map();
  for (const row of rows) {
    const name = pointName(row, own);
    groups.set(name, [...(groups.get(name) ?? []), row]);
  }
  const medians = (of) => [...groups.values()].map((samples) => median(samples.map((row) => Number(row[of]))));
  return {
    title: `${program}: ${kMvaFigures[column]}, simulated and by mean value analysis`,
    about: "", kind: "bars", x: {label: "point", values: [...groups.keys()]},
    series: [{name: "simulated", values: medians(column)}, {name: "mean value analysis", values: medians(`mva_${column}`)}],
    y: kMvaFigures[column], command: source.command,
  };
}

function mvaSection(source) {
  const {columns, rows} = readTable(source.mva);
  const varied = variedOf(rows, columns.slice(2, columns.indexOf("message_cycles")));
  const programs = [...new Set(rows.map(programOf))];
  const figures = programs.flatMap((program) => Object.keys(kMvaFigures).map((column) =>
    figureElement(mvaFigure(program, rows.filter((row) => programOf(row) === program), varied, column, source))));
  return element("section", {id: "mva"}, element("h2", {}, `Queueing theory beside ${source.label}`),
    element("p", {class: "quiet"}, "Exact mean value analysis of a closed network, from each point's run without contention: it knows " +
      "how long a message takes alone and how many there are, and no queue of the simulation."),
    element("div", {class: "charts"}, ...figures),
    element("div", {class: "controls"}, element("span", {}, "Each point:"),
      downloadButton(`mean value analysis of ${source.label}`, () => source.mva)));
}

// The timeline of a traced run: a chosen window of it, and one message through its stages.

// A trace's columns, as `braid report` embeds them; times are cycles since the run began.
const kTrace = ["message", "from", "to", "node", "bytes", "proxy", "peer_proxy", "ahead", "behind_message", "peer_ahead",
  "handed", "served", "left", "on_link", "arrived", "taken", "delivered", "kinds"];
const kSegments = [  // name, from, until, whose row
  ["waiting to be sent", "handed", "served", "queue"], ["being sent", "served", "left", "proxy"],
  ["waiting for the link", "left", "on_link", "link"], ["on the link", "on_link", "arrived", "link"],
  ["waiting to be received", "arrived", "taken", "peer queue"], ["being received", "taken", "delivered", "peer proxy"],
];
const kMostBars = 1500;
const kSegmentsFigure = {kind: "lying", x: {label: "", values: []}, y: "cycle", series: kSegments.map(([name]) => ({name}))};

function messagesOf(trace) {
  return trace.messages.map((row) => Object.fromEntries(kTrace.map((name, i) => [name, row[i]])));
}

function rowOf(message, where) {
  return {queue: `cluster ${message.from} queue ${message.proxy}`, proxy: `cluster ${message.from} proxy ${message.proxy}`,
    link: `link from cluster ${message.from}`, "peer queue": `cluster ${message.to} queue ${message.peer_proxy}`,
    "peer proxy": `cluster ${message.to} proxy ${message.peer_proxy}`}[where];
}

function segmentsOf(message) {
  return kSegments.map(([name, from, until, where]) => ({name, from: message[from], until: message[until], row: rowOf(message, where)}));
}

function describeMessage(message) {
  return `message ${message.message}, ${message.kinds.map(kindName).join(" + ") || "no kind"}, ${message.bytes} bytes, ` +
    `cluster ${message.from} to ${message.to}`;
}

// The window [from, until) of the run, which every change replaces.
class Timeline {
  constructor(trace, command) {
    this.trace = trace;
    this.command = command;
    this.messages = messagesOf(trace);
    this.first = Math.min(...this.messages.map((message) => message.handed));
    this.last = Math.max(...this.messages.map((message) => message.delivered));
    this.rows = distinct(this.messages.flatMap((message) => segmentsOf(message).map((segment) => segment.row)));
    this.canvas = element("canvas", {role: "img", tabindex: "0"});
    this.state = element("p", {"aria-live": "polite"});
    this.list = element("div", {});
    this.followed = element("div", {});
    this.fromField = this.field((value) => this.show(value, Math.max(value + 1, this.until)));
    this.untilField = this.field((value) => this.show(Math.min(this.from, value - 1), value));
    this.from = this.first;
    this.until = Math.min(this.last, this.first + Math.ceil((this.last - this.first) / 20) + 1);
  }

  field(change) {
    return element("input", {type: "number", size: "12", onchange: (event) => change(Number(event.target.value))});
  }

  visible() {
    return this.messages.filter((message) => message.handed < this.until && message.delivered >= this.from);
  }

  // Factor below 1: nearer.
  zoom(factor) {
    const middle = (this.from + this.until) / 2, half = Math.max(5, (this.until - this.from) * factor / 2);
    this.show(middle - half, middle + half);
  }

  move(share) {
    const step = (this.until - this.from) * share;
    this.show(this.from + step, this.until + step);
  }

  show(from, until) {
    const width = Math.min(until - from, this.last - this.first);
    this.from = Math.round(Math.min(Math.max(from, this.first), this.last - width));
    this.until = Math.round(this.from + Math.max(width, 1));
    this.fromField.value = this.from;
    this.untilField.value = this.until;
    this.redraw();
  }

  datasets() {
    const bars = this.visible().slice(0, kMostBars);
    return kSegments.map(([name], i) => ({
      label: name, grouped: false, barPercentage: 0.8, categoryPercentage: 1, minBarLength: 1,
      backgroundColor: bars.map((message) => message === this.chosen ? styleOf("--text") : colorOf(i)),
      data: bars.map((message) => {
        const segment = segmentsOf(message)[i];
        return {x: [segment.from, segment.until], y: segment.row, message};
      }),
    }));
  }

  options() {
    const base = optionsOf(kSegmentsFigure);
    base.scales.x = axis("cycle", {type: "linear", min: this.from, max: this.until, beginAtZero: false});
    base.scales.y = axis("", {type: "category", labels: this.rows});
    base.interaction = {mode: "nearest", intersect: true};
    base.plugins.tooltip = {callbacks: {label: ({raw, dataset}) =>
      `${dataset.label}, ${raw.x[1] - raw.x[0]} cycles: ${describeMessage(raw.message)}`, title: () => ""}};
    base.onClick = (event, active, chart) => {
      if (active.length > 0) this.follow(chart.data.datasets[active[0].datasetIndex].data[active[0].index].message);
    };
    return base;
  }

  restyle() {
    this.chart.options = this.options();
    this.chart.data.datasets = this.datasets();
    this.chart.update("none");
  }

  redraw() {
    const visible = this.visible();
    const drawn = Math.min(visible.length, kMostBars);
    this.state.textContent = `Cycles ${this.from} to ${this.until}: ${visible.length} messages` +
      (drawn < visible.length ? `; the first ${drawn} are drawn, zoom in for the others.` : ".");
    this.canvas.setAttribute("aria-label", `Timeline. ${this.state.textContent} The table below lists them. ` +
      "Keys: left and right move, plus and minus zoom, Home shows all.");
    if (this.chart !== undefined) this.restyle();
    const rows = visible.slice(0, 200).map((message) => [message.message, message.kinds.map(kindName).join(" + "),
      message.from, message.to, message.bytes, message.handed, message.delivered, message.delivered - message.handed]);
    const columns = ["message", "kinds", "from", "to", "bytes", "handed", "delivered", "cycles"];
    const table = tableOf("Messages of the window", columns, rows);
    table.querySelectorAll("tbody th").forEach((cell, i) => cell.replaceChildren(element("button", {type: "button",
      "aria-label": `Follow message ${rows[i][0]}`, onclick: () => this.follow(visible[i])}, shown(rows[i][0]))));
    this.list.replaceChildren(element("p", {class: "quiet"}, visible.length > 200 ? `The first 200 of ${visible.length}.` : ""), table);
  }

  find(number) {
    return this.messages.find((message) => message.message === number);
  }

  // Shows each stage of the message, and its way to the one that it waited behind.
  follow(message) {
    this.chosen = message;
    const segments = segmentsOf(message), title = `The stages of message ${message.message}`;
    const before = this.find(message.behind_message);
    const columns = ["stage", "where", "from cycle", "until cycle", "cycles"];
    const rows = segments.map((segment) => [segment.name, segment.row, segment.from, segment.until, segment.until - segment.from]);
    this.followed.replaceChildren(dataTable(title, columns, rows, this.command),
      element("p", {}, `${describeMessage(message)}, by compute node ${message.node}. Messages before it in the sender's queue: ` +
        `${message.ahead}; in the receiver's: ${message.peer_ahead}.`),
      element("div", {class: "controls"},
        before === undefined ? null : element("button", {type: "button", onclick: () => this.follow(before)},
          `Follow message ${before.message}, right before it in the queue`),
        element("button", {type: "button", onclick: () => this.show(message.handed - 20, message.delivered + 20)}, "Zoom to it")));
    if (message.delivered < this.from || message.handed > this.until) this.show(message.handed - 20, message.delivered + 20);
    else this.redraw();
    announce(`${title}: ${rows.map((row) => `${row[0]} ${row[4]}`).join(", ")} cycles`);
  }

  onKey(event) {
    const act = {ArrowLeft: () => this.move(-0.25), ArrowRight: () => this.move(0.25), "+": () => this.zoom(0.5),
      "=": () => this.zoom(0.5), "-": () => this.zoom(2), Home: () => this.show(this.first, this.last)}[event.key];
    if (act === undefined || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    act();
  }

  csv() {
    return toCsv(kTrace, this.visible().map((message) => kTrace.map((name) => name === "kinds" ? message.kinds.join(" ") : message[name])));
  }

  render() {
    const button = (text, act) => element("button", {type: "button", onclick: act}, text);
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    queueMicrotask(() => {
      this.chart = new Chart(this.canvas, {type: "bar", data: {datasets: this.datasets()}, options: this.options()});
      this.chart.restyle = () => this.restyle();
      this.chart.timeline = this;
      charts.add(this.chart);
      this.show(this.from, this.until);
    });
    const number = element("input", {type: "number", size: "8"});
    return element("section", {id: "timeline"}, element("h2", {}, "Timeline"),
      this.trace.omitted > 0 ? element("p", {}, `The trace has ${shown(this.trace.omitted)} further messages, which this report does not ` +
        "have; --window FROM:UNTIL of braid report chooses others.") : null,
      element("figure", {},
        element("figcaption", {}, "Where messages are", element("span", {class: "about"}, "a row for each queue, proxy and link")),
        element("div", {class: "controls"}, button("Zoom in", () => this.zoom(0.5)), button("Zoom out", () => this.zoom(2)),
          button("Earlier", () => this.move(-0.5)), button("Later", () => this.move(0.5)), button("All", () => this.show(this.first, this.last)),
          element("label", {}, "From cycle ", this.fromField), element("label", {}, "to ", this.untilField),
          element("label", {}, "Message ", number), button("Follow", () => {
            const message = this.find(Number(number.value));
            if (message === undefined) announce(`There is no message ${number.value} in this report`);
            else this.follow(message);
          })),
        legendOf(kSegmentsFigure, () => this.chart),
        element("div", {class: "plot", style: `height: ${Math.min(160, Math.max(12, 4 + 1.5 * this.rows.length))}rem`}, this.canvas), this.state,
        element("div", {class: "controls"}, downloadButton("the window's messages", () => this.csv())),
        commandOf(this.command), this.followed,
        element("details", {}, element("summary", {}, "Show the messages of the window"), this.list)));
  }
}

function timeline(trace, command) {
  if (trace !== null && trace.messages.length > 0) return new Timeline(trace, command).render();
  const traced = command.replace("braid sim ", "braid sim --report run.json --trace run.jsonl ");
  return element("section", {id: "timeline"}, element("h2", {}, "Timeline"),
    element("p", {}, trace === null ? "This report has no trace of the run. These commands make one that has:" : "No message was traced in this window."),
    element("pre", {tabindex: "0"}, `${traced}\nbraid report run.json --trace run.jsonl -o run.html`));
}

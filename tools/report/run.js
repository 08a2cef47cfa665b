// The page of one run: of a study's point, of `braid sim` or of `braid run`.

const kStages = {window_send: "window", ack_send: "acknowledge", udp_send: "UDP", ip_send: "IP", ni_send: "NI"};

function configurationOf(json, command, about) {
  const given = Object.entries(json.given ?? {}).map(([key, value]) => [key, typeof value === "object" ? JSON.stringify(value) : String(value)]);
  return element("section", {}, element("h2", {}, "Configuration"), about === "" ? null : element("p", {}, about),
    given.length > 0 ? dataTable("Settings that were given", ["setting", "value"], given, command)
      : commandOf(command),
    commandOf(JSON.stringify(json.config ?? json.configuration ?? {}, null, 1), "all settings"));
}

function bars(title, about, names, series, unit, command, kind = "bars") {
  return figureElement({title, about, kind, x: {label: "", values: names}, series, y: unit, command});
}

// --- Simulated runs

function messageWay(json, command) {
  const m = json.messages;
  const parts = [["waiting to be sent", m.mean_wait_to_send], ["being sent", m.mean_send],
    ["waiting for the link", m.mean_wait_for_link], ["on the link", m.mean_network - m.mean_wait_for_link],
    ["waiting to be received", m.mean_wait_to_receive], ["being received", m.mean_receive]];
  return bars("Time of a message by stage", `mean of ${shown(m.count)} messages of ${shown(m.mean_bytes)} bytes`,
    ["a message"], parts.map(([name, value]) => ({name, values: [value]})), "cycles", command, "lying");
}

function proxyName(proxy) {
  return `cluster ${proxy.cluster} proxy ${proxy.proxy}`;
}

const kMostQueues = 16;  // in a chart: more lines cannot be told apart

function queueFigure(json, command, what, title) {
  const all = json.proxies.filter((proxy) => proxy.queue_over_time?.[what]?.length > 0);
  if (all.length === 0) return null;
  const length = (proxy) => what === "mean" ? sum(proxy.queue_over_time.mean) : Math.max(...proxy.queue_over_time.most);
  const longest = new Set([...all].sort((a, b) => length(b) - length(a)).slice(0, kMostQueues));
  const proxies = all.filter((proxy) => longest.has(proxy));
  const {interval_cycles: width} = proxies[0].queue_over_time;
  const from = proxies[0].queue_over_time[what].map((_, i) => i * width);
  const chosen = proxies.length < all.length ? `; the ${proxies.length} longest of ${all.length}` : "";
  return figureElement({title, about: `intervals of ${shown(width)} cycles${chosen}`, kind: "time", tall: proxies.length > 8,
    x: {label: "from cycle", values: from, end: json.parallel_cycles}, y: "messages",
    series: proxies.map((proxy) => ({name: proxyName(proxy), values: proxy.queue_over_time[what]})), command});
}

function stagesFigure(json, command) {
  const names = Object.keys(json.stages);
  return bars("Work of all proxies by stage", "what proxies were busy with", names.map((name) => name.replaceAll("_", " ")),
    [{name: "cycles", values: names.map((name) => json.stages[name])}], "cycles", command);
}

function nodesFigure(json, command) {
  const parts = ["computing", "faults", "locks", "barriers", "syncs"];
  const names = {computing: "computing", faults: "waiting for pages", locks: "waiting for locks", barriers: "at barriers", syncs: "other calls"};
  return figureElement({title: "Time of each compute node", about: "in parallel()", kind: "stacked",
    x: {label: "compute node", values: json.nodes.map((node) => node.node)}, y: "cycles",
    series: parts.map((part) => ({name: names[part], values: json.nodes.map((node) => node[part])})), command});
}

function kindName(kind) {
  return kind.replace(/^sent_/, "").replaceAll("_", " ");
}

function phaseFigures(json, command) {
  const kinds = Object.keys(json.phases?.sent ?? {});
  if (kinds.length === 0) return [];
  const {barriers_each: each, sent} = json.phases;
  const phases = sent[kinds[0]].map((_, i) => each === 1 ? String(i) : `${i * each}-${(i + 1) * each - 1}`);
  return [
    bars("Messages of the page protocol by kind", "in parallel(); several can share a message of the transport",
      kinds.map(kindName), [{name: "messages", values: kinds.map((kind) => sum(sent[kind]))}], "messages", command),
    figureElement({title: "Messages of the page protocol by phase",
      about: `a phase ends at a barrier; 0: entering parallel()${each === 1 ? "" : `; ${each} phases each`}`, kind: "stacked",
      x: {label: "phase", values: phases}, y: "messages",
      series: kinds.map((kind) => ({name: kindName(kind), values: sent[kind]})), command})];
}

// `what`: "page" or "lock".
function waitsFigure(json, what, command) {
  const waits = json.waits?.[`${what}s`] ?? [];
  if (waits.length === 0) return null;
  const nodes = [...new Set(waits.flatMap((wait) => wait.nodes.map((node) => node.node)))].sort((a, b) => a - b);
  const of = (wait, node) => wait.nodes.find((other) => other.node === node)?.cycles ?? null;
  return figureElement({title: `Who waited for which ${what}`,
    about: `the ${waits.length} that cost most, and the nodes that waited longest for each`,
    kind: "lying", x: {label: "", values: waits.map((wait) => `${what} ${wait[what]}`)}, y: "cycles",
    series: nodes.map((node) => ({name: `node ${node}`, values: waits.map((wait) => of(wait, node))})), command});
}

function waitsTable(json, what, command) {
  const waits = json.waits?.[`${what}s`] ?? [];
  if (waits.length === 0) return null;
  return dataTable(`Waiting for ${what}s`, [what, "cycles", "waits", "longest wait, cycles", "nodes that waited"],
    waits.map((wait) => [String(wait[what]), wait.cycles, wait.waits, wait.longest, wait.waiting_nodes]), command);
}

function objectsTable(title, objects, command) {
  if (objects.length === 0) return null;
  const flat = objects.map((object) => Object.fromEntries(Object.entries(object).filter(([, value]) => typeof value !== "object")));
  const columns = [...new Set(flat.flatMap((object) => Object.keys(object)))];
  return dataTable(title, columns.map((name) => name.replaceAll("_", " ")), flat.map((object) => columns.map((name) => object[name] ?? null)), command);
}

function keyFigures(json, command) {
  const rows = [["time in parallel()", "cycles", json.parallel_cycles], ["time of the run", "cycles", json.whole_cycles],
    ["messages", "", json.messages.count], ["time of a message", "cycles", json.messages.mean_cycles],
    ["queue length at a proxy", "messages", json.mean_queue], ["utilisation of a proxy", "", json.mean_utilisation],
    ["frames sent again", "", json.messages.retransmissions], ["frames lost", "", json.messages.frames_lost],
    ...Object.entries(json.shares).map(([name, value]) => [`share of the nodes' time: ${name.replaceAll("_", " ")}`, "", value])];
  return dataTable("Figures", ["figure", "unit", "value"], rows, command);
}

function simulatedRun(json, command, trace) {
  const hasProxies = json.proxies.length > 0;
  return [element("h2", {}, "Charts"), element("div", {class: "charts"}, ...[
    hasProxies ? messageWay(json, command) : null,
    queueFigure(json, command, "mean", "Queues over time, mean length"), queueFigure(json, command, "most", "Queues over time, greatest length"),
    hasProxies ? stagesFigure(json, command) : null, nodesFigure(json, command), ...phaseFigures(json, command),
    waitsFigure(json, "page", command), waitsFigure(json, "lock", command)].filter((part) => part !== null)),
  timeline(trace, command),
  element("h2", {}, "Tables"), keyFigures(json, command),
  waitsTable(json, "page", command), waitsTable(json, "lock", command),
  objectsTable("Proxies", json.proxies, command), objectsTable("Links", json.links, command),
  objectsTable("Compute nodes", json.nodes, command), objectsTable("Incidents", json.incidents ?? [], command)];
}

// --- Live runs

function liveRun(json, command) {
  const reports = json.clusters.map((cluster) => cluster.application?.report).filter((given) => given !== null && typeof given === "object");
  const nodes = reports.flatMap((given) => given.nodes ?? []);
  const proxies = json.clusters.flatMap((cluster) => cluster.proxies.map((counters, proxy) => ({cluster: cluster.cluster, proxy, ...counters})));
  const kinds = [...new Set(reports.flatMap((given) => Object.keys(given.cluster_counts ?? {})))].filter((name) => name.startsWith("sent_"));
  const waits = {faults_ns: "waiting for pages", locks_ns: "waiting for locks", barriers_ns: "at barriers", syncs_ns: "other calls"};
  const count = (given, name) => given.cluster_counts?.[name] ?? 0;
  const costs = json.costs ?? {};
  const sent = kinds.filter((name) => reports.some((given) => count(given, name) > 0));
  return [
    json.costs?.advice ? element("p", {}, json.costs.advice) : null,
    element("h2", {}, "Charts"), element("div", {class: "charts"}, ...[
      nodes.length === 0 ? null : figureElement({title: "Waiting of each compute node", kind: "stacked",
        x: {label: "compute node", values: nodes.map((node) => node.node)}, y: "nanoseconds",
        series: Object.entries(waits).map(([key, name]) => ({name, values: nodes.map((node) => node[key] ?? null)})), command}),
      sent.length === 0 ? null : figureElement({title: "Messages of the page protocol by kind", kind: "stacked",
        x: {label: "kind", values: sent.map(kindName)}, y: "messages",
        series: reports.map((given) => ({name: `from cluster ${given.cluster}`, values: sent.map((name) => count(given, name))})), command}),
      proxies.length === 0 ? null : figureElement({title: "Messages of each proxy", kind: "bars",
        x: {label: "proxy", values: proxies.map(proxyName)}, y: "messages",
        series: [["sent", "messages_sent"], ["received", "messages_received"], ["packets sent again", "retransmissions"]]
          .map(([name, key]) => ({name, values: proxies.map((proxy) => proxy[key] ?? null)})), command}),
      (costs.locks ?? []).length === 0 ? null : figureElement({title: "Waiting for locks", kind: "lying",
        x: {label: "", values: costs.locks.map((lock) => lock.name)}, y: "nanoseconds",
        series: [{name: "waiting", values: costs.locks.map((lock) => lock.locks_ns)}], command}),
      (costs.pages ?? []).length === 0 ? null : figureElement({title: "Waiting for pages", kind: "lying",
        x: {label: "", values: costs.pages.map((page) => `page ${page.page}`)}, y: "nanoseconds",
        series: [{name: "waiting", values: costs.pages.map((page) => page.faults_ns)}], command})].filter((part) => part !== null)),
    element("h2", {}, "Tables"), objectsTable("Costly memory", costs.memory ?? [], command), objectsTable("Costly pages", costs.pages ?? [], command),
    objectsTable("Costly locks", costs.locks ?? [], command), objectsTable("Compute nodes", nodes, command),
    objectsTable("Counters of proxies", proxies, command)];
}

function runPage(index, name) {
  const source = report.sources[index];
  const json = embedded(`point-${index}-${name}`);
  if (json === null) return element("p", {}, "The report has no such run.");
  const command = json.repeat;
  const live = source.kind === "live";
  const title = json.title;
  const parallel = typeof json.parallel_ns === "number" ? `, of which ${shown(json.parallel_ns * 1e-9)} s in parallel()` : "";
  const about = live ? `A live run of ${shown(json.wall_seconds)} s${parallel}; status ${json.status}.`
    : `Simulated with the model ${json.model}. Cycles are those of a compute node at ${shown(json.cycles_per_second / 1e6)} MHz.`;
  const parts = json.failure ? [element("p", {}, `The run ended early: ${json.failure}`)] : [];
  if (live) parts.push(...liveRun(json, command));
  else if (!json.failure) parts.push(...simulatedRun(json, command, embedded(`trace-${index}-${name}`)));
  return element("div", {}, element("h1", {}, several() ? `${source.label}: ${title}` : title),
    configurationOf(json, command, about), ...parts.filter((part) => part !== null));
}

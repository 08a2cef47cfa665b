// The report's data, as `braid report` embedded it, and helpers for numbers and elements.

function embedded(id) {
  const element = document.getElementById(id);
  return element === null ? null : JSON.parse(element.textContent);
}

// RFC 4180: quoted cells may have commas, line breaks and doubled quotes.
function parseCsv(text) {
  const rows = [];
  let row = [], cell = "", quoted = false;
  for (let at = 0; at < text.length; ++at) {
    const c = text[at];
    if (quoted) {
      if (c !== '"') cell += c;
      else if (text[at + 1] === '"') { cell += c; ++at; }
      else quoted = false;
    } else if (c === '"') quoted = true;
    else if (c === ",") { row.push(cell); cell = ""; }
    else if (c === "\n") { row.push(cell); rows.push(row); row = []; cell = ""; }
    else cell += c;
  }
  return rows;
}

// {columns, rows}: each row an object by its columns.
function readTable(text) {
  const [columns, ...rows] = parseCsv(text);
  return {columns, rows: rows.map((row) => Object.fromEntries(columns.map((name, i) => [name, row[i]])))};
}

function csvCell(value) {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function toCsv(columns, rows) {
  return [columns, ...rows].map((row) => row.map(csvCell).join(",") + "\n").join("");
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

function sum(values) {
  return values.reduce((all, value) => all + value, 0);
}

function isNumber(text) {
  return text !== "" && Number.isFinite(Number(text));
}

// Numbers before words, in their order.
function compareValues(a, b) {
  return isNumber(a) && isNumber(b) ? Number(a) - Number(b) : String(a).localeCompare(String(b), "en");
}

function distinct(values) {
  return [...new Set(values)].sort(compareValues);
}

// For people; a download has all digits.
function shown(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number") return String(value);
  return value.toLocaleString("en-US", {maximumSignificantDigits: 6});
}

// element("a", {href: "#/"}, "text", otherElement)
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function announce(text) {
  document.getElementById("announcement").textContent = text;
}

let nextId = 0;
function newId(what) {
  return `${what}-${++nextId}`;
}

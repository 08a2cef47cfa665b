// Which page is shown, its colours, and what changes for printing.

const report = embedded("report-data");

function showPage() {
  dropCharts();
  const [, kind, index, name] = location.hash.split("/");
  const main = document.getElementById("main");
  const page = kind === "point" ? runPage(Number(index), name) : kind === "compare" ? comparison()
    : report.sources.length === 1 && report.sources[0].kind !== "study" ? runPage(0, "run") : overview();
  main.replaceChildren(page);
  document.title = `${page.querySelector("h1")?.textContent ?? "Braid report"} - Braid report`;
  const links = [["#/", "Overview"], ...(several() ? [["#/compare", "Side by side"]] : [])];
  document.getElementById("pages").replaceChildren(element("ul", {}, ...links.map(([href, text]) => element("li", {},
    element("a", {href, "aria-current": (location.hash || "#/") === href ? "page" : undefined}, text)))));
}

window.addEventListener("hashchange", () => {
  if (location.hash !== "" && !location.hash.startsWith("#/")) return;  // the link to the content
  showPage();
  document.getElementById("main").focus();
  window.scrollTo(0, 0);
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolor);

// Paper shows every table and every command, and light colours.
let openedForPrint = [];
window.addEventListener("beforeprint", () => {
  openedForPrint = [...document.querySelectorAll("details:not([open])")];
  for (const details of openedForPrint) details.open = true;
  recolor();
});
window.addEventListener("afterprint", () => {
  for (const details of openedForPrint) details.open = false;
  recolor();
});

showPage();

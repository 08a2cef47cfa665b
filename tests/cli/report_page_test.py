#!/usr/bin/env python3
"""The page of `braid report` in Chromium: what its charts, tables and downloads hold, its keys, its pages, and paper.

    report_page_test.py BIN [unittest arguments]

Status 77, skipped: there is no Chromium, or no Selenium to drive it. REPORT_SCREENSHOTS=DIR keeps pictures, for people.
"""

import base64
import csv
import io
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    print("skipped: python3-selenium is not installed (tools/install_packages --tests)")
    sys.exit(77)

BIN = pathlib.Path(sys.argv[1]).resolve()
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
PICTURES = os.environ.get("REPORT_SCREENSHOTS")

STUDY = """
applications:
  - {application: jacobi, arguments: [--size, 64, --iterations, 3]}
  - {application: water, arguments: [--molecules, 27, --iterations, 1]}
base:
  simulation: {model: alewife-1997}
vary:
  - clusters: [4, 2]
    compute: [1, 2]
  - proxies: [1, 2]
  - simulation.mode: [real, no-delay]
  - faults.seed: [1, 2]
where:
  - simulation.mode != no-delay or proxies == 1
"""


LIVE_STUDY = """
applications:
  - {application: jacobi, arguments: [--size, 64, --iterations, 3]}
  - {application: matmul, arguments: [--size, 64]}
base:
  simulation: {model: modern}
engine: live
repetitions: 3
vary:
  - clusters: [1, 2]
    compute: [2, 1]
  - simulation.mode: [real, no-delay, no-contention]
"""


def braid(*words, folder):
    run = subprocess.run([BIN / "braid", *words], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    if run.returncode != 0:
        raise AssertionError(f"{words}: status {run.returncode}\n{run.stdout}\n{run.stderr}")


def start_browser(downloads):
    options = Options()
    options.binary_location = CHROMIUM
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1400,1000"):
        options.add_argument(word)
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(service=Service(DRIVER), options=options)


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.place.name)
        (cls.folder / "small.yaml").write_text(STUDY)
        braid("study", "small.yaml", "-o", "out", folder=cls.folder)
        braid("report", "out", "-o", "study.html", folder=cls.folder)
        braid("report", "out", "out/", "-o", "two.html", folder=cls.folder)
        machine = ("--clusters", "2", "--compute", "2", "--proxies", "2")
        braid("sim", *machine, "--report", "run.json", "--trace", "run.jsonl", "water", "--molecules", "27", folder=cls.folder)
        braid("report", "run.json", "--trace", "run.jsonl", "-o", "run.html", folder=cls.folder)
        braid("run", "--clusters", "2", "--compute", "1", "--report", "live.json", "jacobi", "--size", "64", folder=cls.folder)
        braid("report", "live.json", "-o", "live.html", folder=cls.folder)
        (cls.folder / "both.yaml").write_text(LIVE_STUDY)
        braid("study", "both.yaml", "-o", "both", "--oversubscribe", folder=cls.folder)
        braid("report", "both", "-o", "both.html", folder=cls.folder)
        cls.browser = start_browser(cls.folder)
        cls.addClassCleanup(cls.place.cleanup)
        cls.addClassCleanup(cls.browser.quit)
        with (cls.folder / "out" / "points.csv").open(newline="") as file:
            cls.points = list(csv.DictReader(file))

    def open(self, file, place="", dark=False):
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "media": "", "features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})
        self.browser.get("about:blank")
        self.browser.get((self.folder / file).as_uri() + place)
        self.wait(lambda: self.script("return document.querySelector('h1') !== null && charts.size >= 0"))
        errors = [entry["message"] for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]
        self.assertEqual(errors, [])

    def script(self, text, *words):
        return self.browser.execute_script(text, *words)

    def wait(self, condition):
        WebDriverWait(self.browser, 20).until(lambda _: condition())

    def picture(self, name):
        if not PICTURES:
            return
        size = self.script("return [document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        shot = self.browser.execute_cdp_cmd("Page.captureScreenshot", {
            "captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": size[0], "height": min(size[1], 6000), "scale": 1}})
        pathlib.Path(PICTURES, name + ".png").write_bytes(base64.b64decode(shot["data"]))

    def charts(self):
        """Title -> (labels, {series: values}), of the charts themselves and not of what they were made from."""
        return {title: (labels, {name: values for name, values in series}) for title, labels, series in self.script("""
            return [...charts].filter((chart) => chart.figure !== undefined).map((chart) => [chart.figure.title,
              chart.data.labels, chart.data.datasets.map((set) => [set.label, set.data.map((v) => v?.y ?? v)])])""")}

    def tables(self):
        """Title of a figure -> its table's rows, as text."""
        return dict(self.script("""
            return [...document.querySelectorAll("figure")].map((figure) => [figure.querySelector("figcaption").firstChild.textContent,
              [...figure.querySelectorAll("tr")].map((row) => [...row.cells].map((cell) => cell.textContent))])"""))

    def medians(self, figure, **conditions):
        """By number of proxies, the medians over seeds in points.csv."""
        chosen = [p for p in self.points if all(p[key.replace("__", ".")] == value for key, value in conditions.items())]
        return [statistics.median(float(p[figure]) for p in chosen if p["proxies"] == proxies)
                for proxies in sorted({p["proxies"] for p in chosen})]

    def download(self, press):
        before = set(self.folder.glob("*.csv"))
        press()
        self.wait(lambda: set(self.folder.glob("*.csv")) - before)
        file, = set(self.folder.glob("*.csv")) - before
        text = file.read_text()
        file.unlink()
        return text

    # --- A study

    def test_charts_hold_the_numbers_of_points_csv(self):
        self.open("study.html")
        self.picture("study")
        charts = self.charts()
        names = {"parallel_cycles": "time in parallel(), cycles", "message_cycles": "time of a message, cycles",
                 "queue": "queue length at a proxy, mean", "utilisation": "utilisation of a proxy, mean"}
        seen = 0
        for program, arguments in (("jacobi", "--size 64 --iterations 3"), ("water", "--molecules 27 --iterations 1")):
            for figure, name in names.items():
                labels, series = charts[f"{program} {arguments}: {name}"]
                self.assertEqual(labels, ["1", "2"])
                for clusters, compute in (("4", "1"), ("2", "2")):
                    values = series[f"clusters {clusters}, compute {compute}, mode real"]
                    self.assertEqual(values, self.medians(figure, application=program, clusters=clusters, simulation__mode="real"))
                    seen += 1
        self.assertEqual(seen, 16)

    def test_each_chart_has_its_table_its_data_and_its_command(self):
        self.open("study.html")
        charts, tables = self.charts(), self.tables()
        self.assertEqual(list(charts), list(tables))
        title = "water --molecules 27 --iterations 1: time in parallel(), cycles"
        labels, series = charts[title]
        head, *rows = tables[title]
        self.assertEqual(head, ["proxies", *series])
        self.assertEqual([row[0] for row in rows], labels)
        figure = next(f for f in self.browser.find_elements(By.TAG_NAME, "figure") if title in f.text)
        text = self.download(figure.find_element(By.CSS_SELECTOR, "button.download").click)
        read, *lines = csv.reader(io.StringIO(text))
        self.assertEqual(read, head)
        for i, name in enumerate(series, 1):
            self.assertEqual([float(line[i]) if line[i] else None for line in lines], series[name])
        command = figure.find_element(By.TAG_NAME, "pre").get_attribute("textContent")
        self.assertEqual(command, "braid study small.yaml -o small")

    def test_the_reader_chooses_figures_axes_and_points(self):
        self.open("study.html")
        self.script("document.querySelector('details').open = true")
        for box in self.browser.find_elements(By.CSS_SELECTOR, "fieldset label"):
            if box.text == "messages":
                box.click()
                break
        titles = list(self.charts())
        self.assertIn("jacobi --size 64 --iterations 3: messages", titles)
        self.script("""const label = [...document.querySelectorAll('label')].find((l) => l.textContent.startsWith('simulation.mode'));
            label.firstElementChild.value = 'real'; label.firstElementChild.dispatchEvent(new Event('change'))""")
        for _, series in self.charts().values():
            self.assertTrue(all("mode real" in name for name in series), series)
        find = self.browser.find_element(By.CSS_SELECTOR, "input[type=search]")
        find.send_keys("water real")
        rows = self.browser.find_elements(By.CSS_SELECTOR, "main > div > section table tbody tr")
        self.assertEqual(len(rows), sum(p["application"] == "water" and p["simulation.mode"] == "real" for p in self.points))
        self.assertEqual(self.download(lambda: next(b for b in self.browser.find_elements(By.CSS_SELECTOR, "button.download")
                                                    if "points of" in b.get_attribute("aria-label")).click()),
                         (self.folder / "out" / "points.csv").read_text())

    def test_a_point_has_a_page_whose_queues_are_those_of_queues_csv(self):
        point = next(p for p in self.points if p["application"] == "water" and p["proxies"] == "2" and p["simulation.mode"] == "real")
        self.open("study.html", f"#/point/0/{point['point']}")
        self.picture("point")
        charts = self.charts()
        with (self.folder / "out" / "queues.csv").open(newline="") as file:
            queues = [q for q in csv.DictReader(file) if q["point"] == point["point"]]
        for what, title in (("mean", "Queues over time, mean length"), ("most", "Queues over time, greatest length")):
            _, series = charts[title]
            self.assertEqual(len(series), 2 * int(point["clusters"]))
            for name, values in series.items():
                _, cluster, _, proxy = name.split()
                self.assertEqual(values, [float(q[what]) for q in queues if (q["cluster"], q["proxy"]) == (cluster, proxy)])
        report, = [p["report"] for p in json.loads((self.folder / "out" / "study.json").read_text())["points"]
                   if p["point"] == point["point"]][:1]
        _, kinds = charts["Messages of the page protocol by kind"]
        self.assertEqual(kinds["messages"], [sum(counts) for counts in report["phases"]["sent"].values()])
        _, phases = charts["Messages of the page protocol by phase"]
        self.assertEqual(list(phases.values()), list(report["phases"]["sent"].values()))
        _, stages = charts["Work of all proxies by stage"]
        self.assertEqual(stages["cycles"], list(report["stages"].values()))
        self.assertIn("Who waited for which page", charts)
        self.assertIn("Who waited for which lock", charts)

    def test_of_many_queues_the_longest_are_drawn(self):
        braid("sim", "--clusters", "20", "--compute", "1", "--report", "many.json", "water", "--molecules", "27", folder=self.folder)
        braid("report", "many.json", "-o", "many.html", folder=self.folder)
        self.open("many.html")
        proxies = json.loads((self.folder / "many.json").read_text())["proxies"]
        lengths = sorted((sum(p["queue_over_time"]["mean"]), p["queue_over_time"]["mean"]) for p in proxies)
        _, series = self.charts()["Queues over time, mean length"]
        self.assertEqual(sorted(series.values()), sorted(mean for _, mean in lengths[-16:]))
        self.assertIn("the 16 longest of 20", self.browser.find_element(By.ID, "main").text)

    def test_links_lead_to_pages_and_back(self):
        self.open("study.html")
        self.browser.find_element(By.CSS_SELECTOR, "main > div > section tbody a").click()
        self.wait(lambda: self.script("return document.activeElement.id") == "main")
        self.assertIn("clusters", self.browser.find_element(By.TAG_NAME, "h1").text)
        self.assertIn("clusters", self.browser.title)
        self.browser.back()
        self.wait(lambda: "small" in self.browser.find_element(By.TAG_NAME, "h1").text)

    def test_the_legend_names_every_series_and_hides_it(self):
        self.open("study.html")
        legends = self.script("""return [...charts].map((chart) => [chart.figure.series.map((series) => series.name),
            [...chart.canvas.closest('figure').querySelectorAll('.legend button')].map((key) => key.textContent)])""")
        self.assertTrue(all(names == shown for names, shown in legends if len(names) > 1), legends)
        self.assertTrue(any(len(names) > 3 for names, _ in legends))
        for name in (name for names, _ in legends for name in names):
            self.assertNotIn("default", name)
        key = self.browser.find_element(By.CSS_SELECTOR, ".legend button")
        for visible in (False, True):
            key.click()
            self.assertEqual(self.script("return [...charts][0].isDatasetVisible(0)"), visible)
            self.assertEqual(key.get_attribute("aria-pressed"), str(visible).lower())

    def test_bars_have_all_their_names(self):
        for file, place in (("live.html", ""), ("two.html", "#/compare"), ("both.html", "")):
            self.open(file, place)
            for title, bars, names in self.script("""return [...charts].filter((c) => c.options.indexAxis === 'y' && c.figure)
                    .map((c) => [c.figure.title, c.figure.x.values.length, c.scales.y.ticks.map((tick) => tick.label)])"""):
                self.assertEqual((title, len(names)), (title, bars))
                self.assertTrue(all("".join(name) for name in names), names)

    # --- Two sources

    def test_only_points_with_one_counterpart_are_compared(self):
        (self.folder / "fewer.yaml").write_text(STUDY.replace("  - proxies: [1, 2]\n", "").replace("simulation.mode != no-delay or ", ""))
        braid("study", "fewer.yaml", "-o", "fewer", folder=self.folder)
        (self.folder / "lossy.yaml").write_text(STUDY.replace("  - proxies: [1, 2]\n", "  - faults.loss: [0, 0.01]\n"))
        braid("study", "lossy.yaml", "-o", "lossy", folder=self.folder)
        braid("report", "fewer", "lossy", "-o", "unlike.html", folder=self.folder)
        self.open("unlike.html", "#/compare")
        text = self.browser.find_element(By.ID, "main").text
        self.assertIn("0 points are in both", text)
        self.assertIn("have no single counterpart in the other, and are left out: faults.loss.", text)

    def test_two_studies_stand_side_by_side(self):
        self.open("two.html")
        for _, series in self.charts().values():
            self.assertEqual({name.split(",")[0] for name in series}, {"small (out)", "small (out) #2"})
        self.open("two.html", "#/compare")
        self.picture("compare")
        (_, (labels, series)), = self.charts().items()
        self.assertEqual(len(labels), len(self.points))
        self.assertEqual(list(series.values()), [[1] * len(self.points)])

    # --- Runs

    def test_a_message_is_followed_through_its_stages(self):
        self.open("run.html")
        traced = [json.loads(line) for line in (self.folder / "run.jsonl").read_text().splitlines()]
        held = self.script("return [...charts].find((c) => c.timeline !== undefined).timeline.messages.map((m) => [m.message, m.handed, m.delivered])")
        self.assertEqual(held, [[m["message"], m["handed"], m["delivered"]] for m in traced])
        message = traced[len(traced) // 2]
        field = self.browser.find_elements(By.CSS_SELECTOR, "#timeline input")[2]
        field.send_keys(str(message["message"]))
        next(b for b in self.browser.find_elements(By.CSS_SELECTOR, "#timeline button") if b.text == "Follow").click()
        rows = self.script("""return [...document.querySelectorAll('#timeline section tbody tr')].map((row) =>
            [...row.cells].map((cell) => cell.textContent.replaceAll(',', '')))""")
        times = ("handed", "served", "left", "on_link", "arrived", "taken", "delivered")
        self.assertEqual([[float(cell) for cell in row[2:]] for row in rows],
                         [[float(f"{message[a]:.6g}"), float(f"{message[b]:.6g}"), message[b] - message[a]]
                          for a, b in zip(times, times[1:])])
        self.picture("timeline")

    def test_keys_move_and_zoom_the_timeline(self):
        self.open("run.html")
        window = "const t = [...charts].find((c) => c.timeline !== undefined).timeline; return [t.from, t.until, t.chart.scales.x.min, t.chart.scales.x.max]"
        canvas = self.browser.find_element(By.CSS_SELECTOR, "#timeline canvas")
        first = self.script(window)
        self.script("arguments[0].focus()", canvas)
        canvas.send_keys("+")
        near = self.script(window)
        self.assertLess(near[1] - near[0], first[1] - first[0])
        self.assertEqual(near[:2], near[2:])
        canvas.send_keys(Keys.ARROW_RIGHT)
        self.assertGreater(self.script(window)[0], near[0])
        canvas.send_keys(Keys.HOME)
        whole = self.script(window)
        self.assertGreater(whole[1] - whole[0], first[1] - first[0])

    def test_keys_read_a_chart(self):
        self.open("run.html")
        canvas = self.browser.find_element(By.CSS_SELECTOR, "figure canvas")
        self.script("arguments[0].focus()", canvas)
        canvas.send_keys(Keys.ARROW_RIGHT)
        said = self.script("return document.getElementById('announcement').textContent")
        self.assertRegex(said, r"waiting to be sent [\d.,]+, being sent [\d.,]+")

    def test_a_live_run_has_a_page(self):
        self.open("live.html")
        self.picture("live")
        live = json.loads((self.folder / "live.json").read_text())
        _, series = self.charts()["Messages of each proxy"]
        self.assertEqual(series["sent"], [c["proxies"][0]["messages_sent"] for c in live["clusters"]])
        _, series = self.charts()["Waiting of each compute node"]
        self.assertEqual(series["at barriers"], [n["barriers_ns"] for c in live["clusters"] for n in c["application"]["report"]["nodes"]])
        self.assertIn("braid run --config /dev/stdin jacobi --size 64", self.browser.page_source)

    # --- Live runs of a study

    def live_rows(self, name):
        with (self.folder / "both" / name).open(newline="") as file:
            return list(csv.DictReader(file))

    def test_live_runs_stand_beside_their_prediction(self):
        self.open("both.html")
        self.picture("both")
        runs, charts = self.live_rows("live.csv"), self.charts()
        self.assertEqual(len(runs), 2 * 2 * 3)
        self.assertEqual({run["verified"] for run in runs}, {"yes"})
        self.assertEqual({run["simulation.mode"] for run in runs}, {"real"})
        for program, arguments in (("jacobi", "--size 64 --iterations 3"), ("matmul", "--size 64")):
            labels, series = charts[f"{program} {arguments}: time in parallel(), live and predicted"]
            self.assertEqual(list(series), ["predicted", "live, median", "live, least", "live, greatest"])
            self.assertEqual(len(labels), 2)
            for i, clusters in enumerate(("1", "2")):
                own = [run for run in runs if run["application"] == program and run["clusters"] == clusters]
                times = [int(run["parallel_ns"]) for run in own]
                self.assertEqual(len(times), 3)
                self.assertTrue(all(time > 0 for time in times))
                self.assertEqual([series[f"live, {what}"][i] for what in ("median", "least", "greatest")],
                                 [statistics.median(times), min(times), max(times)])
                self.assertEqual("oversubscribed" in labels[i], own[0]["oversubscribed"] == "yes")
                self.assertEqual(own[0]["oversubscribed"] == "yes", int(own[0]["threads"]) > int(own[0]["processors"]))
                report, = [p["report"] for p in json.loads((self.folder / "both" / "study.json").read_text())["points"]
                           if p["application"] == program and p["settings"]["clusters"] == int(clusters)
                           and p["settings"]["simulation.mode"] == "real"]
                self.assertEqual(series["predicted"][i], round(report["parallel_cycles"] / report["cycles_per_second"] * 1e9))

    def test_live_figures_have_their_table_and_data(self):
        self.open("both.html")
        title = "jacobi --size 64 --iterations 3: time in parallel(), live and predicted"
        labels, series = self.charts()[title]
        head, *rows = self.tables()[title]
        self.assertEqual(head, ["point", *series])
        self.assertEqual([row[0] for row in rows], labels)
        figure = next(f for f in self.browser.find_elements(By.TAG_NAME, "figure") if title in f.text)
        read, *lines = csv.reader(io.StringIO(self.download(figure.find_element(By.CSS_SELECTOR, "button.download").click)))
        self.assertEqual(read, head)
        for i, name in enumerate(series, 1):
            self.assertEqual([float(line[i]) for line in lines], series[name])
        self.assertEqual(figure.find_element(By.TAG_NAME, "pre").get_attribute("textContent"),
                         "braid study both.yaml -o both --oversubscribe")
        each = next(b for b in self.browser.find_elements(By.CSS_SELECTOR, "#live button.download")
                    if "each live run" in b.get_attribute("aria-label"))
        self.assertEqual(self.download(each.click), (self.folder / "both" / "live.csv").read_text())
        text = self.browser.find_element(By.ID, "live").text
        self.assertIn("Points that are only simulated of both", text)
        self.assertIn("simulation.mode no-delay", text)

    def test_choosing_other_points_leaves_live_charts(self):
        self.open("both.html")
        before = {title: chart for title, chart in self.charts().items() if "live and predicted" in title}
        self.script("""const label = [...document.querySelectorAll('label')].find((l) => l.textContent.startsWith('simulation.mode'));
            label.firstElementChild.value = 'real'; label.firstElementChild.dispatchEvent(new Event('change'))""")
        after = {title: chart for title, chart in self.charts().items() if "live and predicted" in title}
        self.assertEqual(len(before), 2)
        self.assertEqual(after, before)

    def test_queueing_theory_stands_beside_the_simulation(self):
        self.open("both.html")
        rows, charts = self.live_rows("mva.csv"), self.charts()
        self.assertEqual([(row["application"], row["clusters"]) for row in rows], [("jacobi", "2"), ("matmul", "2")])
        for row in rows:
            for column, what in (("message_cycles", "time of a message, cycles"), ("utilisation", "utilisation of a proxy, mean")):
                labels, series = charts[f"{row['application']} {row['arguments']}: {what}, simulated and by mean value analysis"]
                self.assertEqual(len(labels), 1)
                self.assertEqual(series, {"simulated": [float(row[column])], "mean value analysis": [float(row[f"mva_{column}"])]})
        each = next(b for b in self.browser.find_elements(By.CSS_SELECTOR, "#mva button.download")
                    if "mean value analysis of" in b.get_attribute("aria-label"))
        self.assertEqual(self.download(each.click), (self.folder / "both" / "mva.csv").read_text())

    # --- The page as a page

    def test_it_loads_nothing(self):
        self.browser.get_log("performance")
        self.open("study.html")
        sent = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        urls = [m["params"]["request"]["url"] for m in sent if m["method"] == "Network.requestWillBeSent"]
        self.assertEqual([url for url in urls if not re.match(r"(file|data|blob|about|chrome)", url)], [])
        self.assertTrue(any(url.endswith("study.html") for url in urls))

    def test_dark_follows_the_system(self):
        colors = {}
        for dark in (False, True):
            self.open("study.html", dark=dark)
            colors[dark] = self.script("""const chart = [...charts][0];
                return [getComputedStyle(document.body).backgroundColor, chart.data.datasets[0].borderColor, chart.options.scales.x.ticks.color]""")
        self.picture("dark")
        self.assertEqual(colors[False][0], "rgb(255, 255, 255)")
        for light, dark in zip(colors[False], colors[True]):
            self.assertNotEqual(light, dark)

    def test_all_that_is_drawn_has_a_name_for_screen_readers(self):
        for file in ("study.html", "run.html", "live.html", "both.html"):
            with self.subTest(file=file):
                self.open(file)
                unnamed = self.script("""return [...document.querySelectorAll('canvas, button, input, select, [role=region]')].filter((e) =>
                    !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length)).map((e) => e.outerHTML)""")
                self.assertEqual(unnamed, [])
                tree = self.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
                roles = {node["role"]["value"] for node in tree if not node.get("ignored")}
                self.assertTrue({"main", "navigation", "heading", "image", "figure"} <= roles, roles)
                self.assertTrue(all(n["name"]["value"] for n in tree if not n.get("ignored") and n["role"]["value"] == "image"))

    def test_paper_has_tables_commands_and_light_colours(self):
        self.open("run.html", dark=True)
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        self.script("window.dispatchEvent(new Event('beforeprint'))")
        self.assertEqual(self.script("return document.querySelectorAll('details:not([open])').length"), 0)
        self.assertEqual(self.script("return getComputedStyle(document.querySelector('header')).display"), "none")
        self.assertEqual(self.script("return getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")
        pdf = base64.b64decode(self.browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": False})["data"])
        self.assertGreater(pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page "), 1)
        if PICTURES:
            pathlib.Path(PICTURES, "run.pdf").write_bytes(pdf)

    def test_a_narrow_window_does_not_scroll_sideways(self):
        self.browser.set_window_size(500, 900)
        self.addCleanup(self.browser.set_window_size, 1400, 1000)
        for file in ("study.html", "run.html", "both.html"):
            self.open(file)
            wide = self.script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
            self.assertLessEqual(wide, 1, file)


if __name__ == "__main__":
    if CHROMIUM is None or DRIVER is None:
        print("skipped: chromium or chromedriver is not installed (tools/install_packages --tests)")
        sys.exit(77)
    sys.argv = sys.argv[:1] + sys.argv[2:]
    unittest.main()

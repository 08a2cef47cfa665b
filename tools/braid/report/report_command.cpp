#include "tools/braid/report/report_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "settings/document.h"
#include "tools/braid/command_line/output_file_option.h"
#include "tools/braid/find_program.h"
#include "tools/braid/report/report_page.h"
#include "tools/braid/report/report_source.h"

namespace braid::cli {
namespace {

constexpr const char* kFooter =
    "A source is the folder of a study, or the report of a run ('--report' of 'braid sim' and 'braid run'). The page is one\n"
    "file, which a browser opens from disk and without a network: charts with their tables, the commands that repeat\n"
    "them and their data to download; a page for each configuration; two sources side by side. The same results give the same file.\n"
    "\n"
    "A trace ('braid sim --trace') adds a timeline: a window of the run, and each message through its stages. Of long runs choose a\n"
    "window; the page holds 20000 messages.\n"
    "\n"
    "Status: 64: wrong usage; 73: the page cannot be written; 78: a source is none, or another version wrote it.\n"
    "\n"
    "Examples:\n"
    "  braid study configs/study-small.yaml -o small && braid report small -o small.html\n"
    "  braid report before after -o both.html\n"
    "  braid run --report run.json jacobi && braid report run.json -o run.html\n"
    "  braid sim --report run.json --trace run.jsonl jacobi && braid report run.json --trace run.jsonl -o run.html\n";

struct Arguments {
  std::vector<std::string> sources;
  std::string file;
  std::string trace;
  std::string window;
};

int write_report(const Arguments& arguments) {
  if (arguments.file.empty())
    refuse(kUsageStatus, "report: name the page's file, e.g. '-o report.html'; see 'braid report --help'");
  if (!arguments.trace.empty() && arguments.sources.size() != 1)
    refuse(kUsageStatus, "report: --trace belongs to one source; name only that");
  if (!arguments.window.empty() && arguments.trace.empty())
    refuse(kUsageStatus, "report: --window chooses a part of a trace; name that with --trace");
  if (arguments.sources.size() > 2)
    refuse(kUsageStatus, fmt::format("report: takes one source, or two side by side; {} are named",
                                     arguments.sources.size()));
  std::vector<std::string> read = arguments.sources;
  if (!arguments.trace.empty()) read.push_back(arguments.trace.substr(arguments.trace.find('=') + 1));
  if (std::count(read.begin(), read.end(), settings::kStandardInput) > 1)
    refuse(kUsageStatus, "report: '-' is standard input, which can be read once; name files");
  for (const std::string& path : read) {
    std::error_code problem;
    if (std::filesystem::equivalent(path, arguments.file, problem) &&
        std::filesystem::is_regular_file(path, problem))
      refuse(kUsageStatus,
             fmt::format("--output: {} is what the page is made of; name another file", arguments.file));
  }
  TraceWindow window;
  if (!arguments.window.empty()) {
    const Result<TraceWindow> parsed = parse_window(arguments.window);
    if (!parsed) refuse(kUsageStatus, parsed.error().text);
    window = *parsed;
  }
  std::vector<ReportSource> sources;
  for (const std::string& path : arguments.sources) {
    Result<ReportSource> source = load_source(path);
    if (!source) refuse(kConfigStatus, source.error().text);
    sources.push_back(std::move(*source));
  }
  if (!arguments.trace.empty()) {
    if (const Result<void> added = add_trace(sources.front(), arguments.trace, window); !added)
      refuse(kConfigStatus, added.error().text);
  }
  tell_apart(sources);
  const Result<std::string> page = report_page(sources, report_parts());
  if (!page) refuse(kConfigStatus, page.error().text);
  OutputFileOption file("--output", arguments.file);
  file.write(*page);
  file.close();
  return 0;
}

}  // namespace

Subcommand report_command() {
  const auto arguments = std::make_shared<Arguments>();
  return {.name = "report",
          .about = "Make a page to look at of a study, or of runs",
          .usage = "braid report source [source] -o report.html [options]",
          .footer = kFooter,
          .options =
              {{.names = "source",
                .value_text = "SOURCE ...",
                .help = "a study's folder, or a run's report; -: that of standard input",
                .target = &arguments->sources},
               {.names = "-o,--output", .value_text = "FILE", .help = "the page", .target = &arguments->file},
               {.names = "--trace",
                .value_text = "FILE",
                .help = "a trace of the run; of a study's point: POINT=FILE",
                .target = &arguments->trace},
               {.names = "--window",
                .value_text = "FROM:UNTIL",
                .help = "only messages of the trace in these cycles",
                .target = &arguments->window}},
          .run = [arguments](const Given&) { return write_report(*arguments); }};
}

}  // namespace braid::cli
